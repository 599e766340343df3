package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/tun"
)

// maxText is the maximum length of texts in the API, in bytes; maxEndpoints is the maximum
// number of endpoints of a gateway in an announcement.
const (
	maxText      = 1024
	maxEndpoints = 8
)

// receivedAnnouncement is the announcement of the remote cluster that this gateway
// received.
type receivedAnnouncement struct {
	mu    sync.Mutex
	entry *v1alpha1.Announcement // as in the status; nil: not loaded yet
}

// exchangeAnnouncements sends this cluster's announcements and accepts those of the remote
// cluster, from when the gateway has started until ctx ends.
func (f *follower) exchangeAnnouncements(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.started:
	}
	fabric := f.process.Gateway().Fabric()
	listener, err := fabric.Listen(control.Port)
	if err != nil {
		f.log.Error("cannot accept announcements", "error", err)
		return
	}
	var background sync.WaitGroup
	defer background.Wait()
	background.Go(func() {
		identify := func(c net.Conn) (control.Link, bool) {
			l, ok := fabric.LinkOf(c)
			return control.Link(l), ok
		}
		if err := control.Serve(listener, identify, f.receive, f.log); err != nil {
			f.log.Error("announcements are no longer accepted", "error", err)
		}
	})
	f.announcer.Run(ctx)
	listener.Close()
}

// newAnnouncer returns an announcer that uses the links that are up.
func (f *follower) newAnnouncer() *control.Announcer {
	return control.NewAnnouncer(control.AnnouncerOptions{
		Up: func() (up []control.Link) {
			if d := f.process.Gateway(); d != nil {
				for _, l := range d.Fabric().LinksUp() {
					up = append(up, control.Link(l))
				}
			}
			return up
		},
		Dial: func(ctx context.Context, l control.Link) (net.Conn, error) {
			return f.process.Gateway().Fabric().DialLink(ctx, l.OwnKey, l.RemoteKey, control.Port)
		},
		Jitter: rand.Float64,
		Log:    f.log,
	})
}

// links returns the links of the running gateway, none before it runs.
func (f *follower) links() []tun.LinkStatus {
	if d := f.process.Gateway(); d != nil {
		return d.Fabric().Status()
	}
	return nil
}

// announce builds this cluster's announcement from the objects.
func (f *follower) announce() {
	p, ok := f.objects.peer()
	n, known := f.objects.networks.Get(v1alpha1.ClusterNetworkName)
	if !ok || !known {
		return
	}
	a, err := toControl(peering.Announce(p, n), f.options.Name)
	if err == nil && len(a.Gateways) > 0 {
		err = f.announcer.Set(a)
	}
	if err != nil && err.Error() != f.announceProblem {
		f.log.Warn("cannot announce this cluster; the remote cluster keeps the last announcement", "error", err)
	}
	f.announceProblem = ""
	if err != nil {
		f.announceProblem = err.Error()
	}
}

// receive accepts an announcement of the remote cluster, or returns why it is rejected. It
// may be called from any goroutine.
func (f *follower) receive(_ control.Link, c control.Announcement) error {
	p, ok := f.objects.peer()
	n, known := f.objects.networks.Get(v1alpha1.ClusterNetworkName)
	if !ok || !known {
		return fmt.Errorf("the gateway has not read its Peering and ClusterNetwork yet; it accepts announcements later")
	}
	a := fromControl(c, f.options.Name)
	refusal := peering.Refusal(p, n.Status.ClusterID, &a)
	f.metrics.announced(refusal)

	f.received.mu.Lock()
	defer f.received.mu.Unlock()
	was := f.received.from(p, f.options.Name)
	if refusal != nil {
		was.Refused = client.Clip(refusal.Error(), maxText)
	} else {
		now := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
		a.HeardAt, a.Refusal, a.Skew, a.Superseded = &now, was.Refusal, was.Skew, peering.Superseded(p, &a)
		if sameAnnouncement(a, was) {
			a.HeardAt = was.HeardAt
		}
		was = a
	}
	f.received.entry = &was
	f.requestPublish()
	return refusal
}

// from returns the current entry: after a start, the one in the status of the Peering. The
// caller holds h.mu.
func (h *receivedAnnouncement) from(p *v1alpha1.Peering, name string) v1alpha1.Announcement {
	if h.entry != nil {
		return *h.entry
	}
	for _, a := range p.Status.Announcements {
		if a.HeardBy == name {
			return a
		}
	}
	return v1alpha1.Announcement{HeardBy: name}
}

// announcements returns the gateway's part of the status: the announcement that it
// received, and whether its own is rejected.
func (f *follower) announcements(p *v1alpha1.Peering) []v1alpha1.Announcement {
	f.received.mu.Lock()
	entry := f.received.from(p, f.options.Name)
	f.received.entry = &entry
	f.received.mu.Unlock()
	recordResults(&entry, f.announcer.Results())
	if entry.HeardAt == nil && entry.Refused == "" && entry.Refusal == "" && entry.Skew == "" {
		return nil
	}
	return []v1alpha1.Announcement{entry}
}

// recordResults records the results of the gateway's own announcements in an entry.
func recordResults(entry *v1alpha1.Announcement, results []control.Result) {
	entry.Refusal, entry.Skew = "", ""
	for _, r := range results {
		if r.Refused != "" {
			entry.Refusal = client.Clip(r.Refused, maxText)
		}
		var skew *control.Skew
		if errors.As(r.Err, &skew) {
			entry.Skew = client.Clip(skew.Error(), maxText)
		}
	}
}

// sameAnnouncement reports whether two announcements have the same content.
func sameAnnouncement(a, b v1alpha1.Announcement) bool {
	return b.HeardAt != nil && a.ClusterID == b.ClusterID && reflect.DeepEqual(a.Prefixes, b.Prefixes) &&
		reflect.DeepEqual(a.ExternalPrefixes, b.ExternalPrefixes) && reflect.DeepEqual(a.Gateways, b.Gateways) && slices.Equal(a.Superseded, b.Superseded)
}

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

// maxText is the length of texts that the API server takes, in bytes; maxEndpoints is how
// many endpoints of a gateway an announcement has.
const (
	maxText      = 1024
	maxEndpoints = 8
)

// heard is what the remote cluster announced to this gateway.
type receivedAnnouncement struct {
	mu    sync.Mutex
	entry *v1alpha1.Announcement // as in the status; nil: not known yet
}

// exchangeAnnouncements announces this cluster to the remote one and takes what that announces, from
// the time that there are links until ctx ends.
func (f *follower) exchangeAnnouncements(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.started:
	}
	fabric := f.process.Gateway().Fabric()
	listener, err := fabric.Listen(control.Port)
	if err != nil {
		f.log.Error("no announcements can be taken", "error", err)
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
			f.log.Error("announcements are not taken any more", "error", err)
		}
	})
	f.announcer.Run(ctx)
	listener.Close()
}

// newAnnouncer makes what announces over the links that are up.
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

// links are those of the running gateway, none before it runs.
func (f *follower) links() []tun.LinkStatus {
	if d := f.process.Gateway(); d != nil {
		return d.Fabric().Status()
	}
	return nil
}

// announce makes what the objects say of this cluster the announcement.
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
		f.log.Warn("this cluster cannot be announced; the other one keeps what it knows", "error", err)
	}
	f.announceProblem = ""
	if err != nil {
		f.announceProblem = err.Error()
	}
}

// hear takes an announcement of the remote cluster, or says why not. It is called from
// any goroutine.
func (f *follower) receive(_ control.Link, c control.Announcement) error {
	p, ok := f.objects.peer()
	n, known := f.objects.networks.Get(v1alpha1.ClusterNetworkName)
	if !ok || !known {
		return fmt.Errorf("the gateway has not read its Peering and ClusterNetwork yet; it will be asked again")
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

// from is the entry so far: after a start, the one in the status of the Peering. h.mu is
// held.
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

// announcements is the gateway's part of the status: what it heard, and whether it is
// refused itself.
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

// recordResults says in an entry what came of announcing.
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

// sameAnnouncement reports whether two say the same.
func sameAnnouncement(a, b v1alpha1.Announcement) bool {
	return b.HeardAt != nil && a.ClusterID == b.ClusterID && reflect.DeepEqual(a.Prefixes, b.Prefixes) &&
		reflect.DeepEqual(a.ExternalPrefixes, b.ExternalPrefixes) && reflect.DeepEqual(a.Gateways, b.Gateways) && slices.Equal(a.Superseded, b.Superseded)
}

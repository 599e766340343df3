package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
)

// maxText is the maximum length of texts in the API, in bytes; maxEndpoints is the maximum
// number of endpoints of a gateway in an announcement.
const (
	maxText      = 1024
	maxEndpoints = 8
)

// exchangeAnnouncements sends this cluster's announcements and accepts those of the remote
// cluster, from when the gateway has started until ctx ends.
func (f *follower) exchangeAnnouncements(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.started:
	}
	streams := f.process.Gateway().Fabric().Streams
	listener, err := streams.Listen(control.Port)
	if err != nil {
		f.log.Error("cannot accept announcements", "error", err)
		return
	}
	var background sync.WaitGroup
	defer background.Wait()
	background.Go(func() {
		identify := func(c net.Conn) (control.Link, bool) {
			l, ok := streams.LinkOf(c)
			return control.Link(l), ok
		}
		if err := control.Serve(listener, identify, f.receive, f.exports, f.linkLog); err != nil {
			f.log.Error("announcements are no longer accepted", "error", err)
		}
	})
	f.announcer.Run(ctx)
	listener.Close()
}

func (f *follower) followExports(ctx context.Context) {
	store := &exportedServices{exports: f.exports, metrics: f.metrics, log: f.log}
	f.client.ExportedServices(f.options.Namespace).Reflector("", store).RunWithContext(ctx)
}

func (f *follower) linksUp() (up []control.Link) {
	if d := f.process.Gateway(); d != nil {
		for _, l := range d.Fabric().LinksUp() {
			up = append(up, control.Link(l))
		}
	}
	return up
}

func (f *follower) dial(ctx context.Context, l control.Link) (net.Conn, error) {
	return f.process.Gateway().Fabric().Streams.Dial(ctx, l.OwnKey, l.RemoteKey, control.Port)
}

func (f *follower) announce() {
	p, ok := f.objects.peer()
	if !ok || p.Status.Announced == nil {
		return
	}
	a, err := toControl(*p.Status.Announced, f.options.Name)
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
func (f *follower) receive(from control.Link, c control.Announcement) error {
	p, ok := f.objects.peer()
	n, known := f.objects.networks.Get(v1alpha1.ClusterNetworkName)
	last, loaded := f.objects.reported()
	if !ok || !known || !loaded {
		return fmt.Errorf("the gateway has not read its Peering and ClusterNetwork yet; it accepts announcements later")
	}
	a := fromControl(c)
	refusal := peering.Refusal(p, peering.HoldersOf(n.Status.ClusterID, nil), &a)
	f.metrics.announced(refusal)

	f.received.mu.Lock()
	defer f.received.mu.Unlock()
	f.received.load(last)
	if refusal != nil {
		f.received.refused = client.Clip(refusal.Error(), maxText)
	} else {
		before := f.received.latest
		a.Superseded = peering.Superseded(p, &a)
		refusal = f.received.take(a, p.Status.Announcement, time.Now())
		if refusal == nil {
			refusal = clusterIDTaken(p, before, a.ClusterID)
		}
	}
	f.publishRequested.Set()
	return refusal
}

// reportAnnouncements sets the fields of a report about announcements: what the gateway
// received, and whether its own is rejected.
func (f *follower) reportAnnouncements(s *v1alpha1.GatewayReportStatus, last v1alpha1.GatewayReportStatus) {
	f.received.mu.Lock()
	f.received.load(last)
	s.Announcement, s.Refused = f.received.latest, f.received.refused
	f.received.mu.Unlock()
	recordResults(s, f.announcer.Results())
}

func recordResults(entry *v1alpha1.GatewayReportStatus, results []control.Result) {
	for _, r := range results {
		entry.RevisionInEffect = max(entry.RevisionInEffect, r.Stale)
		if r.Refused != "" {
			entry.Refusal = client.Clip(r.Refused, maxText)
		}
		var skew *control.Skew
		if errors.As(r.Err, &skew) {
			entry.Skew = client.Clip(skew.Error(), maxText)
		}
	}
}

// sameAnnouncement reports whether two announcements have the same content, whenever they were received.
func sameAnnouncement(a, b v1alpha1.Announcement) bool {
	a.HeardAt, b.HeardAt = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// receivedAnnouncement is what the remote cluster announced to this gateway. The highest
// revision counts, from whichever remote gateway it comes, and clocks decide nothing.
type receivedAnnouncement struct {
	mu      sync.Mutex
	loaded  bool                   // latest and refused are valid: after a start they are those of the last report
	latest  *v1alpha1.Announcement // nil: none was accepted
	refused string                 // why a later one was rejected; empty: none was
}

// load loads the fields from the last report, once. The caller holds h.mu.
func (h *receivedAnnouncement) load(last v1alpha1.GatewayReportStatus) {
	if !h.loaded {
		h.loaded, h.latest, h.refused = true, last.Announcement, last.Refused
	}
}

// take considers an announcement that the Peering grants. published is the one in the status of
// the Peering, nil if there is none. It returns a *control.Stale if a later one is in effect. The
// caller holds h.mu.
func (h *receivedAnnouncement) take(a v1alpha1.Announcement, published *v1alpha1.Announcement, now time.Time) error {
	inEffect := h.latest
	if published != nil && (inEffect == nil || peering.Newer(published, inEffect)) {
		inEffect = published
	}
	if inEffect != nil && peering.Newer(inEffect, &a) {
		return &control.Stale{InEffect: inEffect.Revision}
	}
	at := metav1.NewMicroTime(now.Truncate(time.Microsecond))
	a.HeardAt = &at
	for _, was := range []*v1alpha1.Announcement{published, h.latest} {
		if was != nil && sameAnnouncement(a, *was) {
			a.HeardAt = was.HeardAt
		}
	}
	h.latest, h.refused = &a, ""
	return nil
}

// clusterIDTaken returns why the controller, which knows all Peerings, refuses the cluster ID
// of an announcement; nil if it does not, or not yet. reported is the announcement that the
// gateway reported before, nil if there was none: the verdict is about its ID.
func clusterIDTaken(p *v1alpha1.Peering, reported *v1alpha1.Announcement, id v1alpha1.ClusterID) error {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAnnounced)
	if c == nil || c.Reason != peering.ReasonClusterIDTaken || reported == nil || reported.ClusterID != id {
		return nil
	}
	return errors.New(c.Message)
}

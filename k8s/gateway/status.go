package gateway

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/tun"
)

const (
	reportInterval = time.Second      // of writes: the remote cluster may cause changes at any rate
	reportCheck    = time.Second      // how often the report is checked, even if no link goes up or down
	reportBurst    = 4                // writes at once: links that are lost together are not lost in the same moment
	heardInterval  = 10 * time.Second // of writes of what the remote cluster says
	heardBurst     = 4                // writes of that at once
	reportTimeout  = 10 * time.Second // request timeout; also the minimum interval of writes of measurements and after failures
)

// publish keeps the gateway's report up to date until ctx ends: state and links at once,
// measurements at intervals. At the end it marks all links as down, so that nodes prefer
// another gateway, if there is one.
func (f *follower) publish(ctx context.Context) {
	tick := time.NewTicker(reportCheck)
	defer tick.Stop()
	var writes reportWrites
	for {
		select {
		case <-ctx.Done():
			f.publishLinksDown()
			return
		case <-tick.C:
		case <-f.publishRequested:
		}
		p, ok := f.objects.peer()
		have, known := f.objects.reported()
		if !ok || !known {
			continue
		}
		want := f.report(p, have, time.Now())
		write, withoutHeard := writes.due(compareReports(have, want))
		if !write {
			continue
		}
		if withoutHeard {
			keepHeard(&want, have)
		}
		err := f.write(ctx, want)
		if err != nil && !writes.failed && ctx.Err() == nil {
			f.log.Warn("cannot write the GatewayReport; trying again", "error", err, "every", reportTimeout)
		}
		writes.done(err)
	}
}

// reportWrites decides when the report is written. The zero value is ready for use.
type reportWrites struct {
	all, heard ratelimit.Bucket
	last       time.Time // of the last write or failed write
	failed     bool      // whether the last one failed
}

// due reports whether to write a report with changes of some kinds, and whether without those
// that the remote cluster caused.
func (w *reportWrites) due(c reportChanges) (write, withoutHeard bool) {
	now := time.Now()
	recently := now.Sub(w.last) < reportTimeout
	withoutHeard = c.heard && !w.heard.Has(now, heardInterval, heardBurst)
	waits := !c.own && (!c.heard || withoutHeard) && (recently || !c.later)
	if recently && w.failed || waits || !w.all.Take(now, reportInterval, reportBurst) {
		return false, false
	}
	if c.heard && !withoutHeard {
		w.heard.Spend(now, heardInterval, 1)
	}
	return true, withoutHeard
}

func (w *reportWrites) done(err error) { w.last, w.failed = time.Now(), err != nil }

// publishLinksDown marks all links as down. The gateway continues to forward for as long as
// nodes need to learn of it.
func (f *follower) publishLinksDown() {
	p, ok := f.objects.peer()
	have, known := f.objects.reported()
	if !ok || !known {
		return
	}
	last := f.report(p, have, time.Now())
	for i := range last.Links {
		last.Links[i].Up = false
	}
	last.Summary = summaryOf(last.Links)
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Drain)
	defer cancel()
	if err := f.write(ctx, last); err != nil {
		f.log.Warn("cannot publish that this gateway is stopping", "error", err)
	}
}

// write applies the gateway's report, which is deleted with its pod.
func (f *follower) write(ctx context.Context, status v1alpha1.GatewayReportStatus) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	report := &v1alpha1.GatewayReport{ObjectMeta: metav1.ObjectMeta{Name: f.options.Name}, Status: status}
	if f.options.PodUID != "" {
		report.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: f.options.Name, UID: f.options.PodUID}}
	}
	_, err := f.client.GatewayReports(f.options.Namespace).Apply(ctx, report, manager)
	return err
}

// report returns the state of this gateway and its links, have being its last report. It has
// no MTU and no links before there is a configuration.
func (f *follower) report(p *v1alpha1.Peering, have v1alpha1.GatewayReportStatus, now time.Time) v1alpha1.GatewayReportStatus {
	s := v1alpha1.GatewayReportStatus{Peering: f.options.Peering}
	var links []tun.LinkStatus
	if d := f.process.Gateway(); d != nil {
		s.MTU = int32(d.Fabric().Gateway.Table().MTU())
		s.Mappings = translate.Served(f.objects.mappings.List(), d.Fabric().Relay.Mappings())
		links = d.Fabric().Status()
	}
	for _, l := range links {
		s.Links = append(s.Links, linkStatus(l))
	}
	f.showKeys(&s, p, have, links, now)
	s.Summary = summaryOf(s.Links)
	f.reportAnnouncements(&s, have)
	s.Services = f.receiver.report()
	return s
}

func linkStatus(l tun.LinkStatus) v1alpha1.LinkStatus {
	s := v1alpha1.LinkStatus{Remote: l.Name, Up: l.Up, PathMTU: int32(l.PathMTU)}
	if l.RTT > 0 {
		s.RTT = &metav1.Duration{Duration: max(l.RTT.Round(10*time.Microsecond), 10*time.Microsecond)}
	}
	if !l.LastHandshake.IsZero() {
		s.LastHandshake = &metav1.Time{Time: l.LastHandshake.Truncate(time.Second)}
	}
	at := v1alpha1.Endpoint(netip.AddrPortFrom(l.Endpoint.Addr().Unmap(), l.Endpoint.Port()).String())
	if peering.IsEndpoint(at) { // otherwise the API server would refuse the whole report
		s.Endpoint = at
	}
	return s
}

// summaryOf returns the summary of links: of the one that is up and has the shortest
// round-trip time.
func summaryOf(links []v1alpha1.LinkStatus) (s v1alpha1.GatewaySummary) {
	up := 0
	var best *v1alpha1.LinkStatus
	for i := range links {
		l := &links[i]
		if l.LastHandshake != nil && (s.LastHandshake == nil || s.LastHandshake.Before(l.LastHandshake)) {
			s.LastHandshake = l.LastHandshake
		}
		if !l.Up {
			continue
		}
		up++
		if best == nil || l.RTT != nil && (best.RTT == nil || l.RTT.Duration < best.RTT.Duration) {
			best = l
		}
	}
	if best != nil {
		s.RTT, s.Endpoint = best.RTT, best.Endpoint
	}
	s.LinksUp = fmt.Sprintf("%d/%d", up, len(links))
	return s
}

func (f *follower) showKeys(s *v1alpha1.GatewayReportStatus, p *v1alpha1.Peering, have v1alpha1.GatewayReportStatus, links []tun.LinkStatus, now time.Time) {
	if f.rotation.generation == 0 {
		f.rotation.generation = keyInUse(p, f.options.Name, have)
	}
	use, next := f.rotation.step(f.ownKeys(), links, now)
	if use != nil {
		s.PublicKey, s.KeyGeneration = v1alpha1.PublicKey(use.Public.String()), use.Generation
	}
	if next != nil {
		s.NextPublicKey = v1alpha1.PublicKey(next.Public.String())
	}
	established := slices.ContainsFunc(f.ownKeys(), func(k translate.OwnKey) bool {
		return k.Generation > 0 && slices.ContainsFunc(links, func(l tun.LinkStatus) bool { return l.Up && l.OwnKey == k.Public })
	})
	if f.established.Swap(established) != established {
		f.objects.changed.Set() // the key of an invite is no longer needed, or needed again
	}
}

// keyInUse returns the generation of the key that a gateway used last, 0 if none is known: that
// of its last report, or, if its pod is new, that of the pod before. A gateway that is new, or is
// back, uses no older key than the others: it may have one of before a rotation.
func keyInUse(p *v1alpha1.Peering, gateway string, have v1alpha1.GatewayReportStatus) (oldest int32) {
	if have.KeyGeneration > 0 {
		return have.KeyGeneration
	}
	for _, was := range p.Status.Gateways {
		switch {
		case was.KeyGeneration == 0:
		case was.Name == gateway:
			return was.KeyGeneration
		case oldest == 0 || was.KeyGeneration < oldest:
			oldest = was.KeyGeneration
		}
	}
	return oldest
}

// reportChanges are the kinds of fields in which a report differs from the desired one.
type reportChanges struct {
	own   bool // the state of this gateway and its links: to be written now
	heard bool // what the remote cluster says: likewise, within a budget
	later bool // measurements
}

func compareReports(have, want v1alpha1.GatewayReportStatus) (c reportChanges) {
	c.own = have.Peering != want.Peering || have.PublicKey != want.PublicKey || have.KeyGeneration != want.KeyGeneration || have.NextPublicKey != want.NextPublicKey ||
		have.MTU != want.MTU || !slices.Equal(have.Mappings, want.Mappings) || len(have.Links) != len(want.Links) || (have.Services == nil) != (want.Services == nil)
	c.heard = have.Refused != want.Refused || have.Refusal != want.Refusal || have.Skew != want.Skew || have.RevisionInEffect != want.RevisionInEffect || !equalAnnouncements(have.Announcement, want.Announcement)
	if h, w := have.Services, want.Services; h != nil && w != nil {
		c.heard = c.heard || h.From != w.From || h.Synced != w.Synced || h.Refused != w.Refused
		c.later = h.Received != w.Received || h.Message != w.Message
	}
	for _, w := range want.Links {
		i := slices.IndexFunc(have.Links, func(h v1alpha1.LinkStatus) bool { return h.Remote == w.Remote })
		if i < 0 || have.Links[i].Up != w.Up || have.Links[i].PathMTU != w.PathMTU || (have.Links[i].LastHandshake == nil) != (w.LastHandshake == nil) {
			c.own = true
			continue
		}
		h := have.Links[i]
		c.later = c.later || h.Endpoint != w.Endpoint || !h.LastHandshake.Equal(w.LastHandshake) || moved(h.RTT, w.RTT)
	}
	return c
}

func keepHeard(s *v1alpha1.GatewayReportStatus, have v1alpha1.GatewayReportStatus) {
	s.Announcement, s.Refused, s.Refusal, s.Skew, s.RevisionInEffect = have.Announcement, have.Refused, have.Refusal, have.Skew, have.RevisionInEffect
	if s.Services != nil && have.Services != nil {
		s.Services = have.Services
	}
}

// equalAnnouncements compares two announcements; times are compared as instants.
func equalAnnouncements(a, b *v1alpha1.Announcement) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.HeardAt.Equal(b.HeardAt) && sameAnnouncement(*a, *b)
}

// moved reports whether a round-trip time is another one, and not the same as ever with its
// usual jitter.
func moved(have, want *metav1.Duration) bool {
	if have == nil || want == nil {
		return have != want
	}
	return (want.Duration - have.Duration).Abs() > have.Duration/4
}

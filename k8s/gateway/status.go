package gateway

import (
	"context"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/tun"
)

const (
	statusInterval = time.Second      // how often the status is checked
	statusTimeout  = 10 * time.Second // request timeout; also the minimum interval of writes of measurements and after failures
)

// publish keeps the gateway's part of the status of its Peering up to date until ctx ends:
// state and links at once, measurements at intervals. At the end it marks all links as
// down, so that nodes prefer another gateway, if there is one.
func (f *follower) publish(ctx context.Context) {
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	var last time.Time // time of the last write or failed write
	failed := false
	for {
		select {
		case <-ctx.Done():
			f.publishLinksDown()
			return
		case <-tick.C:
		case <-f.publishRequested:
			if time.Since(last) < statusInterval {
				continue // handled at the next tick: the remote cluster may trigger this at any rate
			}
		}
		p, ok := f.objects.peer()
		if !ok {
			continue
		}
		want := f.status(p, time.Now())
		now, later := compareStatus(gatewayPart(&p.Status, f.options.Name), want)
		recently := time.Since(last) < statusTimeout
		if !now && !later || recently && (failed || !now) {
			continue
		}
		err := f.write(ctx, want)
		last = time.Now()
		if err != nil && !failed && ctx.Err() == nil {
			f.log.Warn("cannot write the status of the Peering; trying again", "error", err, "every", statusTimeout)
		}
		failed = err != nil
	}
}

// publishLinksDown marks all links as down. The gateway continues to forward for as long as
// nodes need to learn of it.
func (f *follower) publishLinksDown() {
	p, ok := f.objects.peer()
	if !ok {
		return
	}
	last := f.status(p, time.Now())
	for i := range last.Links {
		last.Links[i].Up = false
	}
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Drain)
	defer cancel()
	if err := f.write(ctx, last); err != nil {
		f.log.Warn("cannot publish that this gateway is stopping", "error", err)
	}
}

// write applies the gateway's part of the status.
func (f *follower) write(ctx context.Context, status v1alpha1.PeeringStatus) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	_, err := f.client.Peerings().ApplyStatus(ctx, &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: f.options.Peering},
		Status:     status,
	}, "strait-gateway-"+f.options.Name)
	return err
}

// status returns the state of this gateway and its links. It has no MTU and no links before
// there is a configuration.
func (f *follower) status(p *v1alpha1.Peering, now time.Time) v1alpha1.PeeringStatus {
	g := v1alpha1.GatewayStatus{Name: f.options.Name, Node: f.options.Node}
	f.showKeys(&g, p, now)
	for _, a := range f.options.PodAddresses {
		g.PodAddresses = append(g.PodAddresses, v1alpha1.IP(a.String()))
	}
	var links []v1alpha1.LinkStatus
	if d := f.process.Gateway(); d != nil {
		g.MTU = int32(d.Fabric().Gateway.Table().MTU())
		g.Mappings = translate.Served(f.objects.mappings.List(), d.Fabric().Mappings())
		for _, l := range d.Fabric().Status() {
			s := v1alpha1.LinkStatus{Local: f.options.Name, Remote: l.Name, Up: l.Up, PathMTU: int32(l.PathMTU)}
			if l.RTT > 0 {
				s.RTT = &metav1.Duration{Duration: max(l.RTT.Round(10*time.Microsecond), 10*time.Microsecond)}
			}
			if !l.LastHandshake.IsZero() {
				s.LastHandshake = &metav1.Time{Time: l.LastHandshake.Truncate(time.Second)}
			}
			if at := l.Endpoint.Addr().Unmap(); at.IsValid() && at.Zone() == "" { // a zone is meaningless on other hosts
				s.Endpoint = v1alpha1.Endpoint(netip.AddrPortFrom(at, l.Endpoint.Port()).String())
			}
			links = append(links, s)
		}
	}
	return v1alpha1.PeeringStatus{Gateways: []v1alpha1.GatewayStatus{g}, Links: links, Announcements: f.announcements(p)}
}

// showKeys sets the keys that the remote cluster is to use.
func (f *follower) showKeys(g *v1alpha1.GatewayStatus, p *v1alpha1.Peering, now time.Time) {
	if f.rotation.generation == 0 {
		for _, was := range p.Status.Gateways {
			if was.Name == f.options.Name {
				f.rotation.generation = was.KeyGeneration
			}
		}
	}
	links := f.links()
	use, next := f.rotation.step(f.ownKeys(), links, now)
	if use != nil {
		g.PublicKey, g.KeyGeneration = v1alpha1.PublicKey(use.Public.String()), use.Generation
	}
	if next != nil {
		g.NextPublicKey = v1alpha1.PublicKey(next.Public.String())
	}
	established := slices.ContainsFunc(f.ownKeys(), func(k translate.OwnKey) bool {
		return k.Generation > 0 && slices.ContainsFunc(links, func(l tun.LinkStatus) bool { return l.Up && l.OwnKey == k.Public })
	})
	if f.established.Swap(established) != established {
		f.objects.notify() // the key of an invite is no longer needed, or needed again
	}
}

// requestPublish makes publish check the status at once.
func (f *follower) requestPublish() {
	select {
	case f.publishRequested <- struct{}{}:
	default: // a request is pending
	}
}

// gatewayPart returns the part of a status that the gateway with that name writes.
func gatewayPart(s *v1alpha1.PeeringStatus, name string) (part v1alpha1.PeeringStatus) {
	for _, g := range s.Gateways {
		if g.Name == name {
			part.Gateways = []v1alpha1.GatewayStatus{{
				Name: name, PublicKey: g.PublicKey, KeyGeneration: g.KeyGeneration, NextPublicKey: g.NextPublicKey,
				PodAddresses: g.PodAddresses, Node: g.Node, MTU: g.MTU, Mappings: g.Mappings,
			}}
		}
	}
	for _, l := range s.Links {
		if l.Local == name {
			part.Links = append(part.Links, l)
		}
	}
	for _, a := range s.Announcements {
		if a.HeardBy == name {
			part.Announcements = append(part.Announcements, a)
		}
	}
	return part
}

// compareStatus reports whether one gateway's part of a status differs from the desired one
// in fields that must be written now, and whether it differs in measurements.
func compareStatus(have, want v1alpha1.PeeringStatus) (now, later bool) {
	same := slices.EqualFunc(have.Gateways, want.Gateways, func(a, b v1alpha1.GatewayStatus) bool {
		return a.Name == b.Name && a.PublicKey == b.PublicKey && a.KeyGeneration == b.KeyGeneration && a.NextPublicKey == b.NextPublicKey && slices.Equal(a.PodAddresses, b.PodAddresses) && a.Node == b.Node && a.MTU == b.MTU &&
			slices.Equal(a.Mappings, b.Mappings)
	})
	now = !same || len(have.Links) != len(want.Links) || !slices.EqualFunc(have.Announcements, want.Announcements, equalAnnouncements)
	for _, w := range want.Links {
		i := slices.IndexFunc(have.Links, func(h v1alpha1.LinkStatus) bool { return h.Remote == w.Remote })
		if i < 0 || have.Links[i].Up != w.Up || have.Links[i].PathMTU != w.PathMTU {
			now = true
			continue
		}
		h := have.Links[i]
		later = later || h.Endpoint != w.Endpoint || !h.LastHandshake.Equal(w.LastHandshake) || moved(h.RTT, w.RTT)
	}
	return now, later
}

// equalAnnouncements compares two announcements; times are compared as instants.
func equalAnnouncements(a, b v1alpha1.Announcement) bool {
	return a.HeardAt.Equal(b.HeardAt) && a.Refused == b.Refused && a.Refusal == b.Refusal && a.Skew == b.Skew && (a.HeardAt == nil || sameAnnouncement(a, b))
}

// moved reports whether a round-trip time is another one, and not the same as ever
// with its usual jitter: everyone who watches the Peering gets each change.
func moved(have, want *metav1.Duration) bool {
	if have == nil || want == nil {
		return have != want
	}
	return (want.Duration - have.Duration).Abs() > have.Duration/4
}

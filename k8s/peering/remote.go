package peering

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Remote is the effective state of the remote cluster. It shares memory with the Peering.
type Remote struct {
	ClusterID                  v1alpha1.ClusterID // empty: not known yet
	Prefixes, ExternalPrefixes v1alpha1.RemotePrefixes
	Gateways                   []Gateway
	Announced                  bool // by the remote cluster itself, and not only in the spec
}

// Gateway is a gateway of the remote cluster.
type Gateway struct {
	v1alpha1.Peer                      // its name, and how this cluster wants to talk to it
	PublicKeys    []v1alpha1.PublicKey // newest first, at least one
	Endpoints     []v1alpha1.Endpoint  // to be tried in this order
}

// RemoteOf returns the effective state of a Peering's remote cluster at a time.
func RemoteOf(p *v1alpha1.Peering, now time.Time) Remote {
	if a := announcement(p); a != nil {
		return announced(p, a, now)
	}
	r := Remote{ClusterID: cmp.Or(p.Spec.ClusterID, p.Status.ClusterID), Prefixes: p.Spec.Prefixes, ExternalPrefixes: p.Spec.ExternalPrefixes}
	for _, peer := range p.Spec.Peers {
		if Expired(peer.NotAfter, now) {
			continue
		}
		r.Gateways = append(r.Gateways, Gateway{Peer: peer, PublicKeys: []v1alpha1.PublicKey{peer.PublicKey}, Endpoints: endpoints(peer.Endpoint, nil)})
	}
	return r
}

// Ranges returns all CIDRs of the remote cluster.
func (r Remote) Ranges() v1alpha1.RemotePrefixes {
	return slices.Concat(r.Prefixes, r.ExternalPrefixes)
}

// Calls returns the endpoints at which its gateways are contacted first.
func (r Remote) Calls() (all []v1alpha1.Endpoint) {
	for _, g := range r.Gateways {
		all = append(all, g.Endpoints[:min(len(g.Endpoints), 1)]...)
	}
	return all
}

// NextExpiry returns the next time at which the result of RemoteOf, or the accepted invite,
// expires; zero: never.
func NextExpiry(p *v1alpha1.Peering, now time.Time) (at time.Time) {
	ends := []*metav1.Time{p.Spec.InviteUntil}
	for _, peer := range p.Spec.Peers {
		ends = append(ends, peer.NotAfter)
	}
	for _, end := range ends {
		if end != nil && end.After(now) && (at.IsZero() || end.Time.Before(at)) {
			at = end.Time
		}
	}
	return at
}

// Expired reports whether a time has passed. A nil time never passes.
func Expired(at *metav1.Time, now time.Time) bool { return at != nil && !now.Before(at.Time) }

// announcement returns the announcement in the status if the spec grants it, nil otherwise.
func announcement(p *v1alpha1.Peering) *v1alpha1.Announcement {
	if a := p.Status.Announcement; a != nil && a.HeardAt != nil && Refusal(p, Holders{}, a) == nil {
		return a
	}
	return nil
}

// announced returns the remote cluster as it announced itself, with additional fields of
// the spec: seenAs, preshared keys, endpoints.
func announced(p *v1alpha1.Peering, a *v1alpha1.Announcement, now time.Time) Remote {
	r := Remote{
		ClusterID: a.ClusterID, Announced: true,
		Prefixes: remotePrefixes(a.Prefixes, p.Spec.Prefixes), ExternalPrefixes: remotePrefixes(a.ExternalPrefixes, p.Spec.ExternalPrefixes),
	}
	for _, g := range a.Gateways {
		peer := v1alpha1.Peer{Name: g.Name, PublicKey: g.PublicKeys[0]}
		if i := slices.IndexFunc(p.Spec.Peers, func(known v1alpha1.Peer) bool { return known.Name == g.Name }); i >= 0 {
			peer = p.Spec.Peers[i]
			peer.NotAfter = nil
		} else if len(p.Spec.Peers) > 0 {
			peer.PersistentKeepalive = p.Spec.Peers[0].PersistentKeepalive // the same path with the same NAT
		}
		r.Gateways = append(r.Gateways, Gateway{Peer: peer, PublicKeys: slices.Clone(g.PublicKeys), Endpoints: endpoints(peer.Endpoint, g.Endpoints)})
	}
	for _, peer := range p.Spec.Peers {
		if !Expired(peer.NotAfter, now) && !slices.Contains(a.Superseded, peer.PublicKey) && !named(a, peer.PublicKey) {
			r.addWritten(peer)
		}
	}
	return r
}

// addWritten adds a gateway that was added to the spec after the announcement: the admin's
// change takes precedence, for instance after the remote cluster was reinstalled.
func (r *Remote) addWritten(peer v1alpha1.Peer) {
	if i := slices.IndexFunc(r.Gateways, func(g Gateway) bool { return g.Name == peer.Name }); i >= 0 {
		r.Gateways[i].PublicKeys = slices.Insert(r.Gateways[i].PublicKeys, 0, peer.PublicKey)
		return
	}
	r.Gateways = append(r.Gateways, Gateway{Peer: peer, PublicKeys: []v1alpha1.PublicKey{peer.PublicKey}, Endpoints: endpoints(peer.Endpoint, nil)})
}

func named(a *v1alpha1.Announcement, key v1alpha1.PublicKey) bool {
	return slices.ContainsFunc(a.Gateways, func(g v1alpha1.AnnouncedGateway) bool { return slices.Contains(g.PublicKeys, key) })
}

// Superseded returns the keys of the spec that an announcement does not contain.
func Superseded(p *v1alpha1.Peering, a *v1alpha1.Announcement) (keys []v1alpha1.PublicKey) {
	for _, peer := range p.Spec.Peers {
		if !named(a, peer.PublicKey) {
			keys = append(keys, peer.PublicKey)
		}
	}
	return keys
}

func remotePrefixes(announced []v1alpha1.CIDR, spec v1alpha1.RemotePrefixes) (all v1alpha1.RemotePrefixes) {
	for _, cidr := range announced {
		prefix := v1alpha1.RemotePrefix{CIDR: cidr}
		if i := slices.IndexFunc(spec, func(p v1alpha1.RemotePrefix) bool { return p.CIDR == cidr }); i >= 0 {
			prefix = spec[i]
		}
		all = append(all, prefix)
	}
	return all
}

// Listed reports whether a Peering lists a CIDR, or a wider one that it maps to no other, in
// its prefixes: only then may the CIDR keep its addresses in this cluster. An announcement
// within acceptPrefixes is not enough, because the remote cluster chooses it.
func Listed(p *v1alpha1.Peering, cidr v1alpha1.CIDR) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.Prefixes, p.Spec.ExternalPrefixes), func(listed v1alpha1.RemotePrefix) bool {
		return listed.CIDR == cidr || listed.SeenAs == "" && contains(listed.CIDR, cidr)
	})
}

func endpoints(first v1alpha1.Endpoint, others []v1alpha1.Endpoint) (all []v1alpha1.Endpoint) {
	if first != "" {
		all = append(all, first)
	}
	for _, e := range others {
		if e != first {
			all = append(all, e)
		}
	}
	return all
}

package controller

import (
	"slices"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// remote is what is in force of a remote cluster.
type remote struct{ peering.Remote }

func remoteOf(p *v1alpha1.Peering, now time.Time) remote { return remote{peering.RemoteOf(p, now)} }

// ranges are all ranges of the remote cluster.
func (r remote) ranges() v1alpha1.RemotePrefixes {
	return slices.Concat(r.Prefixes, r.ExternalPrefixes)
}

// endpoints are where its gateways can be called, those that this cluster tries first
// before others.
func (r remote) endpoints() (all []v1alpha1.Endpoint) {
	for _, g := range r.Gateways {
		all = append(all, g.Endpoints[:min(len(g.Endpoints), 1)]...)
	}
	return all
}

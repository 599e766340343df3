package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/translate"
)

// objects caches the objects that a gateway's configuration is built from. They follow the
// API server while run runs.
type objects struct {
	peering  string
	uid      types.UID // of the Peering; empty: any
	networks *client.Cache[*v1alpha1.ClusterNetwork]
	peerings *client.Cache[*v1alpha1.Peering]
	nodes    *client.Cache[*v1alpha1.NodeAttachment]
	mappings *client.Cache[*v1alpha1.AddressMapping]
	received *client.Cache[*v1alpha1.ReceivedService] // those of the Peering; nil unless the cluster is without nodes
	reports  *client.Cache[*v1alpha1.GatewayReport]   // the gateway's own
	self     string                                   // its key: namespace/name

	changed client.Signal
}

func newObjects(c *client.Client, of Options) (*objects, error) {
	o := &objects{
		peering:  of.Peering,
		uid:      of.PeeringUID,
		networks: c.ClusterNetworks().Cache(v1alpha1.ClusterNetworkName),
		peerings: c.Peerings().Cache(of.Peering),
		nodes:    c.NodeAttachments().CacheInPages(""),
		mappings: c.AddressMappings().Cache(""),
		reports:  c.GatewayReports(of.Namespace).Cache(of.Name),
		self:     of.Namespace + "/" + of.Name,
		changed:  make(client.Signal, 1),
	}
	follow := []func(func()) error{o.networks.Notify, o.peerings.Notify, o.nodes.Notify, o.mappings.Notify}
	if of.WithoutNodes {
		o.received = c.ReceivedServices(of.Namespace).CacheInPages(peering.Label + "=" + of.Peering)
		follow = append(follow, o.received.Notify)
	}
	for _, one := range follow {
		if err := one(o.changed.Set); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *objects) informers() []cache.SharedIndexInformer {
	all := []cache.SharedIndexInformer{o.networks, o.peerings, o.nodes, o.mappings, o.reports}
	if o.received != nil {
		all = append(all, o.received)
	}
	return all
}

func (o *objects) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, informer := range o.informers() {
		all.Go(func() { informer.RunWithContext(ctx) })
	}
	if cache.WaitForCacheSync(ctx.Done(), o.synced()...) {
		o.changed.Set() // an empty list causes no event
	}
}

func (o *objects) complete() bool {
	return !slices.ContainsFunc(o.synced(), func(listed cache.InformerSynced) bool { return !listed() })
}

func (o *objects) synced() (all []cache.InformerSynced) {
	for _, informer := range o.informers() {
		all = append(all, informer.HasSynced)
	}
	return all
}

func (o *objects) input(s translate.Settings) translate.Input {
	in := translate.Input{Settings: s, Nodes: o.nodes.List(), Mappings: o.mappings.List(), Now: time.Now()}
	in.Network, _ = o.networks.Get(v1alpha1.ClusterNetworkName)
	in.Peering, _ = o.peer()
	if o.received != nil {
		in.Received = o.received.List()
	}
	return in
}

// peer returns the gateway's Peering, but not one that was created later under the same
// name.
func (o *objects) peer() (*v1alpha1.Peering, bool) {
	p, ok := o.peerings.Get(o.peering)
	if !ok || o.uid != "" && p.UID != o.uid {
		return nil, false
	}
	return p, true
}

// reported returns what the gateway reported last. It returns false while that is not
// known.
func (o *objects) reported() (last v1alpha1.GatewayReportStatus, known bool) {
	if r, ok := o.reports.Get(o.self); ok {
		last = r.Status
	}
	return last, o.reports.HasSynced()
}

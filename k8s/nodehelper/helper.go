package nodehelper

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/node"
)

// Options of a helper.
type Options struct {
	Client *client.Client
	Node   string // name of the node, and so of its NodeAttachment
	Kernel *node.Kernel
	Prober *node.Prober
	Listen string // host:port of /healthz, /readyz and /metrics; empty: nothing is served
	Log    *slog.Logger
}

const (
	applyInterval  = 100 * time.Millisecond // the shortest time between two looks at the objects
	statusInterval = 5 * time.Second        // and between two writes of the status; after a failure, twice that
	statusTimeout  = 10 * time.Second       // how long the API server may take
	refresh        = time.Minute            // how often routes, and ranges that were withdrawn, are looked at
	retryInterval  = 2 * time.Second        // the same while a gateway does not answer: its route may come late
)

// Run makes the node follow its objects until ctx ends. It returns what went wrong at
// the start; nothing that happens later ends it. Nothing is changed before all objects
// were read once, and nothing is taken away at the end.
func Run(ctx context.Context, o Options) error {
	support, err := o.Kernel.Support()
	if err != nil {
		return err
	}
	return run(ctx, o, support)
}

// run is Run on a node that has this.
func run(ctx context.Context, o Options, support node.Support) error {
	changed := make(chan struct{}, 1)
	h := &helper{
		Options: o, support: support, changed: changed,
		attachments: o.Client.NodeAttachments().Cache(o.Node),
		networks:    o.Client.ClusterNetworks().Cache(v1alpha1.ClusterNetworkName),
		peerings:    o.Client.Peerings().Cache(""),
		probes:      probes{prober: o.Prober, changed: changed, running: map[string]*activeProbe{}, answers: map[string]bool{}},
		withdrawn:   withdrawn{},
		desired:     make(chan node.Desired, 1),
		results:     make(chan kernelResult, 1),
	}
	o.Log.Info("node helper runs", "node", o.Node, "geneve", support.Geneve, "vxlan", support.VXLAN, "userspace", support.Userspace, "lacks", support.Lacks)
	served, err := h.serve()
	if err != nil {
		return fmt.Errorf("node helper: %w", err)
	}
	defer served.Close()
	var background sync.WaitGroup
	within, stop := context.WithCancel(ctx)
	defer background.Wait()
	defer stop()
	for _, c := range []interface {
		Notify(func()) error
		RunWithContext(context.Context)
	}{h.attachments, h.networks, h.peerings} {
		if err := c.Notify(func() { notify(changed) }); err != nil {
			return fmt.Errorf("node helper: %w", err)
		}
		background.Go(func() { c.RunWithContext(within) })
	}
	ended := make(chan error, 1)
	background.Go(func() { ended <- o.Kernel.Keep(within, h.desired, h.report) })
	err = h.follow(within, ended)
	stop()
	h.probes.all.Wait()
	return err
}

// helper is one call of Run.
type helper struct {
	Options
	support     node.Support
	state       state
	attachments *client.Cache[*v1alpha1.NodeAttachment]
	networks    *client.Cache[*v1alpha1.ClusterNetwork]
	peerings    *client.Cache[*v1alpha1.Peering]
	changed     <-chan struct{} // something that the node shall do or that it is
	probes      probes
	desired     chan node.Desired // to Keep; holds one
	results     chan kernelResult // from Keep: the last that it came to; holds one

	// Of the goroutine that calls follow.
	withdrawn    withdrawn
	uninstalling uninstalling
	sent         *node.Desired // nil: nothing yet
	serving      map[string]string
	kernel       string // what the kernel refused; empty: nothing
	problems     []string
	write        time.Time // the next one of the status, not before
	drops        drops
}

// follow does what the objects and the gateways' answers ask for, until ctx ends.
func (h *helper) follow(ctx context.Context, ended <-chan error) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case is := <-h.results:
			h.recordResult(is)
		case <-h.changed:
		case <-next.C:
		}
		h.state.pulse.Beat(time.Now())
		next.Reset(refresh)
		if !h.attachments.HasSynced() || !h.networks.HasSynced() || !h.peerings.HasSynced() {
			next.Reset(applyInterval)
			continue
		}
		out := h.apply(ctx)
		answers := h.probes.known()
		if slices.ContainsFunc(out.gateways, func(g gateway) bool { return !answers[g.Name] }) {
			next.Reset(retryInterval)
		}
		now := status(out, h.kernel, answers, h.Kernel.Failing())
		h.state.last.Store(now.DeepCopy())
		if again := h.publish(ctx, now); again > 0 {
			next.Reset(again)
		}
		if since := h.drops.since(h.Kernel.Dropped(), time.Now()); len(since) > 0 {
			h.Log.Warn("frames were dropped", "reasons", since)
		}
		wait(ctx, applyInterval)
	}
}

// apply tells Keep what is desired now, and the probes whom to ask.
func (h *helper) apply(ctx context.Context) output {
	now := time.Now()
	if a, ok := h.attachments.Get(h.Node); ok && h.sent == nil {
		h.probes.restore(a.Status)
	}
	in := h.input()
	out := computeDesired(in)
	h.withdrawn.drop(&out, now)
	if h.uninstalling.observe(in.network) {
		out, h.withdrawn = output{desired: node.Desired{Nothing: true}, gone: h.uninstalling.gone}, withdrawn{}
	}
	h.serving = out.serving
	if h.uninstalling.mayChange(in.attachment) && (h.sent == nil || !reflect.DeepEqual(*h.sent, out.desired)) {
		h.send(out.desired)
		out.gone = false
	}
	ask := map[string]netip.Addr{}
	for _, g := range out.gateways {
		if to := g.probe(out.desired); g.problem == "" && to.IsValid() {
			ask[g.Name] = to
		}
	}
	h.probes.set(ctx, ask)
	if !reflect.DeepEqual(h.problems, out.problems) {
		for _, p := range out.problems {
			h.Log.Warn("left out", "problem", p)
		}
		h.problems = out.problems
	}
	return out
}

// send tells Keep what is desired from now on.
func (h *helper) send(d node.Desired) {
	select {
	case is := <-h.results: // of what was desired before
		h.recordResult(is)
	default:
	}
	h.uninstalling.gone = false
	select {
	case <-h.desired: // not taken yet, and out of date
	default:
	}
	h.desired <- d
	h.sent = &d
}

// sources are where the node's frames to gateways come from.
func (h *helper) sources(peerings []*v1alpha1.Peering) map[netip.Addr]netip.Addr {
	sources := make(map[netip.Addr]netip.Addr)
	for _, p := range peerings {
		for _, g := range p.Status.Gateways {
			for _, to := range addresses(g.PodAddresses) {
				if from, err := h.Kernel.SourceTo(to); err == nil { // else there is no way there, and it will not answer
					sources[to] = from
				}
			}
		}
	}
	return sources
}

func (h *helper) input() input {
	in := input{peerings: h.peerings.List(), support: h.support, answers: h.probes.known(), serving: h.serving}
	in.sources = h.sources(in.peerings)
	if a, ok := h.attachments.Get(h.Node); ok {
		in.attachment = a
	}
	if n, ok := h.networks.Get(v1alpha1.ClusterNetworkName); ok {
		in.network = n
	}
	return in
}

// report is called by Keep.
func (h *helper) report(r node.Report) {
	h.state.reports.count(r)
	switch {
	case r.Err != nil:
		h.Log.Error("the kernel is not as desired; trying again", "error", r.Err)
	case r.Repair:
		h.Log.Warn("somebody changed what is Strait's; repaired", "operations", r.Done)
	case len(r.Done) > 0:
		h.Log.Info("changed the kernel", "operations", r.Done)
	}
	err := r.Err
	if r.Fight {
		err = fmt.Errorf("somebody removes or changes again and again what Strait sets up on the node, last: %v; find out who (ip monitor, nft monitor) and make it leave alone links named strait-*, routes of protocol 91, rules of protocol 91 and the nftables table strait; repairs are slowed down", r.Done)
		h.Log.Error("repairs are slowed down", "error", err)
	}
	select {
	case <-h.results:
	default:
	}
	h.results <- kernelResult{err, r.Gone}
}

// results is what Keep came to.
type kernelResult struct {
	err  error // why the kernel is not as desired, or is not left alone
	gone bool  // nothing is desired, and nothing is left
}

// recordResult takes note of it.
func (h *helper) recordResult(is kernelResult) {
	h.kernel, h.uninstalling.gone = "", is.gone
	if is.err != nil {
		h.kernel = is.err.Error()
	}
}

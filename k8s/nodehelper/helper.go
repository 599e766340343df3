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
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/node"
)

// Options configure a node helper.
type Options struct {
	Client *client.Client
	Node   string // name of the node, and so of its NodeAttachment
	Kernel *node.Kernel
	Prober *node.Prober
	Listen string // host:port of /healthz, /readyz and /metrics; empty: nothing is served
	Log    *slog.Logger
}

const (
	applyInterval  = 100 * time.Millisecond // minimum interval between two evaluations of the objects
	statusInterval = 5 * time.Second        // minimum interval between two writes of the status; twice that after a failure
	statusTimeout  = 10 * time.Second       // request timeout
	refresh        = time.Minute            // interval at which routes and withdrawn CIDRs are checked
	retryInterval  = 2 * time.Second        // the same while a gateway does not answer: its route may appear late
)

// Run makes the node follow its objects until ctx ends. It returns errors of the start; no
// later error ends it. Nothing is changed before all objects were read once, and nothing is
// removed at the end.
func Run(ctx context.Context, o Options) error {
	support, err := o.Kernel.Support()
	if err != nil {
		return err
	}
	return run(ctx, o, support)
}

// run is Run with known kernel support.
func run(ctx context.Context, o Options, support node.Support) error {
	routed, err := o.Kernel.Routed() // by an earlier helper
	if err != nil {
		return err
	}
	changed := make(client.Signal, 1)
	h := &helper{
		Options: o, support: support, changed: changed,
		attachments: o.Client.NodeAttachments().Cache(o.Node),
		networks:    o.Client.ClusterNetworks().Cache(v1alpha1.ClusterNetworkName),
		peerings:    o.Client.Peerings().Cache(""),
		probes:      newProbes(o.Prober.Ask, time.Now),
		withdrawn:   newWithdrawn(routed, time.Now()),
		desired:     make(chan node.Desired, 1),
		results:     make(chan kernelResult, 1),
		statuses:    make(chan v1alpha1.NodeAttachmentStatus, 1),
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
		if err := c.Notify(changed.Set); err != nil {
			return fmt.Errorf("node helper: %w", err)
		}
		background.Go(func() { c.RunWithContext(within) })
	}
	background.Go(func() { h.publishAll(within) })
	ended := make(chan error, 1)
	background.Go(func() { ended <- o.Kernel.Keep(within, h.desired, h.report) })
	err = h.follow(within, ended)
	stop()
	h.probes.all.Wait()
	return err
}

// helper is the state of one call of Run.
type helper struct {
	Options
	support     node.Support
	state       state
	attachments *client.Cache[*v1alpha1.NodeAttachment]
	networks    *client.Cache[*v1alpha1.ClusterNetwork]
	peerings    *client.Cache[*v1alpha1.Peering]
	changed     <-chan struct{} // signals a change of objects
	probes      *probes
	statuses    chan v1alpha1.NodeAttachmentStatus // to publish; holds one
	desired     chan node.Desired                  // to Keep; holds one
	results     chan kernelResult                  // from Keep: the last result; capacity one

	// Used only by the goroutine that calls follow.
	withdrawn    withdrawn
	uninstalling uninstalling
	sent         *node.Desired // nil: nothing yet
	serving      map[string]bool
	kernel       string // error of the kernel; empty: none
	takeovers    []node.Takeover
	problems     []string
	evaluated    time.Time // when the objects were evaluated last
	drops        drops
	refusals     refusals
}

// follow applies the objects and the results of probes until ctx ends.
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
			if h.postpone(next) {
				continue
			}
		case <-h.changed:
			if h.postpone(next) {
				continue
			}
		case <-h.probes.changed: // packets to a gateway that is out are lost: at once
		case <-next.C:
		}
		h.evaluated = time.Now()
		h.state.pulse.Beat(time.Now())
		next.Reset(refresh)
		if !h.attachments.HasSynced() || !h.networks.HasSynced() || !h.peerings.HasSynced() {
			next.Reset(applyInterval)
			continue
		}
		out := h.apply(ctx)
		answers := out.answers
		if slices.ContainsFunc(out.gateways, func(g gateway) bool { return !isKey(answers, g.Name) }) {
			next.Reset(retryInterval)
		}
		h.refused(out.gateways)
		now := status(out, h.kernel, answers, h.Kernel.Failing())
		h.state.last.Store(now.DeepCopy())
		select {
		case <-h.statuses: // not published yet, and superseded
		default:
		}
		h.statuses <- now
		if since := h.drops.since(h.Kernel.Dropped(), time.Now()); len(since) > 0 {
			h.Log.Warn("packets were dropped by the helper", "reasons", since)
		}
	}
}

// postpone sets the timer of the next evaluation if the last one was less than applyInterval ago.
func (h *helper) postpone(next *time.Timer) bool {
	soon := time.Until(h.evaluated.Add(applyInterval))
	if soon > 0 {
		next.Reset(soon)
	}
	return soon > 0
}

// apply sends the desired state to Keep, and the gateways to probe to the prober.
func (h *helper) apply(ctx context.Context) output {
	now := time.Now()
	if a, ok := h.attachments.Get(h.Node); ok && h.sent == nil {
		h.probes.restore(a.Status)
		h.serving = inUse(a.Status)
	}
	in := h.input()
	out := computeDesired(in)
	out.conflict(h.takeovers)
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

func (h *helper) send(d node.Desired) {
	select {
	case is := <-h.results: // of the previous desired state
		h.recordResult(is)
	default:
	}
	h.uninstalling.gone = false
	select {
	case <-h.desired: // not received yet, and superseded
	default:
	}
	h.desired <- d
	h.sent = &d
}

func (h *helper) sources(peerings []*v1alpha1.Peering) map[netip.Addr]netip.Addr {
	sources := make(map[netip.Addr]netip.Addr)
	for _, p := range peerings {
		for _, g := range p.Status.Gateways {
			for _, to := range cidrs.Addrs(g.PodAddresses) {
				if from, err := h.Kernel.SourceTo(to); err == nil { // otherwise there is no route, and it will not answer
					sources[to] = from
				}
			}
		}
	}
	return sources
}

func (h *helper) input() input {
	in := input{peerings: h.peerings.List(), support: h.support, serving: h.serving}
	in.answers, in.joining, in.unlinked = h.probes.known()
	in.sources = h.sources(in.peerings)
	in.resolvers = resolvers()
	if a, ok := h.attachments.Get(h.Node); ok {
		in.attachment = a
	}
	if n, ok := h.networks.Get(v1alpha1.ClusterNetworkName); ok {
		in.network = n
	}
	return in
}

func (h *helper) report(r node.Report) {
	h.state.reports.count(r)
	switch {
	case r.Err != nil:
		h.Log.Error("cannot apply the desired state to the kernel; trying again", "error", r.Err)
	case r.Repair:
		h.Log.Warn("another process changed Strait's kernel configuration; repaired it", "operations", r.Done)
	case len(r.Done) > 0:
		h.Log.Info("changed the kernel configuration", "operations", r.Done)
	}
	err := r.Err
	if r.Fight {
		err = fmt.Errorf("another process keeps removing or changing what Strait sets up on the node, last: %v; find it (ip monitor, nft monitor) and configure it to ignore links named cni-strait*, routes of protocol 91, rules of protocol 91 and the nftables table strait; repairs are slowed down", r.Done)
		h.Log.Error("repairs are slowed down", "error", err)
	}
	select {
	case <-h.results:
	default:
	}
	h.results <- kernelResult{err, r.Gone, r.Takeovers}
}

type kernelResult struct {
	err  error // why the kernel state differs, or keeps being changed
	gone bool  // nothing is desired, and nothing of Strait is left
	over []node.Takeover
}

func (h *helper) recordResult(is kernelResult) {
	h.kernel, h.uninstalling.gone, h.takeovers = "", is.gone, is.over
	if is.err != nil {
		h.kernel = is.err.Error()
	}
}

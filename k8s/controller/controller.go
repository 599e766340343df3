// Package controller decides, for the whole cluster, what gateways and nodes need to be
// told: which ranges the cluster uses, which addresses nodes and gateways have, and
// where ranges of other clusters are seen. What it allocates it keeps as AddressClaims.
//
// It works in passes. A pass looks at everything, as the caches have it, and changes what
// is not as it should be; it remembers nothing but what saves it requests. So a controller
// may be killed at any time, start anywhere, and run twice at once.
//
//	observe  ClusterNetwork: create, detect, report       network.go, installed.go, facts.go, detect.go
//	claim    AddressClaims: what is wanted, what is free  plan.go, addresses.go, views.go
//	attach   NodeAttachments                              attachments.go
//	run      the gateways of Peerings                     workloads.go
//	report   status of Peerings and AddressMappings       peerings.go, mappings.go
//
// Beside passes, it writes what gateways measure into the status of Peerings (summary.go).
//
// Objects show only what is in force, and a claim is deleted only when no object shows
// it. So what changes hands takes several passes, each caused by the one before.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/client"
)

// Manager is the field manager of everything that the controller applies.
const Manager = "strait-controller"

// Options are what a controller needs.
type Options struct {
	Client    *client.Client
	Namespace string // of the lease
	Identity  string // among controllers of the cluster, as the name of its pod
	Gateways  Gateways
	Network   map[string]any // fields of ClusterNetwork's spec that the installation gives, see ParseNetwork; nil: it says nothing of it
	Listen    string         // host:port of /healthz, /readyz and /metrics; empty: nothing is served
	Log       *slog.Logger
}

// Gateways are how the gateways of all peerings run.
type Gateways struct {
	Namespace      string                  // of their pods and everything around these; nothing else is in it
	ServiceAccount string                  // of their pods, in that namespace
	Image          string                  // of `strait`; empty: that of the template
	Template       *corev1.PodTemplateSpec // what the installation wants of their pods; nil: nothing. See ParseTemplate
	NoPolicies     bool                    // no NetworkPolicies: for networks whose policies cannot tell nodes by their addresses
}

// Passes follow each other no faster than pause, so that many changes make few passes,
// and at least every resync, for what is not watched. A pass that failed is repeated
// after a time that doubles from pause to resync.
const (
	pause  = 200 * time.Millisecond
	resync = time.Minute
)

type controller struct {
	client *client.Client
	log    *slog.Logger
	state  state
	wake   chan struct{} // has room for one: something changed since the last pass began
	waking atomic.Bool   // it will be woken soon

	installation installation // of one pass at a time

	networks    *client.Cache[*v1alpha1.ClusterNetwork]
	peerings    *client.Cache[*v1alpha1.Peering]
	attachments *client.Cache[*v1alpha1.NodeAttachment]
	mappings    *client.Cache[*v1alpha1.AddressMapping]
	claims      *client.Cache[*v1alpha1.AddressClaim]
	nodes       *client.Cache[*corev1.Node]
	pods        *client.Cache[*corev1.Pod]     // of gateways
	services    *client.Cache[*corev1.Service] // of gateways
	events      chan *corev1.Event             // to be written

	installSpec map[string]any // see Options.Network
	installed   types.UID      // of the ClusterNetwork that has that; one pass at a time uses it

	// What the gateways run in. One pass at a time uses what is remembered of it.
	gateways     Gateways
	statefulSets *client.Cache[*appsv1.StatefulSet]
	policies     *client.Cache[*networkingv1.NetworkPolicy]
	budgets      *client.Cache[*policyv1.PodDisruptionBudget]
	applied      map[objectID]applied
	made         map[keyID]time.Time
}

// Run runs a controller until ctx ends. It returns early only if it cannot start: it
// waits for an API server that is away and for a lease that another holds, for any time.
func Run(ctx context.Context, o Options) error {
	if o.Namespace == "" || o.Identity == "" {
		return errors.New("controller: the namespace of the lease or the identity is missing; set both")
	}
	if err := o.Gateways.Check(); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	c := &controller{
		client: o.Client, log: o.Log, wake: make(chan struct{}, 1),
		networks:    o.Client.ClusterNetworks().Cache(v1alpha1.ClusterNetworkName),
		peerings:    o.Client.Peerings().Cache(""),
		attachments: o.Client.NodeAttachments().Cache(""),
		mappings:    o.Client.AddressMappings().Cache(""),
		claims:      o.Client.AddressClaims().Cache(""),
		nodes:       o.Client.Nodes().Cache(""),
		pods:        o.Client.Pods(o.Gateways.Namespace).Cache(""),
		services:    o.Client.Services(o.Gateways.Namespace).Cache(""),
		events:      make(chan *corev1.Event, eventsWaiting),

		installSpec:  o.Network,
		gateways:     o.Gateways,
		statefulSets: o.Client.StatefulSets(o.Gateways.Namespace).Cache(""),
		policies:     o.Client.NetworkPolicies(o.Gateways.Namespace).Cache(""),
		budgets:      o.Client.PodDisruptionBudgets(o.Gateways.Namespace).Cache(""),
		applied:      make(map[objectID]applied),
		made:         make(map[keyID]time.Time),
	}
	if err := c.nodes.SetTransform(nodeEssentials); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	served, err := c.serve(o.Listen)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	defer served.Close()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var synced []cache.InformerSynced
	for _, one := range []struct {
		informer cache.SharedIndexInformer
		same     func(was, is any) bool
	}{
		{c.networks, sameSpec}, {c.peerings, samePeering}, {c.attachments, sameSpec}, {c.mappings, sameMapping}, {c.claims, sameClaim}, {c.nodes, sameNode},
		{c.pods, samePod}, {c.services, sameService}, {c.statefulSets, sameSpec}, {c.policies, sameSpec}, {c.budgets, sameSpec},
	} {
		if err := c.follow(one.informer, one.same); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
		running.Go(func() { one.informer.RunWithContext(ctx) })
		synced = append(synced, one.informer.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	c.state.synced.Store(true)
	lead(ctx, o, &c.state.pulse, c.work)
	return nil
}

// work makes passes until ctx ends.
func (c *controller) work(ctx context.Context) {
	c.state.leads.Store(true)
	defer c.state.leads.Store(false)
	c.installation.adopted = false
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { c.summarize(ctx) })
	beside.Go(func() { c.writeEvents(ctx) })
	for failures := 0; ctx.Err() == nil; {
		select {
		case <-c.wake: // the pass that begins sees it
		default:
		}
		next, begun := resync, time.Now()
		err := c.pass(ctx)
		if ctx.Err() == nil {
			c.state.passEnded(begun, time.Now(), err)
		}
		if err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			next = min(pause<<failures, resync)
			failures = min(failures+1, 16)
			c.log.Error("not everything is as it should be", "error", err, "again", next)
		}
		sleep(ctx, pause)
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-time.After(next):
		}
	}
}

// pass brings everything up to date, once.
func (c *controller) pass(ctx context.Context) error {
	if err := c.adopt(ctx); err != nil {
		return err
	}
	network, err := c.observe(ctx)
	if err != nil {
		return err
	}
	p := newPlan(c.client, network, c.nodes.List(), c.peerings.List(), c.mappings.List(), time.Now())
	inForce, err := claims.Ensure(ctx, c.client, p)
	if err != nil {
		return err
	}
	attached := c.attach(ctx, network, p.nodes, inForce)
	problems, running := c.workloads(ctx, p)
	return errors.Join(append(p.problems, attached, running, c.report(ctx, p, inForce, problems), c.reportMappings(ctx, p, inForce))...)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

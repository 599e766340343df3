// Package controller makes the cluster-wide decisions that gateways and nodes need: which
// CIDRs the cluster uses, which addresses nodes and gateways have, and which CIDRs remote
// CIDRs are mapped to. It stores allocations as AddressClaims. The decisions themselves are in
// the packages below it; this one observes, applies and reports.
//
// It works in passes. A pass compares all cached objects with the desired state and changes
// what differs; it keeps no state between passes except to avoid requests. A controller may
// therefore be killed at any time, start anywhere, and run twice at once.
//
//	observe  ClusterNetwork: create, detect, report       observe.go, installation.go, package network
//	claim    AddressClaims: allocate and release          plan.go, released.go, package allocation
//	attach   NodeAttachments                              attachments.go, package nodeinfo
//	run      the gateways of Peerings                     workloads.go, rollout.go, surge.go, package workload
//	report   status of Peerings and AddressMappings       reports.go, peerings.go, mappings.go, package condition
//
// Concurrently with passes, it lets rollouts continue when links are up (linksup.go), deletes
// gateways' pods of lost nodes (lostnode.go), writes the addresses of
// pods outside of podCIDRs into NodeAttachments (package podaddresses), and exports and imports
// Services (package services).
//
// Objects list only bound claims, and a claim is deleted only when no object lists it.
// Moving an address or CIDR to another owner therefore takes several passes, each triggered
// by the one before.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
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
	"strait.dev/strait/k8s/controller/nodeinfo"
	"strait.dev/strait/k8s/controller/podaddresses"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/services"
)

// Manager is the field manager of all objects that the controller applies.
const Manager = "strait-controller"

// Options configure a controller.
type Options struct {
	Client     *client.Client
	Namespace  string // of the lease
	Identity   string // unique among the controllers of the cluster, like the name of its pod
	Gateways   workload.Gateways
	Helpers    *corev1.PodTemplateSpec // of the pods of node helpers, of which the scheduling is read; nil: they run on all nodes
	Network    map[string]any          // fields of the ClusterNetwork's spec that the installation sets, see ParseNetwork; nil: none
	NoServices bool                    // neither export nor import Services
	Resolver   services.Resolver       // of the cluster's names; nil: nothing says whether imported Services have names
	Listen     string                  // host:port of /healthz, /readyz and /metrics; empty: nothing is served
	// Connect opens a TCP connection to a gateway, by which the controller notices at once that its process has ended:
	// ConnectToGateway. Used without node helpers only. Nil: the kubelet's reports are enough.
	Connect func(ctx context.Context, address string) (net.Conn, error)
	Log     *slog.Logger
}

// Passes start no faster than every pause, so that many changes cause few passes, and at
// least every resync, for state that is not watched. A failed pass is repeated with an
// exponential backoff from pause to resync.
const (
	pause  = 200 * time.Millisecond
	resync = time.Minute
)

type controller struct {
	client *client.Client
	log    *slog.Logger
	state  state
	pacing *pacing
	wake   client.Signal // something changed since the last pass began
	waking atomic.Bool   // a batched wake-up is pending

	installation installation // used by one pass at a time

	networks    *client.Cache[*v1alpha1.ClusterNetwork]
	peerings    *client.Cache[*v1alpha1.Peering]
	attachments *client.Cache[*v1alpha1.NodeAttachment]
	mappings    *client.Cache[*v1alpha1.AddressMapping]
	claims      *client.Cache[*v1alpha1.AddressClaim]
	nodes       *client.Cache[*corev1.Node]
	pods        *client.Cache[*corev1.Pod]     // of gateways
	services    *client.Cache[*corev1.Service] // of gateways
	reports     *client.Cache[*v1alpha1.GatewayReport]
	processes   *processWatch      // of gateways; nil: not watched
	events      chan *corev1.Event // to be written

	multicluster *services.Controller // nil: Services are neither exported nor imported

	helpers *nodeinfo.Helpers

	published *podaddresses.Publisher // the addresses of pods outside of podCIDRs

	unattached []string // the reasons why nodes are not attached, sorted; nil: not known yet. Used by one pass at a time

	installSpec map[string]any // see Options.Network
	installed   types.UID      // UID of the ClusterNetwork that has these values; used by one pass at a time

	// The workloads of gateways. The state below is used by one pass at a time.
	gateways     workload.Gateways
	statefulSets *client.Cache[*appsv1.StatefulSet]
	policies     *client.Cache[*networkingv1.NetworkPolicy]
	budgets      *client.Cache[*policyv1.PodDisruptionBudget]
	applied      map[objectID]applied
	made         map[keyID]time.Time
	noCilium     time.Time // when the API server last had no CiliumNetworkPolicies
}

// gcPercent keeps the garbage below half of the objects in use: a remote cluster that changes its Services as fast as it
// may makes nothing but garbage.
const gcPercent = 50

// Run runs a controller until ctx ends. It returns early only if it cannot start: it waits
// without limit for an unreachable API server and for a lease that another controller
// holds.
func Run(ctx context.Context, o Options) error {
	if o.Namespace == "" || o.Identity == "" {
		return errors.New("controller: the namespace of the lease or the identity is missing: set both")
	}
	if err := o.Gateways.Check(); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	debug.SetGCPercent(gcPercent)
	helpers, err := nodeinfo.NewHelpers(o.Helpers)
	if err != nil {
		return fmt.Errorf("controller: node helpers: %w", err)
	}
	c := &controller{
		helpers: helpers,
		client:  o.Client, log: o.Log, wake: make(client.Signal, 1),
		networks:    o.Client.ClusterNetworks().Cache(v1alpha1.ClusterNetworkName),
		peerings:    o.Client.Peerings().Cache(""),
		attachments: o.Client.NodeAttachments().Cache(""),
		mappings:    o.Client.AddressMappings().Cache(""),
		claims:      o.Client.AddressClaims().Cache(""),
		nodes:       o.Client.Nodes().Cache(""),
		pods:        o.Client.Pods(o.Gateways.Namespace).Cache(""),
		services:    o.Client.Services(o.Gateways.Namespace).Cache(""),
		reports:     o.Client.GatewayReports(o.Gateways.Namespace).Cache(""),
		events:      make(chan *corev1.Event, eventsWaiting),

		installSpec:  o.Network,
		gateways:     o.Gateways,
		statefulSets: o.Client.StatefulSets(o.Gateways.Namespace).Cache(""),
		policies:     o.Client.NetworkPolicies(o.Gateways.Namespace).Cache(""),
		budgets:      o.Client.PodDisruptionBudgets(o.Gateways.Namespace).Cache(""),
		applied:      make(map[objectID]applied),
		made:         make(map[keyID]time.Time),
	}
	c.pacing = newPacing(c.wakeUp)
	if c.published, err = podaddresses.New(podaddresses.Options{Client: o.Client, Manager: Manager, Attachments: c.attachments, Nodes: c.nodes, Log: o.Log}); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if err := c.nodes.SetTransform(helpers.Essentials); err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	if o.Gateways.WithoutNodes && o.Connect != nil {
		c.processes = newProcessWatch(o.Connect, c.wakeUp)
	}
	if !o.NoServices {
		var err error
		if c.multicluster, err = services.New(services.Options{
			Client: o.Client, Namespace: o.Gateways.Namespace, Networks: c.networks, Peerings: c.peerings, Resolver: o.Resolver, Changed: c.wakeUp, Log: o.Log,
			WithoutNodes: o.Gateways.WithoutNodes,
		}); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
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
		{c.networks, sameSpec}, {c.peerings, samePeering}, {c.attachments, sameAttachment}, {c.mappings, sameMapping}, {c.claims, sameClaim}, {c.nodes, sameNode},
		{c.pods, samePod}, {c.services, sameService}, {c.reports, sameReport}, {c.statefulSets, sameStatefulSet}, {c.policies, sameSpec}, {c.budgets, sameSpec},
	} {
		if err := c.follow(one.informer, one.same); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
		running.Go(func() { one.informer.RunWithContext(ctx) })
		synced = append(synced, one.informer.HasSynced)
	}
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), c.nodes.HasSynced) {
			c.published.Track(ctx)
		}
	})
	if c.multicluster != nil {
		running.Go(func() { c.multicluster.Run(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), append(synced, c.published.Listed)...) {
		return nil
	}
	c.state.synced.Store(true)
	lead(ctx, o, &c.state.pulse, c.work)
	return nil
}

func (c *controller) work(ctx context.Context) {
	c.state.leads.Store(true)
	defer c.state.leads.Store(false)
	c.installation.adopted, c.unattached = false, nil
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { c.writeEvents(ctx) })
	beside.Go(func() { c.published.Run(ctx) })
	beside.Go(func() { c.tendPods(ctx) })
	if c.multicluster != nil {
		beside.Go(func() { c.multicluster.Work(ctx) })
	}
	if c.processes != nil {
		defer c.processes.stop()
	}
	for failures := 0; ctx.Err() == nil; {
		select {
		case <-c.wake: // handled by the pass that begins
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
			c.log.Error("the pass failed; trying again", "error", err, "again", next)
		}
		sleep(ctx, pause)
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-time.After(next):
		}
	}
}

func (c *controller) pass(ctx context.Context) error {
	if err := c.adopt(ctx); err != nil {
		return err
	}
	network, err := c.observe(ctx)
	if err != nil {
		return err
	}
	now, peerings := time.Now(), c.peerings.List()
	pods := c.gatewayPods(peerings)
	if c.processes != nil {
		c.processes.follow(ctx, pods)
	}
	c.pacing.links(peerings, pods, now)
	merged := merge(peerings, network, pods, now)
	c.pacing.hold(peerings, merged, network.ClusterID, now)
	p := newPlan(c.client, network, c.nodes.List(), merged, c.mappings.List(), now)
	p.attachable, p.helpers = c.attachable(p.nodes), c.helpers
	if network.WithoutNodes {
		p.attachable = nil
	}
	inForce, err := claims.Ensure(ctx, c.client, p)
	if err != nil {
		return err
	}
	c.published.Reserve(podReservations(network, inForce))
	unattached, attached := c.attach(ctx, network, p.attachable, inForce)
	c.noteUnattached(append(unattached, p.unaddressed...))
	gateways, running := c.workloads(ctx, p, pods)
	return errors.Join(append(p.problems, attached, running, c.report(ctx, p, pods, inForce, gateways), c.reportMappings(ctx, p, pods, inForce))...)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

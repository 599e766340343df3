package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/workload"
)

type workloadState struct {
	problem string           // a message with the remedy; empty: none
	updated metav1.Condition // GatewaysUpdated
}

// workloads creates and updates the workloads of each peering's gateways. All objects are
// owned by the Peering, so that the garbage collector removes them even without a
// controller. An error for one peering does not affect others. states has the results by
// the names of peerings.
func (c *controller) workloads(ctx context.Context, p *plan, pods gatewayPods) (states map[string]workloadState, err error) {
	states = make(map[string]workloadState)
	waits := c.turns(p.peerings)
	var all []error
	there := make(map[types.UID]bool)
	var nodes []netip.Prefix // without node helpers: none sends to a gateway
	if !p.network.WithoutNodes {
		nodes = workload.FrameSources(p.network.Nodes, c.attachments.List())
	}
	for _, peering := range p.peerings {
		there[peering.UID] = true
		waitsFor := waits[peering.Name]
		state := workloadState{updated: c.updated(peering, waitsFor)}
		if peering.DeletionTimestamp == nil { // otherwise its objects are garbage collected
			if err := c.workload(ctx, peering, p, pods, nodes, waitsFor != ""); err != nil {
				state.problem = strings.ReplaceAll(err.Error(), "\n", "; ")
				all = append(all, fmt.Errorf("gateways of Peering %s: %w", peering.Name, err))
			}
		}
		if unaddressed := p.unaddressedGateways[peering.Name]; len(unaddressed) > 0 && state.problem == "" {
			state.problem = strings.Join(unaddressed, "; ")
		}
		states[peering.Name] = state
	}
	maps.DeleteFunc(c.applied, func(id objectID, _ applied) bool { return !there[id.peering] })
	maps.DeleteFunc(c.made, func(id keyID, _ time.Time) bool { return !there[id.peering] })
	return states, errors.Join(all...)
}

// workload updates the objects of one peering. The StatefulSet comes last, so that keys and
// the policy exist when pods start. nodes are the allowed sources of overlay packets. wait
// keeps the template of the pods.
func (c *controller) workload(ctx context.Context, peering *v1alpha1.Peering, p *plan, pods gatewayPods, nodes []netip.Prefix, wait bool) error {
	g, names, remote := c.gateways, gatewayNames(peering), p.remotes[peering.Name]
	surge := canSurge(peering, remote)
	set := c.desiredSet(peering, wait, surge, pods, p.now)
	var problems []error
	for ordinal, name := range names {
		problems = append(problems, c.key(ctx, peering, pods, name))
		problems = append(problems, apply(ctx, c, peering, c.client.Services(g.Namespace), c.services, workload.Service(g, peering, int32(ordinal), p.balancer)))
	}
	if *set.Spec.Replicas > peering.Spec.Gateway.Replicas {
		temporary := temporaryService(g, peering, remote)
		names = append(names, temporary.Name)
		problems = append(problems, c.key(ctx, peering, pods, temporary.Name), apply(ctx, c, peering, c.client.Services(g.Namespace), c.services, temporary))
	}
	for _, service := range c.services.List() {
		if metav1.IsControlledBy(service, peering) && !slices.Contains(names, service.Name) && !slices.Contains(known(peering), service.Name) {
			problems = append(problems, remove(ctx, c, peering, c.client.Services(g.Namespace), service))
		}
	}
	policies := c.client.NetworkPolicies(g.Namespace)
	if !g.NoPolicies {
		problems = append(problems, apply(ctx, c, peering, policies, c.policies, workload.NetworkPolicy(g, peering, nodes)))
	} else if policy, ok := c.policies.Get(g.Namespace + "/" + peering.Name); ok && metav1.IsControlledBy(policy, peering) {
		problems = append(problems, remove(ctx, c, peering, policies, policy))
	}
	problems = append(problems, c.applyCiliumPolicy(ctx, peering, p.now))
	budgets := c.client.PodDisruptionBudgets(g.Namespace)
	if !c.disruptable(peering, surge, pods, p.now) {
		problems = append(problems, apply(ctx, c, peering, budgets, c.budgets, workload.DisruptionBudget(g, peering)))
	} else if budget, ok := c.budgets.Get(g.Namespace + "/" + peering.Name); ok && metav1.IsControlledBy(budget, peering) {
		problems = append(problems, remove(ctx, c, peering, budgets, budget))
	}
	err := apply(ctx, c, peering, c.client.StatefulSets(g.Namespace), c.statefulSets, set)
	if apierrors.IsConflict(err) {
		c.wakeBatched() // the cache is stale
		err = nil
	}
	return errors.Join(append(problems, err)...)
}

// explainAPIError adds the object and a remedy to an API error. A nil error stays nil.
func explainAPIError(kind, namespace, name string, err error) error {
	if err == nil {
		return nil
	}
	text, remedy := err.Error(), "trying again"
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(text, "exceeded quota"):
		remedy = "raise the ResourceQuota of namespace " + namespace
	case apierrors.IsForbidden(err) && strings.Contains(text, "is being terminated"), apierrors.IsNotFound(err):
		remedy = "create namespace " + namespace
	case apierrors.IsForbidden(err):
		remedy = "restore the rules of the controller's Role in namespace " + namespace
	case apierrors.IsInvalid(err) && strings.Contains(text, "odePort"):
		remedy = "choose another spec.gateway.service.nodePort, or remove it"
	case apierrors.IsInvalid(err) && (strings.Contains(text, "immutable") || strings.Contains(text, "may not change")):
		remedy = "delete the object, and the controller creates it again"
	case apierrors.IsInvalid(err):
		remedy = "correct spec.gateway of the Peering, or the template of the installation"
	}
	return fmt.Errorf("%s %s/%s: %w; %s", kind, namespace, name, err, remedy)
}

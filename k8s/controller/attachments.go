package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/condition"
	"strait.dev/strait/k8s/controller/network"
	"strait.dev/strait/k8s/controller/nodeinfo"
)

// attach creates or updates one NodeAttachment for each of nodes, with the bound addresses,
// and deletes those of removed nodes and of nodes without node helpers. An error for one node
// does not affect others. unattached are the reasons why nodes cannot be attached as they are,
// which no repetition changes.
func (c *controller) attach(ctx context.Context, n *network.Network, nodes []*corev1.Node, inForce []claims.Spec) (unattached []string, err error) {
	granted := addressesByOwner(n, inForce)
	var problems []error
	wanted := make(map[string]bool)
	for _, node := range nodes {
		wanted[node.Name] = true
		owner := v1alpha1.ClaimOwner{Kind: allocation.KindNode, Name: node.Name}
		why, err := c.attachNode(ctx, node, granted[owner])
		if why != "" {
			unattached = append(unattached, fmt.Sprintf("node %s: %s", node.Name, why))
		}
		problems = append(problems, err)
	}
	for _, attachment := range c.attachments.List() {
		switch {
		case c.gateways.WithoutNodes:
			problems = append(problems, c.detach(ctx, attachment))
		case wanted[attachment.Name]:
		case c.hasNoHelper(attachment.Name):
			problems = append(problems, c.detach(ctx, attachment))
		default:
			problems = append(problems, c.detachGone(ctx, attachment))
		}
	}
	return unattached, errors.Join(problems...)
}

// attachNode creates or updates the NodeAttachment of a node. why is empty unless the node
// cannot be attached as it is.
func (c *controller) attachNode(ctx context.Context, node *corev1.Node, granted grantedAddresses) (why string, err error) {
	spec, meta := attachmentSpec(node, granted), metav1.ObjectMeta{Name: node.Name}
	is, exists := c.attachments.Get(node.Name)
	if exists {
		spec.PodAddresses = is.Spec.PodAddresses // which package podaddresses writes
		meta.UID, meta.ResourceVersion = is.UID, is.ResourceVersion
	}
	switch {
	case len(spec.UnderlayAddresses) == 0:
		return "it has neither an InternalIP nor an ExternalIP, so gateways cannot reach it; check why its kubelet reports none", nil
	case exists && (len(spec.InternalAddresses) == 0 || spec.Index != is.Spec.Index):
		// Its addresses are no longer bound, or its index, which is immutable, has changed.
		return "", c.detach(ctx, is)
	case len(spec.InternalAddresses) == 0 || exists && reflect.DeepEqual(spec, is.Spec):
		return "", nil
	}
	_, err = c.client.NodeAttachments().Apply(ctx, &v1alpha1.NodeAttachment{ObjectMeta: meta, Spec: spec}, Manager)
	switch {
	case apierrors.IsConflict(err):
		c.wakeUp() // package podaddresses or the node has written it just now
		return "", nil
	case apierrors.IsInvalid(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("NodeAttachment %s: %w", node.Name, err)
	}
	return "", nil
}

const maxUnderlay = 16 // underlay addresses, as of the API

// underlayAddresses returns the addresses at which gateways reach a node: its InternalIPs, or
// its ExternalIPs if it has none, as the kubelet chooses the addresses of its host. Of more
// than the API accepts, the first of each IP family is among them, which the kubelet chooses.
func underlayAddresses(node *corev1.Node) (all []netip.Addr) {
	reported := nodeinfo.Addresses(node, corev1.NodeInternalIP)
	if len(reported) == 0 {
		reported = nodeinfo.Addresses(node, corev1.NodeExternalIP)
	}
	for _, a := range reported {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	if len(all) <= maxUnderlay {
		return all
	}
	if i := slices.IndexFunc(all, func(a netip.Addr) bool { return a.Is4() != all[0].Is4() }); i >= maxUnderlay {
		all[maxUnderlay-1] = all[i]
	}
	return all[:maxUnderlay]
}

func attachmentSpec(node *corev1.Node, granted grantedAddresses) v1alpha1.NodeAttachmentSpec {
	spec := v1alpha1.NodeAttachmentSpec{
		UnderlayAddresses: cidrs.IPs(underlayAddresses(node)),
		InternalAddresses: cidrs.IPs(granted.internal),
		ExternalAddresses: cidrs.IPs(granted.external),
	}
	if len(granted.internal) > 0 {
		spec.Index = allocation.NodeIndex(granted.internal[0])
	}
	if prefixes, err := cidrs.Parse(node.Spec.PodCIDRs); err == nil { // validated by the API server
		spec.PodCIDRs = cidrs.Texts(prefixes)
	}
	return spec
}

func (c *controller) hasNoHelper(name string) bool {
	node, ok := c.nodes.Get(name)
	return ok && !c.helpers.RunOn(node, true)
}

// detachGone deletes the attachment of a node that no longer exists according to the API
// server itself.
func (c *controller) detachGone(ctx context.Context, attachment *v1alpha1.NodeAttachment) error {
	_, err := c.client.Nodes().Get(ctx, attachment.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err // or nil: the node was created again, and the cache will follow
	}
	return c.detach(ctx, attachment)
}

func (c *controller) detach(ctx context.Context, attachment *v1alpha1.NodeAttachment) error {
	if err := deleteExactly(ctx, c.client.NodeAttachments(), attachment); err != nil {
		return fmt.Errorf("delete NodeAttachment %s: %w", attachment.Name, err)
	}
	return nil
}

// attachable returns the nodes that have a NodeAttachment: those on which node helpers run.
func (c *controller) attachable(nodes []*corev1.Node) (some []*corev1.Node) {
	for _, node := range nodes {
		if _, attached := c.attachments.Get(node.Name); c.helpers.RunOn(node, attached) {
			some = append(some, node)
		}
	}
	return some
}

// grantedAddresses are the bound addresses of one owner, IPv4 first. internal is empty
// without the address that the owner's index or number is derived from.
type grantedAddresses struct{ internal, external []netip.Addr }

func addressesByOwner(n *network.Network, inForce []claims.Spec) map[v1alpha1.ClaimOwner]grantedAddresses {
	all := make(map[v1alpha1.ClaimOwner]grantedAddresses)
	for _, spec := range inForce {
		granted, a := all[spec.Owner], claims.Grant(spec).Prefix.Addr()
		switch spec.Pool {
		case v1alpha1.PoolInternal:
			granted.internal = ipv4First(append(granted.internal, a))
		case v1alpha1.PoolExternal:
			granted.external = ipv4First(append(granted.external, a))
		}
		all[spec.Owner] = granted
	}
	numbered4 := len(cidrs.OfFamily(n.Internal, true)) > 0
	for owner, granted := range all {
		if len(granted.internal) > 0 && granted.internal[0].Is4() != numbered4 {
			granted.internal = nil
			all[owner] = granted
		}
	}
	return all
}

func ipv4First(addresses []netip.Addr) []netip.Addr {
	slices.SortFunc(addresses, netip.Addr.Compare) // IPv4 sorts before IPv6
	return addresses
}

// noteUnattached keeps the reasons why nodes cannot be attached for the condition
// NodesAttached, which the next pass writes. They do not fail the pass: other nodes are
// attached, and a repetition changes nothing.
func (c *controller) noteUnattached(reasons []string) {
	slices.Sort(reasons)
	if reasons == nil {
		reasons = []string{} // known
	}
	if c.unattached == nil || !slices.Equal(reasons, c.unattached) {
		c.unattached = reasons
		c.wakeUp()
	}
}

func nodesAttached(reasons []string) metav1.Condition {
	c := condition.New(metav1.ConditionTrue, "Attached", "every node with a node helper can have a NodeAttachment")
	if len(reasons) > 0 {
		text := strings.Join(reasons[:min(len(reasons), maxUnconfirmed)], "; ")
		if more := len(reasons) - maxUnconfirmed; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		c = condition.New(metav1.ConditionFalse, "NotAttached", "%s", text)
	}
	c.Type = v1alpha1.ConditionNodesAttached
	return c
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
)

// attach creates or updates one NodeAttachment for each node, with the bound addresses, and
// deletes those of removed nodes. An error for one node does not affect others.
func (c *controller) attach(ctx context.Context, n *network, nodes []*corev1.Node, inForce []claims.Spec) error {
	granted := n.addressesByOwner(inForce)
	var problems []error
	wanted := make(map[string]bool)
	for _, node := range nodes {
		wanted[node.Name] = true
		owner := v1alpha1.ClaimOwner{Kind: kindNode, Name: node.Name}
		problems = append(problems, c.attachNode(ctx, node, granted[owner]))
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
	return errors.Join(problems...)
}

func (c *controller) attachNode(ctx context.Context, node *corev1.Node, granted grantedAddresses) error {
	spec, meta := attachmentSpec(node, granted), metav1.ObjectMeta{Name: node.Name}
	is, exists := c.attachments.Get(node.Name)
	if exists {
		spec.PodAddresses = is.Spec.PodAddresses // which publishPods writes
		meta.UID, meta.ResourceVersion = is.UID, is.ResourceVersion
	}
	switch {
	case len(spec.UnderlayAddresses) == 0:
		return fmt.Errorf("Node %s has no InternalIP, so gateways cannot reach it; check why its kubelet reports none", node.Name)
	case exists && (len(spec.InternalAddresses) == 0 || spec.Index != is.Spec.Index):
		// Its addresses are no longer bound, or its index, which is immutable, has changed.
		return c.detach(ctx, is)
	case len(spec.InternalAddresses) == 0 || exists && reflect.DeepEqual(spec, is.Spec):
		return nil
	}
	_, err := c.client.NodeAttachments().Apply(ctx, &v1alpha1.NodeAttachment{ObjectMeta: meta, Spec: spec}, Manager)
	switch {
	case apierrors.IsConflict(err):
		c.wakeUp() // publishPods or the node has written it just now
		return nil
	case err != nil:
		return fmt.Errorf("NodeAttachment %s: %w", node.Name, err)
	}
	return nil
}

// attachmentSpec returns the desired spec of the attachment of a node.
func attachmentSpec(node *corev1.Node, granted grantedAddresses) v1alpha1.NodeAttachmentSpec {
	spec := v1alpha1.NodeAttachmentSpec{
		UnderlayAddresses: ips(nodeAddresses(node, corev1.NodeInternalIP)),
		InternalAddresses: ips(granted.internal),
		ExternalAddresses: ips(granted.external),
	}
	if len(granted.internal) > 0 {
		spec.Index = nodeIndex(granted.internal[0])
	}
	if prefixes, err := parsePrefixes(node.Spec.PodCIDRs); err == nil { // validated by the API server
		spec.PodCIDRs = cidrs(prefixes)
	}
	return spec
}

// hasNoHelper reports whether a node exists on which no node helper runs.
func (c *controller) hasNoHelper(name string) bool {
	node, ok := c.nodes.Get(name)
	return ok && !c.helpers.runOn(node, true)
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

// detach deletes an attachment, but not another one that has replaced it.
func (c *controller) detach(ctx context.Context, attachment *v1alpha1.NodeAttachment) error {
	exactly := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &attachment.UID}}
	err := c.client.NodeAttachments().Delete(ctx, attachment.Name, exactly)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete NodeAttachment %s: %w", attachment.Name, err)
	}
	return nil
}

// attachedAddresses returns all addresses that an attachment uses.
func attachedAddresses(a *v1alpha1.NodeAttachment) (used []netip.Addr) {
	return append(addrs(a.Spec.InternalAddresses), addrs(a.Spec.ExternalAddresses)...)
}

// grantedAddresses are the bound addresses of one owner, IPv4 first. internal is empty
// without the address that the owner's index or number is derived from.
type grantedAddresses struct{ internal, external []netip.Addr }

func (n *network) addressesByOwner(inForce []claims.Spec) map[v1alpha1.ClaimOwner]grantedAddresses {
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
	numbered4 := len(ofFamily(n.internal, true)) > 0
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

func ips(addresses []netip.Addr) (texts []v1alpha1.IP) {
	for _, a := range addresses {
		texts = append(texts, v1alpha1.IP(a.String()))
	}
	return texts
}

func addrs(texts []v1alpha1.IP) (addresses []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(string(text)); err == nil {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

package operator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// LongestInvite is the maximum validity of an invite.
const LongestInvite = 7 * 24 * time.Hour

// invitePeer is the name of the peer that has the temporary key of an invite.
const invitePeer = "invite"

// InviteOptions configure an invite.
type InviteOptions struct {
	Name             string
	ClusterID        v1alpha1.ClusterID // of the other cluster; empty: that of the first announcement
	Expires          time.Duration
	ServiceType      corev1.ServiceType      // empty: the existing type, or else a detected one
	Replicas         int32                   // gateways; 0: unchanged, or the default
	Prefixes         []v1alpha1.CIDR         // of the other cluster's pods, which keep their addresses where they are free
	AcceptPrefixes   []v1alpha1.AcceptedCIDR // that the other cluster may announce, in addition to private ranges
	Replace          bool                    // replace a Peering that is in use
	GatewayNamespace string
	Random           io.Reader
	Now              func() time.Time
	Waiting          Waiting
}

// NewInvite creates a Peering for the bearer of the invite, and returns the invite once it
// can be used: when the local gateways have endpoints. This cluster keeps only the public
// half of the temporary key. A Peering that is in use is not changed, unless it is to be
// replaced: then it is deleted first, with its gateways and all exchanged keys.
func NewInvite(ctx context.Context, c Cluster, o InviteOptions) (*Invite, error) {
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	networks, err := joinable(ctx, o.Waiting, c)
	if err != nil {
		return nil, err
	}
	network := networks[0]
	was, err := c.peering(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	if err := c.checkInvited(ctx, o, network, was); err != nil {
		return nil, err
	}
	if was != nil && inUse(was) {
		if !o.Replace {
			return nil, fmt.Errorf("%s: Peering %s is already in use; choose another name, or delete it and create a new invite with --replace", c.Name, o.Name)
		}
		if err := c.remove(ctx, was, o.GatewayNamespace, o.Waiting); err != nil {
			return nil, err
		}
		was = nil
	}
	private, err := NewPrivateKey(o.Random)
	if err != nil {
		return nil, err
	}
	public, err := private.Public()
	if err != nil {
		return nil, err
	}
	service := o.ServiceType
	if service == "" && (was == nil || !acceptsConnections(was)) {
		service = c.reachableServiceType(ctx)
	}
	notAfter := metav1.NewTime(o.Now().Add(o.Expires).UTC().Truncate(time.Second))
	is, err := c.applySpec(ctx, o.Name, was, func(spec *v1alpha1.PeeringSpec) {
		if o.ClusterID != "" {
			spec.ClusterID = o.ClusterID
		}
		spec.Peers = []v1alpha1.Peer{{Name: invitePeer, PublicKey: public, NotAfter: &notAfter}}
		if was == nil {
			spec.LocalPods, spec.AcceptPrefixes = true, accepted()
		}
		for _, one := range remotePrefixes(o.Prefixes) {
			if !slices.ContainsFunc(spec.Prefixes, func(p v1alpha1.RemotePrefix) bool { return p.CIDR == one.CIDR }) {
				spec.Prefixes = append(spec.Prefixes, one)
			}
		}
		for _, cidr := range o.AcceptPrefixes {
			if !slices.Contains(spec.AcceptPrefixes, cidr) {
				spec.AcceptPrefixes = append(spec.AcceptPrefixes, cidr)
			}
		}
		if service != "" {
			spec.Gateway.Service.Type = service
		}
		if o.Replicas != 0 {
			spec.Gateway.Replicas = o.Replicas
		}
	})
	if err != nil {
		return nil, err
	}
	gateways, err := c.untilRunning(ctx, is, o.Waiting, "create an invite")
	if err != nil {
		return nil, err
	}
	i := &Invite{
		ClusterID: network.Status.ClusterID, Prefixes: peering.LocalPrefixes(is, network), ExternalPrefixes: network.Spec.ExternalCIDRs,
		PrivateKey: private, NotAfter: notAfter.UTC(),
	}
	for _, g := range gateways {
		i.Gateways = append(i.Gateways, InviteGateway{Name: g.Name, PublicKey: g.PublicKey, Endpoints: g.Endpoints})
	}
	return i, nil
}

// checkInvited returns an error if the invited cluster cannot have the ID that the invite is
// for: it is this cluster's own, or that of another Peering. was is the Peering that exists,
// nil if none.
func (c Cluster) checkInvited(ctx context.Context, o InviteOptions, network *v1alpha1.ClusterNetwork, was *v1alpha1.Peering) error {
	if o.ClusterID == "" {
		return nil
	}
	if o.ClusterID == network.Status.ClusterID {
		return fmt.Errorf("%s: cluster ID %s is this cluster's own; set --cluster-id to the ID of the other cluster", c.Name, o.ClusterID)
	}
	if was != nil && !(o.Replace && inUse(was)) && was.Spec.ClusterID != "" && was.Spec.ClusterID != o.ClusterID {
		return fmt.Errorf("%s: Peering %s is with cluster %s, not with %s; choose another name, or delete it first (kubectl delete peering %s)", c.Name, o.Name, was.Spec.ClusterID, o.ClusterID, o.Name)
	}
	all, err := c.Peerings(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if p := &all[i]; p.Name != o.Name && remoteID(p) == o.ClusterID {
			return fmt.Errorf("%s: cluster ID %s belongs to Peering %s; delete that Peering first, or correct --cluster-id", c.Name, o.ClusterID, p.Name)
		}
	}
	return nil
}

// inUse reports whether a Peering is more than an invite that was not accepted.
func inUse(p *v1alpha1.Peering) bool {
	return p.Status.Announcement != nil || p.Spec.InviteUntil != nil || slices.ContainsFunc(p.Spec.Peers, func(peer v1alpha1.Peer) bool { return peer.Name != invitePeer })
}

// untilRunning waits until all gateways of a Peering have keys and, if they accept
// connections, endpoints. to is what to run the command again for if the Peering is deleted.
func (c Cluster) untilRunning(ctx context.Context, p *v1alpha1.Peering, w Waiting, to string) (gateways []v1alpha1.GatewayStatus, err error) {
	err = w.Until(ctx, func(ctx context.Context) (missing string, err error) {
		is, err := c.again(ctx, p.Name, p.UID, to)
		if err != nil {
			return "", err
		}
		gateways, missing = readyGateways(is)
		return missing, nil
	})
	return gateways, err
}

// remove deletes a Peering and waits until its gateways and their keys are deleted, so that
// a new Peering of that name does not reuse them.
func (c Cluster) remove(ctx context.Context, p *v1alpha1.Peering, namespace string, w Waiting) error {
	err := Delete(ctx, c, "Peering", c.Client.Peerings(), p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if err != nil {
		return err
	}
	c.deleted(p)
	return c.untilRemoved(ctx, p, namespace, w)
}

// untilRemoved waits until a deleted Peering has no gateways and keys any more.
func (c Cluster) untilRemoved(ctx context.Context, p *v1alpha1.Peering, namespace string, w Waiting) error {
	of := metav1.ListOptions{LabelSelector: peering.Label + "=" + p.Name}
	return w.Until(ctx, func(ctx context.Context) (string, error) {
		pods, err := List(ctx, c, "the gateways' pods", c.Client.Pods(namespace), of)
		if err != nil {
			return "", err
		}
		keys, err := List(ctx, c, "the gateways' Secrets", c.Client.Secrets(namespace), of)
		if err != nil {
			return "", err
		}
		if left := len(pods.Items) + len(keys.Items); left > 0 {
			return fmt.Sprintf("%d pods and Secrets of the deleted Peering %s remain in namespace %s", left, p.Name, namespace), nil
		}
		return "", nil
	})
}

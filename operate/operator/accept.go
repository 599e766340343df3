package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// AcceptOptions configure the acceptance of an invite.
type AcceptOptions struct {
	Name             string // of the Peering; empty: the ID of the inviting cluster
	Replicas         int32  // gateways; 0: unchanged, or the default
	KeepAddresses    bool   // list the CIDRs of the inviting cluster, so that they keep their addresses where they are free
	Yes              bool   // accept CIDRs that are not private, and other gateways in a Peering that has some
	GatewayNamespace string
	Waiting          Waiting
}

// Accept joins the inviting cluster, and waits until the peering is ready and no longer
// needs the invite.
func Accept(ctx context.Context, c Cluster, i *Invite, o AcceptOptions) (*PeeringReport, error) {
	networks, err := joinable(ctx, o.Waiting, c)
	if err != nil {
		return nil, err
	}
	network := networks[0]
	if network.Status.ClusterID == i.ClusterID {
		return nil, fmt.Errorf("%s: the invite was created by this cluster, %s; accept it in the other cluster "+
			"(if both clusters have the same ID, change spec.clusterID of the ClusterNetwork %s of one)",
			c.Name, i.ClusterID, v1alpha1.ClusterNetworkName)
	}
	all, err := c.Peerings(ctx)
	if err != nil {
		return nil, err
	}
	name, was, err := findPeering(c, all, i.ClusterID, o.Name, "--name")
	if err != nil {
		return nil, err
	}
	if err := c.checkNotSuperseded(name, was, i.keys()); err != nil {
		return nil, err
	}
	if err := c.checkKnown(name, was, i.keys(), o.Yes); err != nil {
		return nil, err
	}
	if was == nil {
		if err := c.checkPrivate(i.ClusterID, i.ranges(), o.Yes); err != nil {
			return nil, err
		}
	}
	is := was
	if was == nil || was.Spec.InviteUntil != nil || !announced(was, i.keys()) {
		if is, err = c.accept(ctx, name, was, i, o); err != nil {
			return nil, err
		}
	}
	err = o.Waiting.Until(ctx, func(ctx context.Context) (string, error) {
		now, err := c.again(ctx, name, is.UID, "accept the invite")
		if err != nil {
			return "", err
		}
		is = now
		if missing := notReadyReason(is); missing != "" {
			return missing, nil
		}
		// Until then, the other cluster knows the local gateways only by the key of the
		// invite.
		reports, err := c.Reports(ctx)
		if err != nil {
			return "", err
		}
		if is.Spec.InviteUntil != nil && !(announced(is, i.keys()) && ownLink(is, linksOf(is, reports))) {
			return "the clusters have not exchanged their own keys yet", nil
		}
		return "", nil
	})
	if err != nil {
		return nil, err
	}
	report, err := c.readPeeringReport(ctx, network, is)
	if err != nil {
		return nil, err
	}
	return &report, c.removeInvite(ctx, is, o.GatewayNamespace)
}

// accept creates the Peering, and before it the Secret with the temporary key, so that the
// gateways find it when they start.
func (c Cluster) accept(ctx context.Context, name string, was *v1alpha1.Peering, i *Invite, o AcceptOptions) (*v1alpha1.Peering, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: peering.InviteSecret(name), Namespace: o.GatewayNamespace, Labels: map[string]string{peering.Label: name}},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{peering.InviteKey: []byte(string(i.PrivateKey) + "\n")},
	}
	if err := c.writeSecret(ctx, secret); err != nil {
		return nil, err
	}
	until := metav1.NewTime(i.NotAfter)
	is, err := c.applySpec(ctx, name, was, func(spec *v1alpha1.PeeringSpec) {
		spec.ClusterID, spec.InviteUntil = i.ClusterID, &until
		if was == nil { // an existing Peering keeps its grants
			spec.LocalPods, spec.AcceptPrefixes = true, accepted(i.ranges()...)
			if o.KeepAddresses {
				spec.Prefixes, spec.ExternalPrefixes = remotePrefixes(i.Prefixes), remotePrefixes(i.ExternalPrefixes)
			}
		}
		if o.Replicas != 0 {
			spec.Gateway.Replicas = o.Replicas
		}
		var gateways []v1alpha1.GatewayStatus
		for _, g := range i.Gateways {
			gateways = append(gateways, v1alpha1.GatewayStatus{Name: g.Name, PublicKey: g.PublicKey, Endpoints: g.Endpoints})
		}
		spec.Peers = asPeers(gateways, spec.Peers)
	})
	if err != nil {
		return nil, err
	}
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Peering", Name: is.Name, UID: is.UID,
	}} // so that it is deleted with the Peering
	return is, c.writeSecret(ctx, secret)
}

func (c Cluster) writeSecret(ctx context.Context, secret *corev1.Secret) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	_, err := c.Client.Secrets(secret.Namespace).Apply(ctx, secret, Manager)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: the namespace %s of the gateways does not exist; install Strait in this cluster, or set --gateway-namespace", c.Name, secret.Namespace)
	}
	return c.Failed("write Secret "+secret.Name, err)
}

// removeInvite deletes the Secret of the used invite and clears inviteUntil.
func (c Cluster) removeInvite(ctx context.Context, p *v1alpha1.Peering, namespace string) error {
	if p.Spec.InviteUntil == nil {
		return nil
	}
	if err := Delete(ctx, c, "Secret", c.Client.Secrets(namespace), peering.InviteSecret(p.Name), metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := c.applySpec(ctx, p.Name, p, func(spec *v1alpha1.PeeringSpec) { spec.InviteUntil = nil })
	return err
}

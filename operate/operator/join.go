package operator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// JoinOptions configure the joining of two clusters.
type JoinOptions struct {
	Name, RemoteName string             // of the local and the remote Peering; empty: the ID of the other cluster
	ServiceType      corev1.ServiceType // of the remote cluster's gateways; empty: the existing type, or else a detected one
	Replicas         int32              // in both clusters; 0: unchanged, or the default
	KeepAddresses    bool               // list the CIDRs of each cluster in the other, so that they keep their addresses where they are free
	Yes              bool               // accept CIDRs that are not private, and other gateways in a Peering that has some
	Waiting          Waiting
}

// Joined is the result of a join: the two Peerings.
type Joined struct {
	Local  PeeringReport `json:"local"`
	Remote PeeringReport `json:"remote"`
}

type side struct {
	Cluster
	network *v1alpha1.ClusterNetwork
	name    string            // of its Peering
	peering *v1alpha1.Peering // nil: there is none yet
}

// Join joins two clusters with access to both, and waits until both are ready. Existing
// configuration is kept: clusters that are joined already are not changed.
func Join(ctx context.Context, local, remote Cluster, o JoinOptions) (*Joined, error) {
	a, b := &side{Cluster: local}, &side{Cluster: remote}
	if err := identify(ctx, a, b, o); err != nil {
		return nil, err
	}
	if a.peering == nil || b.peering == nil || notReadyReason(a.peering) != "" || notReadyReason(b.peering) != "" {
		if err := errors.Join(a.checkRanges(b, o), b.checkRanges(a, o)); err != nil {
			return nil, err
		}
		if err := a.join(ctx, b, o, ""); err != nil {
			return nil, err
		}
		if err := b.join(ctx, a, o, b.serviceType(ctx, a, o.ServiceType)); err != nil {
			return nil, err
		}
		if err := exchangeGateways(ctx, a, b, o); err != nil {
			return nil, err
		}
	}
	err := o.Waiting.Until(ctx, func(ctx context.Context) (string, error) {
		if err := errors.Join(a.reload(ctx), b.reload(ctx)); err != nil {
			return "", err
		}
		for _, s := range []*side{a, b} {
			if missing := notReadyReason(s.peering); missing != "" {
				return fmt.Sprintf("%s: %s", s.Name, missing), nil
			}
		}
		return "", nil
	})
	if err != nil {
		return nil, err
	}
	joined := new(Joined)
	if joined.Local, err = a.readPeeringReport(ctx, a.network, a.peering); err != nil {
		return nil, err
	}
	joined.Remote, err = b.readPeeringReport(ctx, b.network, b.peering)
	return joined, err
}

func identify(ctx context.Context, a, b *side, o JoinOptions) error {
	networks, err := joinable(ctx, o.Waiting, a.Cluster, b.Cluster)
	if err != nil {
		return err
	}
	a.network, b.network = networks[0], networks[1]
	switch id := a.network.Status.ClusterID; {
	case a.network.UID == b.network.UID:
		return fmt.Errorf("%s and %s are the same cluster, %s; select the contexts of two clusters", a.Name, b.Name, id)
	case id == b.network.Status.ClusterID:
		return fmt.Errorf("%s and %s both have the cluster ID %s; change spec.clusterID of the ClusterNetwork %s of one",
			a.Name, b.Name, id, v1alpha1.ClusterNetworkName)
	}
	for _, s := range []struct {
		*side
		with         *side
		wished, flag string
	}{{a, b, o.Name, "--name"}, {b, a, o.RemoteName, "--remote-name"}} {
		all, err := s.Peerings(ctx)
		if err != nil {
			return err
		}
		if s.name, s.peering, err = findPeering(s.Cluster, all, s.with.network.Status.ClusterID, s.wished, s.flag); err != nil {
			return err
		}
	}
	return nil
}

// serviceType returns the Service type for the gateways of the side that accepts
// connections, empty to keep the current type.
func (s *side) serviceType(ctx context.Context, other *side, wished corev1.ServiceType) corev1.ServiceType {
	if wished != "" || other.peering != nil && acceptsConnections(other.peering) || s.peering != nil && acceptsConnections(s.peering) {
		return wished
	}
	return s.reachableServiceType(ctx)
}

// join creates or updates a side's Peering, except for the gateways of the other side.
func (s *side) join(ctx context.Context, with *side, o JoinOptions, service corev1.ServiceType) (err error) {
	isNew := s.peering == nil
	s.peering, err = s.applySpec(ctx, s.name, s.peering, func(spec *v1alpha1.PeeringSpec) {
		spec.ClusterID = with.network.Status.ClusterID
		if isNew { // an existing Peering keeps its grants
			grant(spec, with.network, o.KeepAddresses)
		}
		if o.Replicas != 0 {
			spec.Gateway.Replicas = o.Replicas
		}
		if service != "" {
			spec.Gateway.Service.Type = service
		}
	})
	return err
}

// checkRanges checks the CIDRs of the other side, if a Peering is to accept them.
func (s *side) checkRanges(with *side, o JoinOptions) error {
	if s.peering != nil {
		return nil
	}
	return s.checkPrivate(with.network.Status.ClusterID, ranges(with.network), o.Yes)
}

// grant grants the pods of both clusters access to each other. The remote cluster's own
// CIDRs are listed only if they are to keep their addresses.
func grant(spec *v1alpha1.PeeringSpec, remote *v1alpha1.ClusterNetwork, keep bool) {
	spec.LocalPods, spec.AcceptPrefixes = true, accepted(ranges(remote)...)
	if keep {
		pods := peering.LocalPrefixes(&v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{LocalPods: true}}, remote)
		spec.Prefixes, spec.ExternalPrefixes = remotePrefixes(pods), remotePrefixes(remote.Spec.ExternalCIDRs)
	}
}

// exchangeGateways waits for the gateways of both sides, and adds them to the Peering of
// the other side.
func exchangeGateways(ctx context.Context, a, b *side, o JoinOptions) error {
	var ofA, ofB []v1alpha1.GatewayStatus
	err := o.Waiting.Until(ctx, func(ctx context.Context) (missing string, err error) {
		if err := errors.Join(a.reload(ctx), b.reload(ctx)); err != nil {
			return "", err
		}
		if ofA, missing = readyGateways(a.peering); missing != "" {
			return fmt.Sprintf("%s: %s", a.Name, missing), nil
		}
		if ofB, missing = readyGateways(b.peering); missing != "" {
			return fmt.Sprintf("%s: %s", b.Name, missing), nil
		}
		if !haveEndpoint(ofA) && !haveEndpoint(ofB) {
			return fmt.Sprintf("neither cluster accepts connections: gateways with a Service of type ClusterIP have no endpoint; "+
				"use --service-type NodePort or LoadBalancer for %s, or swap --context and --remote-context", b.Name), nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	if err := errors.Join(a.checkNotSuperseded(a.name, a.peering, keysOf(ofB)), b.checkNotSuperseded(b.name, b.peering, keysOf(ofA)),
		a.checkKnown(a.name, a.peering, keysOf(ofB), o.Yes), b.checkKnown(b.name, b.peering, keysOf(ofA), o.Yes)); err != nil {
		return err
	}
	if a.peering, err = a.applySpec(ctx, a.name, a.peering, func(s *v1alpha1.PeeringSpec) { s.Peers = asPeers(ofB, s.Peers) }); err != nil {
		return err
	}
	b.peering, err = b.applySpec(ctx, b.name, b.peering, func(s *v1alpha1.PeeringSpec) { s.Peers = asPeers(ofA, s.Peers) })
	return err
}

// reload reads the Peering again. A deleted Peering is an error.
func (s *side) reload(ctx context.Context) (err error) {
	s.peering, err = s.again(ctx, s.name, "", "join the clusters")
	return err
}

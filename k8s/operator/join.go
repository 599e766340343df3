package operator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// JoinOptions are how two clusters are joined.
type JoinOptions struct {
	Name, RemoteName string             // of the Peering with the remote cluster here, and of the one with this cluster there; empty: the other's ID
	ServiceType      corev1.ServiceType // of the remote cluster's gateways; empty: whatever is there, or else what works there
	Replicas         int32              // on both sides; 0: as they are, or the default
	Waiting          Waiting
}

// Joined are the two Peerings of a join.
type Joined struct {
	Local  PeeringReport `json:"local"`
	Remote PeeringReport `json:"remote"`
}

// side is one of the two clusters of a join.
type side struct {
	Cluster
	network *v1alpha1.ClusterNetwork
	name    string            // of its Peering
	peering *v1alpha1.Peering // nil: there is none yet
}

// Join joins two clusters to which there is access, and waits until both are ready. What
// is there already stays: of clusters that are joined nothing is changed.
func Join(ctx context.Context, local, remote Cluster, o JoinOptions) (*Joined, error) {
	a, b := &side{Cluster: local}, &side{Cluster: remote}
	if err := identify(ctx, a, b, o); err != nil {
		return nil, err
	}
	if a.peering == nil || b.peering == nil || notReadyReason(a.peering) != "" || notReadyReason(b.peering) != "" {
		if err := a.join(ctx, b, o, ""); err != nil {
			return nil, err
		}
		if err := b.join(ctx, a, o, b.serviceType(ctx, a, o.ServiceType)); err != nil {
			return nil, err
		}
		if err := exchangeGateways(ctx, a, b, o.Waiting); err != nil {
			return nil, err
		}
	}
	err := o.Waiting.until(ctx, func(ctx context.Context) (string, error) {
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
	return &Joined{Local: peeringReport(a.network, a.peering), Remote: peeringReport(b.network, b.peering)}, nil
}

// identify finds out who the two clusters are, and that they can be joined.
func identify(ctx context.Context, a, b *side, o JoinOptions) (err error) {
	for _, s := range []*side{a, b} {
		if s.network, err = s.Network(ctx); err != nil {
			return err
		}
		if err := s.usable(s.network); err != nil {
			return err
		}
	}
	switch id := a.network.Status.ClusterID; {
	case a.network.UID == b.network.UID:
		return fmt.Errorf("%s and %s are the same cluster, %s; name the contexts of two", a.Name, b.Name, id)
	case id == b.network.Status.ClusterID:
		return fmt.Errorf("%s and %s both have the cluster ID %s; give one of them another in spec.clusterID of its ClusterNetwork %s",
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

// serviceType is what the gateways of the side that is called shall have, empty for what
// they have.
func (s *side) serviceType(ctx context.Context, other *side, wished corev1.ServiceType) corev1.ServiceType {
	if wished != "" || other.peering != nil && acceptsConnections(other.peering) || s.peering != nil && acceptsConnections(s.peering) {
		return wished
	}
	return s.reachableServiceType(ctx)
}

// join brings a side as far as it comes without knowing the gateways of the other.
func (s *side) join(ctx context.Context, with *side, o JoinOptions, service corev1.ServiceType) (err error) {
	isNew := s.peering == nil
	s.peering, err = s.applySpec(ctx, s.name, s.peering, func(spec *v1alpha1.PeeringSpec) {
		spec.ClusterID = with.network.Status.ClusterID
		if isNew { // what somebody else wrote says what is granted
			grant(spec, with.network)
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

// grant lets pods of both clusters reach each other.
func grant(spec *v1alpha1.PeeringSpec, remote *v1alpha1.ClusterNetwork) {
	pods := peering.LocalPrefixes(&v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{LocalPods: true}}, remote)
	spec.LocalPods = true
	spec.Prefixes, spec.ExternalPrefixes = remotePrefixes(pods), remotePrefixes(remote.Spec.ExternalCIDRs)
	spec.AcceptPrefixes = accepted(ranges(remote)...)
}

// exchangeGateways waits for the gateways of both sides, and tells each side those of the other.
func exchangeGateways(ctx context.Context, a, b *side, w Waiting) error {
	var ofA, ofB []v1alpha1.GatewayStatus
	err := w.until(ctx, func(ctx context.Context) (missing string, err error) {
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
			return fmt.Sprintf("neither side can be called: gateways behind a Service of type ClusterIP have no endpoint; "+
				"use --service-type NodePort or LoadBalancer for %s, or exchange --context and --remote-context", b.Name), nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	if err := errors.Join(a.checkNotSuperseded(a.name, a.peering, keysOf(ofB)), b.checkNotSuperseded(b.name, b.peering, keysOf(ofA))); err != nil {
		return err
	}
	if a.peering, err = a.applySpec(ctx, a.name, a.peering, func(s *v1alpha1.PeeringSpec) { s.Peers = asPeers(ofB, s.Peers) }); err != nil {
		return err
	}
	b.peering, err = b.applySpec(ctx, b.name, b.peering, func(s *v1alpha1.PeeringSpec) { s.Peers = asPeers(ofA, s.Peers) })
	return err
}

// reload reads the Peering anew. That it is gone is an error.
func (s *side) reload(ctx context.Context) error {
	is, err := s.Cluster.peering(ctx, s.name)
	if err != nil {
		return err
	}
	if is == nil {
		return fmt.Errorf("%s: Peering %s was deleted meanwhile; run the command again to join the clusters", s.Name, s.name)
	}
	s.peering = is
	return nil
}

package benchmark

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/operator"
)

// Names of the agents.
const (
	nearPod   = "near"
	directPod = "direct"
	farPod    = "far"
)

type placement struct {
	near, direct, far podEnd
}

type podEnd struct {
	crew  *agents.Group
	agent string
	// address is the pod's address as used by the near pod, and nearAddress the near pod's
	// address as used by this pod.
	address, nearAddress netip.Addr
}

// agentsOf starts the pods of one cluster, on another node than the gateway's if possible,
// as for most workloads.
func (o *Options) agentsOf(ctx context.Context, s *operator.Side, image string, names ...string) (*agents.Group, error) {
	nodes, err := joinedNodes(ctx, s)
	if err != nil {
		return nil, err
	}
	if i := slices.Index(nodes, s.Gateway()); i >= 0 {
		nodes = append(slices.Delete(nodes, i, i+1), s.Gateway())
	}
	all := make([]agents.Agent, len(names))
	for i, name := range names {
		all[i] = agents.Agent{Name: name, Node: nodes[i%len(nodes)]}
	}
	return agents.Start(ctx, agents.Options{Client: s.Client, Image: image, Purpose: "bench", Say: o.Say}, all...)
}

// joinedNodes returns the nodes of a cluster on which pods reach the other one.
func joinedNodes(ctx context.Context, s *operator.Side) ([]string, error) {
	nodes, err := operator.List(ctx, s.Cluster, "Nodes", s.Client.Nodes(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	attached, err := s.NodeAttachments(ctx)
	if err != nil {
		return nil, err
	}
	names := agents.Joined(nodes.Items, attached, s.Network.Status.WithoutNodes)
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no node is ready and has a NodeAttachment; check kubectl get nodes,nodeattachments", s.Name)
	}
	return names, nil
}

func (p *placement) setAddresses(a, b *operator.Side) (err error) {
	near, err1 := ipv4(p.near)
	direct, err2 := ipv4(p.direct)
	far, err3 := ipv4(p.far)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	p.direct.address, p.direct.nearAddress = direct, near
	if p.far.address, err = a.Seen(far); err != nil {
		return err
	}
	p.far.nearAddress, err = b.Seen(near)
	return err
}

// ipv4 returns a pod's IPv4 address, or its IPv6 address if it has no other.
func ipv4(s podEnd) (first netip.Addr, err error) {
	for _, a := range agents.Addresses(s.crew.Pod(s.agent)) {
		if a.Is4() {
			return a, nil
		}
		first = a
	}
	if !first.IsValid() {
		return first, fmt.Errorf("pod %s has no address", s.agent)
	}
	return first, nil
}

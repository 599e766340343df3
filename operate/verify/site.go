package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/operate/agents"
)

// purpose is part of the names of the agents' namespaces.
const purpose = "verify"

// staleAfter is the age at which agents of another run are considered abandoned.
const staleAfter = 5 * time.Minute

type site struct {
	*clusterState
	locations []location
	pods      *agents.Group
	hosts     *agents.Group // nil: none, see why of the locations
}

// open starts the agents in namespaces with a suffix, after removing abandoned ones. After an
// error nothing is left behind.
func open(ctx context.Context, g *clusterState, o *Options, image, suffix string) (s *site, err error) {
	left, err := agents.Abandoned(ctx, g.Client, purpose, time.Now().Add(-staleAfter))
	if err == nil {
		err = agents.Remove(ctx, g.Client, left)
	}
	if err == nil && image == "" {
		image, err = agents.Image(ctx, g.Client)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Name, err)
	}
	s = &site{clusterState: g}
	options := agents.Options{Client: g.Client, Image: image, Purpose: purpose, Suffix: suffix, PullSecrets: o.PullSecrets, Say: func(line string) { o.say(g.Name + ": " + line) }}
	var pods, hosts []agents.Agent
	for _, host := range []bool{false, true} {
		for _, other := range []bool{false, true} {
			one := location{host: host, other: other}
			node, why := g.node(other)
			if why != "" {
				one.why = why
				s.locations = append(s.locations, one)
				continue
			}
			one.agent = agentName(host, other)
			a := agents.Agent{Name: one.agent, Node: node}
			if host {
				a.Profile = agents.Node
				hosts = append(hosts, a)
			} else {
				a.Args = []string{"agent", "serve"}
				a.Ports = []corev1.ContainerPort{{ContainerPort: endpoint.Port, Protocol: corev1.ProtocolTCP}, {ContainerPort: endpoint.Port, Protocol: corev1.ProtocolUDP}}
				pods = append(pods, a)
			}
			s.locations = append(s.locations, one)
		}
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("%s: no node to start a pod on: %s", g.Name, s.locations[0].why)
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		s.hosts, err = agents.Start(ctx, options, hosts...)
		ended <- err
	}()
	s.pods, err = agents.Start(ctx, options, pods...)
	hostless := <-ended
	if err != nil || ctx.Err() != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", g.Name, errors.Join(err, ctx.Err())), s.close(context.WithoutCancel(ctx)))
	}
	if hostless != nil { // a cluster may forbid them; all other checks can still run
		s.hosts = nil
		for i := range s.locations {
			if s.locations[i].host && s.locations[i].agent != "" {
				s.locations[i].agent, s.locations[i].why = "", fmt.Sprintf("cluster %s does not run pods in the host network: %v", g.id, hostless)
			}
		}
	}
	return s, nil
}

func agentName(host, other bool) string {
	name := "pod"
	if host {
		name = "host"
	}
	if other {
		return name + "-other"
	}
	return name + "-gateway"
}

// close removes the agents, and waits until they are deleted.
func (s *site) close(ctx context.Context) error {
	return both(func(i int) error {
		c := []*agents.Group{s.pods, s.hosts}[i]
		if c == nil {
			return nil
		}
		return c.End(ctx)
	})
}

func (s *site) agentGroup(agent string) *agents.Group {
	for _, p := range s.locations {
		if p.agent == agent && p.host {
			return s.hosts
		}
	}
	return s.pods
}

// exchangeAddresses sets the agents' mapped addresses in the other cluster.
func (s *site) exchangeAddresses(other *site) {
	for i := range s.locations {
		p := &s.locations[i]
		switch {
		case p.agent == "":
		case p.host:
			node, _ := s.node(p.other)
			p.seenBy(other.clusterState, s.id, s.external(node))
		default:
			p.seenBy(other.clusterState, s.id, agents.Addresses(s.pods.Pod(p.agent)))
		}
	}
}

// shaped returns what plans need to know about the cluster.
func (s *site) shaped(services map[string]map[family]service) shape {
	return shape{s.id, s.locations, services, s.Network.Status.WithoutNodes}
}

func (s *site) kept() (all []string) {
	for _, p := range s.locations {
		if p.agent == "" {
			continue
		}
		pod := s.agentGroup(p.agent).Pod(p.agent)
		all = append(all, fmt.Sprintf("cluster %s: pod %s/%s, %s", s.id, pod.Namespace, pod.Name, pod.Status.PodIP))
	}
	return all
}

package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
)

const (
	// maxNodes is the maximum number of nodes to inspect, in the order of the API server:
	// the nodes of a cluster are usually alike, and thousands of pods would be a burden.
	maxNodes       = 50
	parallel       = 8
	inspectTimeout = 20 * time.Second // for one inspection
)

// udpAgent is the name of the agent that exchanges UDP with the other cluster.
const udpAgent = "caller"

// podGroup is the pods of the agents: an *agents.Group, except in tests.
type podGroup interface {
	Exec(ctx context.Context, name string, stdin io.Reader, stdout io.Writer, args ...string) error
	Pod(name string) *corev1.Pod
	Service(ctx context.Context, name, agent string, kind corev1.ServiceType, ports ...corev1.ServicePort) (*corev1.Service, error)
	End(ctx context.Context) error
}

type startPods func(context.Context, agents.Options, ...agents.Agent) (podGroup, error)

func startAgents(ctx context.Context, o agents.Options, all ...agents.Agent) (podGroup, error) {
	return agents.Start(ctx, o, all...)
}

// agentGroup is the agents in one cluster.
type agentGroup struct {
	podGroup
	facts *facts
	nodes []string // names, in the order of the agents' numbers
}

func agentOf(i int) string { return fmt.Sprintf("node-%d", i) }

// start starts the agents of a cluster: one on each node on which a node helper could run, up
// to a maximum, and, with two clusters, one that the other cluster probes.
func (run startPods) start(ctx context.Context, c operator.Cluster, f *facts, purpose, image string, most int, two bool, say func(string)) (*agentGroup, error) {
	var all []agents.Agent
	is := &agentGroup{facts: f}
	for i := range f.nodes {
		if n := &f.nodes[i]; !f.withoutHelpers && canInspect(n) && len(is.nodes) < most {
			all = append(all, agents.Agent{Name: agentOf(len(is.nodes)), Node: n.Name, Profile: agents.Node})
			is.nodes = append(is.nodes, n.Name)
		}
	}
	if len(is.nodes) == 0 && f.inspects() {
		return nil, errors.New("no ready Linux node")
	}
	if two {
		all = append(all, agents.Agent{Name: udpAgent, Profile: agents.Restricted, Args: []string{"agent", "serve"},
			Ports: []corev1.ContainerPort{{Name: "echo", ContainerPort: endpoint.Port, Protocol: corev1.ProtocolUDP}}})
	}
	started, err := run(ctx, agents.Options{Client: c.Client, Image: image, Purpose: purpose, Say: say}, all...)
	if err != nil {
		return nil, err
	}
	is.podGroup = started
	return is, nil
}

// InspectNodes runs a pod on each ready node of a cluster, inspects the node from it, and
// removes the pods. purpose is that of the command, for the pods' namespaces. All nodes on
// which a node helper could run are inspected; missing is the number of those that could not
// be.
func InspectNodes(ctx context.Context, c operator.Cluster, purpose, image string, say func(string)) (reports []NodeReport, missing int, err error) {
	nodes, err := c.Client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list nodes: %w", err)
	}
	never, _ := forbidden(nodes.Items)
	missing = len(nodes.Items) - never
	if missing == 0 {
		return nil, 0, nil
	}
	is, err := startPods(startAgents).start(ctx, c, &facts{name: c.Name, nodes: nodes.Items}, purpose, image, len(nodes.Items), false, say)
	if err != nil {
		return nil, missing, err
	}
	reports = is.inspect(ctx)
	return reports, missing - len(reports), is.End(context.WithoutCancel(ctx))
}

func (c *agentGroup) inspect(ctx context.Context) []NodeReport {
	reports := make([]NodeReport, len(c.nodes))
	c.each(len(c.nodes), func(i int) {
		within, cancel := context.WithTimeout(ctx, inspectTimeout)
		defer cancel()
		s := NodeReport{Node: c.nodes[i]}
		var out bytes.Buffer
		before := time.Now()
		s.Err = c.Exec(within, agentOf(i), nil, &out, "agent", "node")
		after := time.Now()
		if s.Err == nil {
			s.Err = json.Unmarshal(out.Bytes(), &s.Is)
			s.skew, s.uncertainty = offset(before, after, s.Is.Time)
		}
		reports[i] = s
	})
	return reports
}

// each calls f for the numbers below n, several at a time.
func (c *agentGroup) each(n int, f func(int)) {
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

func (c *agentGroup) allNodeFindings(reports []NodeReport) (all []findings.Finding) {
	p := contextOf(c.facts)
	for _, s := range reports {
		all = append(all, nodeFindings(p, s)...)
	}
	all = append(all, mtuFindings(p, reports)...)
	if missing := len(c.facts.nodes) - len(c.nodes); missing > 0 {
		all = append(all, findings.New("STRAIT-N011", findings.Skipped, c.facts.name,
			"%d of %d nodes were inspected: others are not ready, not Linux, of a platform without node helpers, or beyond the limit of %d", len(c.nodes), len(c.facts.nodes), maxNodes))
	}
	return all
}

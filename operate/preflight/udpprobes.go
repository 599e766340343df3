package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/node"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/findings"
)

const (
	// probesPerNode is the number of other nodes that each node probes; in a small cluster,
	// all.
	probesPerNode = 8
	answerTimeout = 4 * time.Second
	probeSize     = 128 // bytes of an IP packet
)

// mesh probes UDP between nodes on the port of the overlay.
func (c *agentGroup) mesh(ctx context.Context, reports []NodeReport) []findings.Finding {
	const code = "STRAIT-N010"
	if c.facts.image != "" && !c.facts.withoutHelpers {
		return []findings.Finding{findings.New(code, findings.Skipped, c.facts.name,
			"Strait is installed, so nodes accept UDP %d from gateways only; strait status shows whether nodes reach them", config.DefaultOverlayPort)}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var can []int
	for i, s := range reports {
		if s.Err == nil && !slices.ContainsFunc(s.Is.Taken, func(p node.Port) bool { return p.Number == config.DefaultOverlayPort }) {
			can = append(can, i)
		}
	}
	if len(can) < 2 {
		return []findings.Finding{findings.New(code, findings.Skipped, c.facts.name, "UDP %d is free on %d nodes; the check needs two", config.DefaultOverlayPort, len(can))}
	}
	for _, i := range can { // they exit with the agents
		go func() {
			_ = c.Exec(ctx, agentOf(i), nil, nil, "agent", "serve", "--port", strconv.Itoa(config.DefaultOverlayPort)) // a failure shows as missing answers
		}()
	}
	results := make([][]findings.Finding, len(can))
	c.each(len(can), func(at int) {
		var to []int
		for n := 1; n <= min(probesPerNode, len(can)-1); n++ {
			to = append(to, can[(at+n)%len(can)])
		}
		results[at] = c.sends(ctx, can[at], to)
	})
	return slices.Concat(results...)
}

// sends probes other nodes from one node.
func (c *agentGroup) sends(ctx context.Context, from int, to []int) []findings.Finding {
	const code = "STRAIT-N010"
	subject := fmt.Sprintf("%s, node %s", c.facts.name, c.nodes[from])
	var targets []netip.AddrPort
	names := make(map[netip.AddrPort]string)
	for _, i := range to {
		for _, a := range agents.Addresses(c.Pod(agentOf(i))) {
			at := netip.AddrPortFrom(a, config.DefaultOverlayPort)
			targets, names[at] = append(targets, at), c.nodes[i]
		}
	}
	results, err := c.probe(ctx, agentOf(from), targets)
	if err != nil {
		return []findings.Finding{findings.New(code, findings.Skipped, subject, "skipped: %v", err)}
	}
	var unanswered []string
	for i, r := range results {
		if r.Failure != "" {
			unanswered = append(unanswered, fmt.Sprintf("node %s at %v (%s)", names[targets[i]], targets[i], r.Detail))
		}
	}
	if len(unanswered) > 0 {
		return []findings.Finding{findings.New(code, findings.Error, subject, "no answer over UDP from %s", strings.Join(unanswered, ", "))}
	}
	return []findings.Finding{findings.New(code, findings.OK, subject, "%d other nodes answer over UDP %d", len(to), config.DefaultOverlayPort)}
}

// probe has an agent probe several addresses, and returns the results.
func (c *agentGroup) probe(ctx context.Context, agent string, to []netip.AddrPort) ([]endpoint.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout+answerTimeout*time.Duration(len(to)))
	defer cancel()
	var o endpoint.Order
	for i, at := range to {
		o.Sequences = append(o.Sequences, endpoint.Sequence{{
			ID: strconv.Itoa(i), Protocol: endpoint.UDP, To: at, Size: probeSize, Mode: endpoint.Whole, Patience: answerTimeout,
		}})
	}
	in, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := c.Exec(ctx, agent, bytes.NewReader(in), &out, "agent", "probe"); err != nil {
		return nil, err
	}
	var results []endpoint.Result
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		return nil, err
	}
	if len(results) != len(to) {
		return nil, fmt.Errorf("agent %s probed %d of %d addresses", agent, len(results), len(to))
	}
	return results, nil
}

// addressesPerType is the number of node addresses of each type that are probed from the
// other cluster.
const addressesPerType = 2

// open exposes the UDP agent of a cluster, and returns its addresses.
func (c *agentGroup) open(ctx context.Context) ([]netip.AddrPort, error) {
	s, err := c.Service(ctx, udpAgent, udpAgent, corev1.ServiceTypeNodePort, corev1.ServicePort{
		Name: "echo", Protocol: corev1.ProtocolUDP, Port: endpoint.Port, TargetPort: intstr.FromInt32(endpoint.Port),
	})
	if err != nil {
		return nil, err
	}
	var at []netip.AddrPort
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		n := 0
		for i := range c.facts.nodes {
			for _, a := range c.facts.nodes[i].Status.Addresses {
				if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == kind && n < addressesPerType {
					at = append(at, netip.AddrPortFrom(ip, uint16(s.Spec.Ports[0].NodePort)))
					n++
				}
			}
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("no node of %s has an address", c.facts.name)
	}
	return at, nil
}

// probeCluster sends UDP from one cluster to the other.
func probeCluster(ctx context.Context, from, to *agentGroup) crossProbe {
	is := crossProbe{from: from.facts.name, to: to.facts.name}
	at, err := to.open(ctx)
	if err != nil {
		is.err = err
		return is
	}
	results, err := from.probe(ctx, udpAgent, at)
	if err != nil {
		is.err = err
		return is
	}
	for i, r := range results {
		if r.Failure == "" {
			is.passes = append(is.passes, at[i].String())
		} else {
			is.unanswered = append(is.unanswered, fmt.Sprintf("%v (%s)", at[i], r.Detail))
		}
	}
	return is
}

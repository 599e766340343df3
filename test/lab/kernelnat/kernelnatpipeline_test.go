//go:build lab || nightly

package kernelnat

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/config"
	journey "strait.dev/strait/gateway"
	"strait.dev/strait/test/lab"
)

// outcome is the result of a packet.
type outcome struct {
	out     [][]byte // forwarded IP packets: several if it was fragmented
	headers [][]byte // towards a node, of each: tunnel header and Ethernet
	ecn     byte     // towards a node, of the outer header
	answer  []byte   // the ICMP error to its sender
	reason  string   // why it was dropped, if known
}

func (o *outcome) dropped() bool { return len(o.out) == 0 }

// pipeline is the gateway under test, without sockets and WireGuard.
type pipeline struct {
	egress        *journey.Egress
	ingress       *journey.Ingress
	node          journey.Outer
	encapsulation string
	now           time.Time // advanced with each packet, so that no ICMP error is rate limited
}

// underlay addresses of the pair, outside of all translated prefixes.
var natNode, natRouter, natOutsider = lab.Addr("192.0.2.21"), lab.Addr("192.0.2.10"), lab.Addr("192.0.2.22")

const pipelineConfig = `
apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: a
overlay:
  listen: ":6091"
  vxlanListen: ":6092"
  addresses: [10.80.0.1, "fd00:80::1"]
  externalAddresses: [10.70.0.1, "fd00:70::1"]
  nodes:
  - name: node-1
    underlay: 192.0.2.21
    encapsulation: geneve
    vni: 101
    addresses: [10.80.0.11, "fd00:80::11"]
    externalAddresses: [10.70.0.11, "fd00:70::11"]
    prefixes: [10.0.1.0/24, "fd00:10:0:1::/64"]
wireguard:
  privateKeyFile: private.key
  peers:
  - {name: b-0, publicKey: "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="}
local:
  prefixes: [10.0.0.0/16, "fd00:10::/48"]
  externalPrefixes: [10.70.0.0/16, "fd00:70::/48"]
remote:
  cluster: b
  prefixes:
  - {cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}
  - {cidr: 10.70.0.0/16, seenAs: 10.73.0.0/16}
  - {cidr: "fd00:10::/48", seenAs: "fd00:71::/48"}
  - {cidr: "fd00:70::/48", seenAs: "fd00:73::/48"}
`

func newPipeline(t *testing.T, encapsulation string) *pipeline {
	t.Helper()
	c, err := config.Parse([]byte(pipelineConfig))
	if err != nil {
		t.Fatal(err)
	}
	p := &pipeline{encapsulation: encapsulation, now: time.Unix(1_700_000_000, 0), node: journey.Outer{Source: natNode}}
	c.Overlay.Nodes[0].Encapsulation = config.Encapsulation(encapsulation)
	if encapsulation == "vxlan" {
		p.node.Encapsulation = journey.VXLAN
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	table, err := journey.NewTable(c, journey.MTUs{Overlay: natOverlayMTU, Tunnel: natTunnelMTU}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := journey.New(table, rand.NewPCG(1, 2))
	p.egress, p.ingress = journey.NewEgress(g), journey.NewIngress(g)
	return p
}

// fromNode processes a packet from a node.
func (p *pipeline) fromNode(s sample) outcome {
	p.now = p.now.Add(time.Second)
	from := p.node
	from.ECN = s.ecn
	if s.outsider {
		from.Source = natOutsider
	}
	return outcomeOf(p.egress.Frame(slices.Clone(datagramOf(p.encapsulation, s)), from, p.now))
}

// fromTunnel processes a packet from the other cluster.
func (p *pipeline) fromTunnel(packet []byte) outcome {
	p.now = p.now.Add(time.Second)
	return outcomeOf(p.ingress.Packet(slices.Clone(packet), p.now))
}

func outcomeOf(r journey.Result) (o outcome) {
	switch r.Verdict {
	case journey.Drop:
		o.answer, o.reason = slices.Clone(r.Answer), r.Reason.String()
		return o
	case journey.ToHost:
		o.reason = "for the gateway itself"
		return o
	}
	if r.Pieces == nil {
		o.out = append(o.out, slices.Clone(r.Packet))
	} else {
		for buffer := make([]byte, 1<<16); r.Pieces.Left(); {
			n := r.Pieces.Next(buffer)
			o.out = append(o.out, slices.Clone(buffer[:n]))
		}
	}
	if r.Node != nil {
		o.ecn = r.ECN
		for range o.out {
			o.headers = append(o.headers, slices.Clone(r.Node.Header(r.Version)))
		}
	}
	return o
}

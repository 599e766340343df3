//go:build linux

package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/bench/rig/traffic"
	"strait.dev/strait/config"
	"strait.dev/strait/internal/netns"
)

// A gateway with many nodes: 5 000 in its configuration, with 100 000 routes, and traffic
// from 256 of them. These are 256 tunnel devices in nodeA, each with its own underlay
// address, VNI and pod.
const (
	manyNodes     = 5000
	activeNodes   = 256
	routesPerNode = 20
)

// extraNodes returns nodes in addition to the existing one, whose addresses do not overlap with
// others in a topology. The first prefix of each is its IPv4 one.
func extraNodes(n int) []config.Node {
	nodes := make([]config.Node, n)
	for i := range nodes {
		nodes[i] = config.Node{
			Name:              fmt.Sprintf("spare-%d", i),
			Underlay:          plus("172.16.0.0", i),
			VNI:               uint32(1000 + i),
			Addresses:         []netip.Addr{plus("10.80.64.0", i)},
			ExternalAddresses: []netip.Addr{plus("10.70.64.0", i)},
			Prefixes:          []netip.Prefix{netip.PrefixFrom(plus("10.0.64.0", 8*i), 29)},
		}
		for k := 1; k < routesPerNode; k++ {
			address := podCIDRs[1].Addr().As16()
			binary.BigEndian.PutUint32(address[6:], 1<<31|uint32(i*routesPerNode+k))
			nodes[i].Prefixes = append(nodes[i].Prefixes, netip.PrefixFrom(netip.AddrFrom16(address), 80))
		}
	}
	return nodes
}

// podOf and deviceOf return the only pod and the tunnel device of an extra node.
func podOf(n config.Node) netip.Addr { return n.Prefixes[0].Addr().Next() }
func deviceOf(n config.Node) string  { return fmt.Sprintf("ov%d", n.VNI) }

func plus(first string, n int) (a netip.Addr) {
	b := netip.MustParseAddr(first).As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
	return netip.AddrFrom4(b)
}

// manyNodesSubject is strait with many nodes in both gateways, of which some exist in A.
// Kernel Geneve cannot choose its source address, so these use VXLAN.
func manyNodesSubject(binary string) *Subject {
	s := straitSubject(nameStraitManyNodes, binary, straitShape{extraNodes: manyNodes})
	start := s.up
	s.up = func(r *Rig, t *topology) error {
		if err := start(r, t); err != nil {
			return err
		}
		if err := t.a.gw.IP(route(netip.MustParsePrefix("172.16.0.0/16"), t.a.nodeUnderlay[0], "node")); err != nil {
			return err
		}
		var lines strings.Builder
		for _, n := range extraNodes(activeNodes) {
			fmt.Fprintf(&lines, "addr add %s/32 dev gw\n", n.Underlay)
			lines.WriteString(netns.Tunnel("vxlan", deviceOf(n), int(n.VNI), n.Underlay, t.a.gwUnderlay[0], netns.TunnelMAC(n.Addresses[0])))
			fmt.Fprintf(&lines, "addr add %s/32 dev %s\n", podOf(n), deviceOf(n))
			fmt.Fprintf(&lines, "neigh replace %s lladdr %s nud permanent dev %s\n", gwInternal[0], netns.TunnelMAC(gwInternal[0]), deviceOf(n))
			fmt.Fprintf(&lines, "route add %s via %s dev %s onlink metric %d\n", t.b.seenAs[0], gwInternal[0], deviceOf(n), n.VNI)
		}
		return t.a.node.IP(lines.String())
	}
	return s
}

// fromNodes measures streams from many nodes, or as many streams from the only one.
func fromNodes(l lengths) func(*Rig, *setting) (metrics, error) {
	return func(r *Rig, p *setting) (metrics, error) {
		s := traffic.Streams{To: p.sees(p.b, 0)}
		for _, n := range extraNodes(activeNodes) {
			from := traffic.Source{Address: podOf(n), Device: deviceOf(n)}
			if p.Name != nameStraitManyNodes {
				from = traffic.Source{Address: p.a.Router[0]}
			}
			s.From = append(s.From, from)
		}
		return r.streams(p, p.a.node, p.b.pod, s, l.streams)
	}
}

func resident(_ *Rig, p *setting) (metrics, error) {
	bytes, err := p.processes[0].memory("VmRSS")
	return metrics{unitResident: bytes}, err
}

// duringReload measures round trips while gateway A reloads its configuration.
func duringReload(l lengths) func(*Rig, *setting) (metrics, error) {
	return func(r *Rig, p *setting) (metrics, error) {
		go func() {
			time.Sleep(l.roundTrips / 4)
			_ = p.processes[0].cmd.Process.Signal(unix.SIGHUP) // if it has ended, no response arrives either
		}()
		m, err := r.roundTrips(p, 1, l.roundTrips)
		return m, errors.Join(err, p.awaitQuiet())
	}
}

// awaitQuiet waits until the gateways use almost no CPU time.
func (p *setting) awaitQuiet() error {
	const interval = 100 * time.Millisecond
	before, err := p.gateways.cpu()
	for range 100 {
		if err != nil {
			return err
		}
		time.Sleep(interval)
		var now time.Duration
		if now, err = p.gateways.cpu(); now-before < interval/20 {
			return err
		}
		before = now
	}
	return fmt.Errorf("the gateways of %s still use CPU time without traffic", p.Name)
}

// memory returns a field of /proc/PID/status in bytes.
func (p *process) memory(field string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, errors.Join(err, p.running())
	}
	return parseStatus(string(text), field)
}

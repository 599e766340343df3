package tun

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/wait"
)

const probingPort = 40000

var probingNode = netip.AddrPortFrom(netip.MustParseAddr("10.80.0.11"), probingPort)

// sendProbe sends a probe from the node.
func (e *end) sendProbe(t *testing.T) {
	t.Helper()
	request := make([]byte, nodeprobe.Len)
	nodeprobe.Message{Sequence: 1}.Put(request)
	e.send(t, packet.AppendUDP(nil, probingNode, netip.AddrPortFrom(netip.MustParseAddr("10.80.0.1"), nodeprobe.Port), request))
}

// toldState returns the state in the last of the answers that have arrived at the node.
func (e *end) toldState() (state nodeprobe.State, ok bool) {
	m, ok := e.told()
	return m.State, ok
}

// told returns the last of the answers that have arrived at the node.
func (e *end) told() (last nodeprobe.Message, ok bool) {
	for _, b := range e.packets() {
		var ip packet.IP
		if packet.Parse(b, &ip) != packet.FaultNone || ip.Proto != packet.ProtoUDP || ip.Dst != probingNode.Addr() {
			continue
		}
		u := ip.Upper(b)
		if m, is := nodeprobe.Parse(u[packet.UDPHeaderLen:]); is && m.Answer && binary.BigEndian.Uint16(u[2:]) == probingPort {
			last, ok = m, true
		}
	}
	return last, ok
}

func (e *end) tells(t *testing.T, want nodeprobe.State) {
	t.Helper()
	wait.Until(t, "nodes are told "+want.String(), func() bool {
		e.sendProbe(t)
		state, ok := e.toldState()
		return ok && state == want
	})
}

func TestNodesAreToldWhetherTheGatewayForwards(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	a.tells(t, nodeprobe.NoLinks)
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, b.link("a-0", a))
	a.tells(t, nodeprobe.LinksUp)
	b.fabric.Close()
	a.tells(t, nodeprobe.NoLinks)
	a.fabric.Leave()
	a.tells(t, nodeprobe.Leaving)
	setLinks(t, a)
	a.tells(t, nodeprobe.Leaving)
}

func TestNodesAreToldAChangeWithoutAnotherProbe(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	a.tells(t, nodeprobe.LinksUp)
	a.packets()
	b.fabric.Close()
	wait.Until(t, "the node is told that no link is up", func() bool {
		state, ok := a.toldState()
		return ok && state == nodeprobe.NoLinks
	})
}

// Pods and nodes reach neither the ports that the ends of a link use nor any other socket of the
// host stack: not at the gateway's addresses, and not at the link address.
func TestNodesDoNotReachThePortsOfLinks(t *testing.T) {
	t.Parallel()
	a, _ := joined(t)
	l := a.fabric.links.all()[0]
	before := l.tun.Egress.Dropped(gateway.GatewayPort)
	ask := link.Probe{Kind: link.AskSize, MTU: testMTU, Sequence: 1}.Append(nil)
	sent := uint64(0)
	for _, src := range []string{"10.0.1.5", "10.80.0.11"} {
		for _, port := range []uint16{probePort, claimPort, 6094} {
			for _, dst := range []string{"10.80.0.1", "10.70.0.1"} {
				a.send(t, packet.AppendUDP(nil, netip.AddrPortFrom(netip.MustParseAddr(src), 9), netip.AddrPortFrom(netip.MustParseAddr(dst), port), ask))
				sent++
			}
		}
	}
	wait.Until(t, "they are dropped by name", func() bool { return l.tun.Egress.Dropped(gateway.GatewayPort)-before == sent })
	martians := l.tun.Egress.Dropped(gateway.Martian)
	a.send(t, packet.AppendUDP(nil, netip.AddrPortFrom(l.far, probePort), netip.AddrPortFrom(l.own, probePort), ask))
	wait.Until(t, "the link's own addresses are dropped by name", func() bool { return l.tun.Egress.Dropped(gateway.Martian)-martians == 1 })
}

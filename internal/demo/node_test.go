package demo

import (
	"net"
	"net/netip"
	"testing"

	"strait.dev/strait/geneve"
	"strait.dev/strait/internal/plan"
	"strait.dev/strait/packet"
)

func TestNodeAcceptsFramesOfItsGatewayOnly(t *testing.T) {
	w, err := openOverlay(plan.A.NodeUnderlay, plan.A.GatewayUnderlay, plan.A.VNI)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	arrived := make(chan string, 8)
	w.start(func(b []byte) { arrived <- string(b) })

	own := packet.MACOf(plan.NodeInternal[plan.V4])
	frame := func(vni uint32, to packet.MAC, etherType uint16, payload string) []byte {
		b := make([]byte, encapLen, encapLen+len(payload))
		geneve.Put(b, vni)
		packet.PutEthernet(b[geneve.HeaderLen:], to, packet.MACOf(plan.GatewayInternal[plan.V4]), etherType)
		return append(b, payload...)
	}
	for _, c := range []struct {
		from  netip.Addr
		frame []byte
	}{
		{plan.B.GatewayUnderlay, frame(plan.A.VNI, own, packet.EtherTypeIPv4, "from another sender")},
		{plan.A.GatewayUnderlay, frame(plan.B.VNI, own, packet.EtherTypeIPv4, "with another VNI")},
		{plan.A.GatewayUnderlay, frame(plan.A.VNI, packet.MAC{2}, packet.EtherTypeIPv4, "to another MAC address")},
		{plan.A.GatewayUnderlay, frame(plan.A.VNI, own, packet.EtherTypeARP, "of another protocol")},
		{plan.A.GatewayUnderlay, []byte("no frame")},
		{plan.A.GatewayUnderlay, frame(plan.A.VNI, own, packet.EtherTypeIPv6, "the right one")},
	} {
		socket, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.from, 0)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(plan.A.NodeUnderlay, w.port())))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := socket.Write(c.frame); err != nil {
			t.Error(err)
		}
		socket.Close()
	}
	// Loopback keeps the order, so no other frame can follow.
	if got := <-arrived; got != "the right one" {
		t.Errorf("the node accepted the frame %s", got)
	}
}

package demo

import (
	"net"
	"net/netip"
	"testing"

	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
)

func TestNodeAcceptsFramesOfItsGatewayOnly(t *testing.T) {
	w, err := openOverlay(planA.nodeUnderlay, planA.gatewayUnderlay, planA.vni)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	arrived := make(chan string, 8)
	w.start(func(b []byte) { arrived <- string(b) })

	own := packet.MACOf(nodeInternal[v4])
	frame := func(vni uint32, to packet.MAC, etherType uint16, payload string) []byte {
		b := make([]byte, encapLen, encapLen+len(payload))
		geneve.Put(b, vni)
		packet.PutEthernet(b[geneve.HeaderLen:], to, packet.MACOf(gatewayInternal[v4]), etherType)
		return append(b, payload...)
	}
	for _, c := range []struct {
		from  netip.Addr
		frame []byte
	}{
		{planB.gatewayUnderlay, frame(planA.vni, own, packet.EtherTypeIPv4, "from another sender")},
		{planA.gatewayUnderlay, frame(planB.vni, own, packet.EtherTypeIPv4, "with another VNI")},
		{planA.gatewayUnderlay, frame(planA.vni, packet.MAC{2}, packet.EtherTypeIPv4, "to another MAC address")},
		{planA.gatewayUnderlay, frame(planA.vni, own, packet.EtherTypeARP, "of another protocol")},
		{planA.gatewayUnderlay, []byte("no frame")},
		{planA.gatewayUnderlay, frame(planA.vni, own, packet.EtherTypeIPv6, "the right one")},
	} {
		socket, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.from, 0)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(planA.nodeUnderlay, w.port())))
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

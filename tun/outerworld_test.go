package tun

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
	"strait.dev/strait/vxlan"
)

// The port of the overlay is whatever it is set to, and nothing else is taken: other
// users of Geneve and VXLAN on the machine keep theirs.
func TestG13_TheOverlayTakesThePortsItIsGivenAndNoOther(t *testing.T) {
	t.Parallel()
	local := netip.MustParseAddr("127.0.0.1")
	free := ports.Free(t, 2)
	at := OverlayConfig{Geneve: netip.AddrPortFrom(local, free[0]), VXLAN: netip.AddrPortFrom(local, free[1])}
	overlay, err := OpenOverlay(at)
	if err != nil {
		t.Fatal(err)
	}
	defer overlay.Close()
	listening := make(map[uint16]gateway.Encapsulation)
	for _, s := range overlay.incoming.sources {
		listening[s.socket.LocalAddr().Port()] = s.encapsulation
	}
	if len(listening) != 2 || listening[at.Geneve.Port()] != gateway.Geneve || listening[at.VXLAN.Port()] != gateway.VXLAN {
		t.Errorf("listens at %v, want %v", listening, at)
	}
	for _, s := range slices.Concat(overlay.senders[:]...) { // those that frames leave from have any port but these
		for _, port := range []uint16{geneve.Port, vxlan.Port} {
			if s.LocalAddr().Port() == port {
				t.Errorf("port %d is taken", port)
			}
		}
	}
}

// Nothing of a packet is on the wire between two gateways: not its payload, not its
// addresses. And what the tunnel adds is what MTUs are reckoned with: 32 bytes and the
// outer headers, 60 over IPv4 and 80 over IPv6, where padding to 16 bytes ends at the MTU.
func TestG16_T14_Overhead_NothingBetweenGatewaysIsInTheClear(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	var mu sync.Mutex
	var passed [][]byte
	remove := a.fabric.Tap(func(_ gateway.Stage, _, _ netip.AddrPort, head, body []byte) {
		mu.Lock()
		defer mu.Unlock()
		passed = append(passed, slices.Concat(head, body))
	}, gateway.WireGuardOut)
	defer remove()
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, b.link("a-0", a))
	wait.Until(t, "both ends are up", func() bool { return a.fabric.Status()[0].Up && b.fabric.Status()[0].Up })

	const wireguard = 32
	for _, n := range []int{79, 80, 81, 700, testMTU - 1, testMTU} { // of the IP packet
		marker := fmt.Sprintf("%04d bytes said in confidence", n) // none arrives twice
		ip := tcpPacket(pod, remotePod, append(make([]byte, n-packet.IPv4HeaderLen-packet.TCPHeaderLen-len(marker)), marker...), false)
		mu.Lock()
		passed = nil
		mu.Unlock()
		wait.Until(t, "the packet is at the far node", func() bool {
			a.send(t, ip)
			return b.received(marker)
		})
		padded := min((len(ip)+15)/16*16, testMTU) // WireGuard, section 5.4.6
		found := false
		mu.Lock()
		for _, datagram := range passed {
			found = found || len(datagram) == padded+wireguard
			if len(datagram) > testMTU+wireguard {
				t.Errorf("a datagram of %d bytes, where %d fit", len(datagram), testMTU+wireguard)
			}
			for what, clear := range map[string][]byte{
				"the payload": []byte(marker), "both addresses": ip[12:20], "the translated destination and ports": append([]byte{10, 0, 2, 9}, ip[20:24]...),
			} {
				if bytes.Contains(datagram, clear) {
					t.Errorf("%s is in the clear in % x", what, datagram)
				}
			}
		}
		mu.Unlock()
		if !found {
			t.Errorf("no datagram of %d bytes for a packet of %d", padded+wireguard, len(ip))
		}
	}
}

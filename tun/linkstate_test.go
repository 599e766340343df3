package tun

import (
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/link"
	"strait.dev/strait/packet"
)

// What is no probe of the link goes to the host stack, which decides what to answer.
func TestOnlyPacketsBetweenTheEndsOfALinkAreItsProbes(t *testing.T) {
	t.Parallel()
	own, far, other := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2"), netip.MustParseAddr("fe80::3")
	l := &Link{own: own, far: far}
	udp := func(src, dst netip.Addr, port uint16) []byte {
		return packet.AppendUDP(nil, netip.AddrPortFrom(src, probePort), netip.AddrPortFrom(dst, port), link.Probe{Kind: link.Hello}.Append(nil))
	}
	tcp := udp(far, own, probePort)
	tcp[6] = packet.ProtoTCP
	for name, c := range map[string]struct {
		b    []byte
		want uint16
	}{
		"a probe":                     {udp(far, own, probePort), probePort},
		"no probe at its port":        {packet.AppendUDP(nil, netip.AddrPortFrom(far, 1), netip.AddrPortFrom(own, probePort), []byte("?")), probePort},
		"an empty datagram":           {packet.AppendUDP(nil, netip.AddrPortFrom(far, 1), netip.AddrPortFrom(own, probePort), nil), probePort},
		"a claim":                     {udp(far, own, claimPort), claimPort},
		"from another address":        {udp(other, own, probePort), 0},
		"for another address":         {udp(far, other, probePort), 0},
		"another protocol":            {tcp, 0},
		"IPv4":                        {udp(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), probePort), 0},
		"the header of IPv6 and less": {udp(far, own, probePort)[:packet.IPv6HeaderLen+1], 0},
	} {
		if got, _ := l.datagram(c.b); got != c.want {
			t.Errorf("%s: port %d", name, got)
		}
	}
}

func TestAProbeStatesTheTimeWithoutPackets(t *testing.T) {
	t.Parallel()
	var s linkState
	now := time.Unix(1000, 0)
	if p := s.tick(time.Time{}, 1420, false, now); p.Silence != link.MaxSilence {
		t.Errorf("%v before any packet", p.Silence)
	}
	if p := s.tick(now, 1420, false, now.Add(1500*time.Microsecond)); p.Silence != 1500*time.Microsecond {
		t.Errorf("%v after 1.5 ms", p.Silence)
	}
	if p := s.tick(now, 1420, false, now.Add(-time.Second)); p.Silence != 0 {
		t.Errorf("%v for a packet that arrived just now", p.Silence)
	}
}

// The far end's MTU is the size in question, but not one that no host may have.
func TestPathIsProbedForWhatBothEndsCarry(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for announced, want := range map[uint16]int{0: 1440, 1390: 1390, 9000: 1440, 1: link.MinMTU} {
		var s linkState
		if s.askPath(1440, now) != [2]int{} {
			t.Error("asks while the link is down")
		}
		sent := s.tick(time.Time{}, 1440, false, now)
		s.took(link.Probe{Kind: link.Hello, MTU: announced, Sequence: 1, Arrived: sent.Sequence}, now)
		if sizes := s.askPath(1440, now); sizes[0] != want {
			t.Errorf("a far end with %d is asked %v, want %d bytes", announced, sizes, want)
		}
	}
}

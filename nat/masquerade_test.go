package nat_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

func TestRFC4787REQ1_RFC5382REQ1_MappingIsEndpointIndependent(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		for _, proto := range f.protos() {
			inside := end(f.inside, 40000)
			external := m.out(proto, inside, f.to(proto, f.remote, 80), syn)
			for _, remote := range []nat.Endpoint{f.to(proto, f.remote, 80), f.to(proto, f.remote, 81), f.to(proto, f.remote2, 80)} {
				if got := m.out(proto, inside, remote, syn); got != external {
					t.Errorf("protocol %d, to %v: %v, to another %v", proto, remote, got, external)
				}
			}
			if got := m.out(proto, end(f.inside, 40001), f.to(proto, f.remote, 80), syn); got == external {
				t.Errorf("protocol %d: two inside ports have one external endpoint", proto)
			}
		}
	})
}

func TestRFC4787REQ2_OneInsideAddressHasOneExternalAddress(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			m := newMasquerade(t, 4000, 4000, f.external, f.external2)
			used := map[netip.Addr]int{}
			inside := f.inside
			for range 40 {
				var first netip.Addr
				for port := range uint16(10) {
					for _, proto := range f.protos() {
						external := m.out(proto, end(inside, port+1), f.to(proto, f.remote, 80), syn)
						if !first.IsValid() {
							first = external.Addr
						}
						if external.Addr != first {
							t.Fatalf("%v is %v and %v", inside, first, external.Addr)
						}
					}
				}
				used[first]++
				inside = inside.Next()
			}
			if used[f.external] < 8 || used[f.external2] < 8 {
				t.Errorf("of 40 sources %v", used)
			}
			// A source that comes back after all its flows ended finds the same.
			before := m.out(packet.ProtoUDP, end(f.inside, 1), end(f.remote, 80), 0).Addr
			m.pass(3 * time.Hour)
			m.wantFlows(0)
			if after := m.out(packet.ProtoUDP, end(f.inside, 1), end(f.remote, 80), 0).Addr; after != before {
				t.Errorf("%v was %v and is %v", f.inside, before, after)
			}
		})
	}
}

func TestRFC4787REQ3_RFC5382REQ7_NoPortIsSharedBetweenInsideEndpoints(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, _ *masquerade) {
		m := newMasquerade(t, 40000, 40000, f.external)
		for _, proto := range f.protos() {
			owner := map[nat.Endpoint]nat.Endpoint{}
			for port := range uint16(10000) {
				inside := end(f.inside, port)
				external := m.out(proto, inside, f.to(proto, f.remote, 80), syn)
				if other, taken := owner[external]; taken {
					t.Fatalf("protocol %d: %v is both %v and %v", proto, external, inside, other)
				}
				owner[external] = inside
				if got := m.in(proto, f.to(proto, f.remote, 80), external, 0); got != inside {
					t.Fatalf("protocol %d: %v, which %v has, leads to %v", proto, external, inside, got)
				}
			}
		}
	})
}

func TestRFC4787REQ5_UDPIsKeptForFiveMinutes(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		m.out(packet.ProtoUDP, end(f.inside, 5000), end(f.remote, 53), 0)
		m.lastsFor(5 * time.Minute)
	})
}

func TestRFC4787REQ6_OnlyPacketsFromInsideKeepUDPAlive(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		inside, remote := end(f.inside, 5000), end(f.remote, 53)
		external := m.out(packet.ProtoUDP, inside, remote, 0)
		for range 10 {
			m.pass(4 * time.Minute)
			if got := m.out(packet.ProtoUDP, inside, remote, 0); got != external {
				t.Fatalf("%v became %v", external, got)
			}
		}
		m.pass(4 * time.Minute)
		m.in(packet.ProtoUDP, remote, external, 0)
		m.pass(time.Minute + 2*time.Second)
		m.refuses(packet.ProtoUDP, remote, external, 0)
	})
}

func TestRFC4787REQ8_RFC5382REQ3_TheFilterIsByRemoteAddress(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		for _, proto := range []uint8{packet.ProtoTCP, packet.ProtoUDP} {
			inside := end(f.inside, 5000)
			external := m.out(proto, inside, end(f.remote, 53), syn)
			if got := m.in(proto, end(f.remote, 54), external, syn); got != inside {
				t.Errorf("protocol %d: another port of the remote reaches %v", proto, got)
			}
			m.refuses(proto, end(f.remote2, 53), external, syn)
			m.refuses(proto, end(f.remote, 53), end(external.Addr, external.Port^1), syn)
			m.refuses(proto, end(f.remote, 53), end(f.external2, external.Port), syn)
			m.out(proto, end(f.inside2, 5000), end(f.remote2, 53), syn)
			m.refuses(proto, end(f.remote2, 53), external, syn) // another source has a flow with it
		}
		m.wantFlows(4) // no packet from outside makes one

		// The filter holds as long as any flow with that address does.
		external := m.out(packet.ProtoUDP, end(f.inside, 6000), end(f.remote, 1), 0)
		for port := uint16(2); port <= 20; port++ {
			m.pass(time.Minute)
			m.out(packet.ProtoUDP, end(f.inside, 6000), end(f.remote, port), 0)
			m.in(packet.ProtoUDP, end(f.remote, 999), external, 0)
		}
		m.pass(5 * time.Minute)
		m.in(packet.ProtoUDP, end(f.remote, 999), external, 0)
		m.pass(2 * time.Second)
		m.refuses(packet.ProtoUDP, end(f.remote, 999), external, 0)
	})
}

func TestRFC4787REQ9_RFC5382REQ8_InsidesReachEachOtherByTheirExternalEndpoints(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		for _, proto := range []uint8{packet.ProtoTCP, packet.ProtoUDP} {
			a, b := end(f.inside, 4000), end(f.inside2, 5000)
			outsideA := m.out(proto, a, end(f.remote, 80), syn)
			outsideB := m.out(proto, b, end(f.remote, 80), syn)

			// B has sent nothing to the external address yet: it receives nothing from that address.
			if got := m.out(proto, a, outsideB, syn); got != outsideA {
				t.Fatalf("protocol %d: %v leaves as %v to hairpin", proto, a, got)
			}
			m.refuses(proto, outsideA, outsideB, syn)

			m.out(proto, b, outsideA, syn)
			if got := m.in(proto, outsideB, outsideA, syn); got != a {
				t.Errorf("protocol %d: %v leads to %v", proto, outsideA, got)
			}
			m.out(proto, a, outsideB, syn|ack)
			if got := m.in(proto, outsideA, outsideB, syn|ack); got != b {
				t.Errorf("protocol %d: %v leads to %v", proto, outsideB, got)
			}
		}
	})
}

func TestRFC4787REQ11_TheSamePacketsGetTheSameTranslations(t *testing.T) {
	t.Parallel()
	f := families[0]
	run := func() (all []nat.Endpoint) {
		m := newMasquerade(t, 500, 400, f.external, f.external2)
		r := random()
		for range 5000 {
			proto := f.protos()[r.IntN(3)]
			inside := end([]netip.Addr{f.inside, f.inside2}[r.IntN(2)], uint16(r.IntN(300)))
			external, _ := m.Out(proto, inside, f.to(proto, f.remote, uint16(r.IntN(5))), 1, syn, m.now)
			all = append(all, external)
			m.pass(time.Duration(r.IntN(1000)) * time.Millisecond)
		}
		return all
	}
	if !slices.Equal(run(), run()) {
		t.Error("they do not")
	}
}

func TestRFC4787REQ12_RFC5382REQ10_RFC5508REQ6_ICMPErrorsChangeNoFlow(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		for _, proto := range f.protos() {
			inside, remote := end(f.inside, 4000), f.to(proto, f.remote, 80)
			external := m.out(proto, inside, remote, syn)
			before := slices.Collect(m.Flows)
			for range 3 {
				m.now = m.now.Add(20 * time.Second)
				if got, from, ok := m.Inside(proto, remote, external); !ok || got != inside || from != origin {
					t.Errorf("protocol %d: an error about what left as %v goes to %v of %d, %t", proto, external, got, from, ok)
				}
				if got, ok := m.Outside(proto, inside, remote); !ok || got != external {
					t.Errorf("protocol %d: an error from %v comes from %v, %t", proto, inside, got, ok)
				}
			}
			if after := slices.Collect(m.Flows); !slices.Equal(before, after) {
				t.Errorf("protocol %d: %v became %v", proto, before, after)
			}
			m.pass(10 * time.Minute)
		}
	})
}

func TestRFC5508REQ4_ErrorsAboutPacketsNeverSentBelongToNoFlow(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		for _, proto := range f.protos() {
			inside, remote := end(f.inside, 4000), f.to(proto, f.remote, 80)
			external := m.out(proto, inside, remote, syn)
			for name, x := range map[string]struct{ remote, external nat.Endpoint }{
				"other remote":        {f.to(proto, f.remote2, 80), external},
				"other remote port":   {end(f.remote, 81), external},
				"other external":      {remote, end(f.external2, external.Port)},
				"other external port": {remote, end(external.Addr, external.Port^1)},
			} {
				if got, _, ok := m.Inside(proto, x.remote, x.external); ok {
					t.Errorf("protocol %d, %s: it goes to %v", proto, name, got)
				}
			}
			for name, x := range map[string]struct{ inside, remote nat.Endpoint }{
				"other remote":      {inside, f.to(proto, f.remote2, 80)},
				"other inside":      {end(f.inside2, 4000), remote},
				"other inside port": {end(f.inside, 4001), remote},
			} {
				if got, ok := m.Outside(proto, x.inside, x.remote); ok {
					t.Errorf("protocol %d, %s: it comes from %v", proto, name, got)
				}
			}
			// A packet that came in from another port of the remote may be answered
			// with an error as well.
			if got, ok := m.Outside(proto, inside, end(f.remote, 81)); ok != (proto != f.icmp) || ok && got != external {
				t.Errorf("protocol %d: an error about a packet from another port comes from %v, %t", proto, got, ok)
			}
		}
	})
}

func TestRFC5382REQ4_AnUnsolicitedSYNIsUnknown(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		m.refuses(packet.ProtoTCP, end(f.remote, 80), end(f.external, 4000), syn)
		external := m.out(packet.ProtoUDP, end(f.inside, 4000), end(f.remote, 80), 0)
		m.refuses(packet.ProtoTCP, end(f.remote, 80), external, syn) // the port is UDP's
		m.wantFlows(1)
	})
}

func TestRFC5382REQ5_TCPTimers(t *testing.T) {
	t.Parallel()
	const established, transitory = 2*time.Hour + 4*time.Minute, 4 * time.Minute
	type segment struct {
		d     nat.Direction
		flags uint8
	}
	const o, i = nat.Outgoing, nat.Incoming
	opened := []segment{{o, syn}, {i, syn | ack}, {o, ack}}
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		for _, c := range []struct {
			name     string
			segments []segment
			lasts    time.Duration
		}{
			{"a SYN alone", []segment{{o, syn}}, transitory},
			{"a SYN and its answer", opened[:2], transitory},
			{"established", opened, established},
			{"closed by the inside alone", append(opened[:3:3], segment{o, fin | ack}), established},
			{"closed by the remote alone", append(opened[:3:3], segment{i, fin | ack}), established},
			{"closed by both", append(opened[:3:3], segment{o, fin | ack}, segment{i, fin | ack}, segment{o, ack}), transitory},
			{"refused", []segment{{o, syn}, {i, rst | ack}}, transitory},
			{"reset from inside", append(opened[:3:3], segment{o, rst}), transitory},
			{"reset by the remote", append(opened[:3:3], segment{i, rst}), transitory},
		} {
			inside, remote := end(f.inside, 4000), end(f.remote, 80)
			external := end(f.external, 0)
			for _, s := range c.segments {
				if s.d == nat.Outgoing {
					external = m.out(packet.ProtoTCP, inside, remote, s.flags)
				} else {
					m.in(packet.ProtoTCP, remote, external, s.flags)
				}
			}
			t.Run(c.name, func(t *testing.T) {
				m.t = t
				m.lastsFor(c.lasts)
			})
		}
		// Either direction keeps a connection alive.
		external := m.open(end(f.inside, 4000), end(f.remote, 80))
		for range 5 {
			m.pass(2 * time.Hour)
			m.in(packet.ProtoTCP, end(f.remote, 80), external, ack)
		}
	})
}

func TestRFC5382REQ2_SimultaneousOpenThroughTheFilter(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		inside, remote := end(f.inside, 4000), end(f.remote, 80)
		external := m.out(packet.ProtoTCP, inside, remote, syn)
		m.in(packet.ProtoTCP, remote, external, syn)
		m.out(packet.ProtoTCP, inside, remote, syn|ack)
		m.in(packet.ProtoTCP, remote, external, syn|ack)
		m.out(packet.ProtoTCP, inside, remote, ack|psh)
		m.pass(2 * time.Hour)
		m.in(packet.ProtoTCP, remote, external, ack)
	})
}

func TestRFC7857_AResetConnectionThatGoesOnIsKept(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		inside, remote := end(f.inside, 4000), end(f.remote, 80)
		external := m.open(inside, remote)
		m.in(packet.ProtoTCP, remote, external, rst) // forged
		m.pass(3 * time.Minute)
		m.out(packet.ProtoTCP, inside, remote, ack)
		m.pass(2 * time.Hour)
		m.in(packet.ProtoTCP, remote, external, ack)

		m.out(packet.ProtoTCP, inside, remote, rst)
		m.out(packet.ProtoTCP, inside, remote, syn) // anew, from the same port
		m.in(packet.ProtoTCP, remote, external, syn|ack)
		m.out(packet.ProtoTCP, inside, remote, ack)
		m.pass(2 * time.Hour)
		m.in(packet.ProtoTCP, remote, external, ack)
	})
}

func TestRFC7857_RepeatedResetsKeepNothingAlive(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		inside, remote := end(f.inside, 4000), end(f.remote, 80)
		external := m.open(inside, remote)
		m.pass(time.Hour)
		m.in(packet.ProtoTCP, remote, external, rst)
		m.pass(2 * time.Minute)
		m.out(packet.ProtoTCP, inside, remote, rst|ack)
		m.in(packet.ProtoTCP, remote, external, rst)
		m.lastsFor(2 * time.Minute)
	})
}

func TestAResetWithoutAFlowMakesNone(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		if _, o := m.Out(packet.ProtoTCP, end(f.inside, 4000), end(f.remote, 80), 1, rst|ack, m.now); o != nat.Unknown {
			t.Errorf("outcome %d", o)
		}
		m.wantFlows(0)
	})
}

func TestRFC5508REQ1_QueriesPass(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		for _, id := range []uint16{0, 1, 77, 65535} {
			inside, remote := end(f.inside, id), end(f.remote, 0)
			external := m.out(f.icmp, inside, remote, 0)
			if external.Port == 0 || external.Addr != f.external {
				t.Errorf("identifier %d leaves as %v", id, external)
			}
			if got := m.in(f.icmp, remote, external, 0); got != inside {
				t.Errorf("%v comes back to %v", external, got)
			}
			// A request from outside names no identifier of ours.
			m.refuses(f.icmp, end(f.remote, external.Port), end(f.external, 0), 0)
			m.refuses(f.icmp, end(f.remote, external.Port), external, 0)
			m.refuses(f.icmp, end(f.remote2, 0), external, 0)
		}
		// Nor is a reply from inside one.
		if _, o := m.Out(f.icmp, end(f.inside, 0), end(f.remote, 9), 1, 0, m.now); o != nat.Unsupported {
			t.Errorf("outcome %d of a reply", o)
		}
	})
}

func TestRFC5508REQ2_QueriesAreKeptForAMinute(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		m.out(f.icmp, end(f.inside, 7), end(f.remote, 0), 0)
		m.lastsFor(time.Minute)
	})
}

func TestAMasqueradedFlowSurvivesTenMinutesIdleWithKeepalives(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		inside, remote := end(f.inside, 4000), end(f.remote, 80)
		tcp := m.open(inside, remote)
		udp := m.out(packet.ProtoUDP, inside, remote, 0)
		for second := range 10 * 60 {
			m.pass(time.Second)
			if second%75 == 74 {
				m.out(packet.ProtoTCP, inside, remote, ack)
				m.in(packet.ProtoTCP, remote, tcp, ack)
			}
			if second%120 == 119 {
				m.out(packet.ProtoUDP, inside, remote, 0)
			}
		}
		for proto, external := range map[uint8]nat.Endpoint{packet.ProtoTCP: tcp, packet.ProtoUDP: udp} {
			if got := m.out(proto, inside, remote, ack); got != external {
				t.Errorf("protocol %d: %v became %v", proto, external, got)
			}
			if got := m.in(proto, remote, external, ack); got != inside {
				t.Errorf("protocol %d: %v leads to %v", proto, external, got)
			}
		}
	})
}

func TestTheOriginIsThatOfTheLastPacket(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		inside, remote := end(f.inside, 4000), end(f.remote, 80)
		for _, node := range []uint32{7, 8, 7, 1 << 31} {
			external, _ := m.Out(packet.ProtoUDP, inside, remote, node, 0, m.now)
			if _, got, _ := m.In(packet.ProtoUDP, remote, external, 0, m.now); got != node {
				t.Errorf("origin %d, want %d", got, node)
			}
			if _, got, _ := m.Inside(packet.ProtoUDP, remote, external); got != node {
				t.Errorf("origin of an error %d, want %d", got, node)
			}
		}
	})
}

func TestWhatHasNoPortsIsUnsupported(t *testing.T) {
	t.Parallel()
	v4, v6 := families[0], families[1]
	m := newMasquerade(t, 10, 10, v4.external, v6.external)
	for name, c := range map[string]struct {
		proto          uint8
		inside, remote netip.Addr
	}{
		"SCTP":            {packet.ProtoSCTP, v4.inside, v4.remote},
		"ICMPv6 in IPv4":  {packet.ProtoICMPv6, v4.inside, v4.remote},
		"ICMP in IPv6":    {packet.ProtoICMP, v6.inside, v6.remote},
		"two families":    {packet.ProtoUDP, v4.inside, v6.remote},
		"no address":      {packet.ProtoUDP, netip.Addr{}, netip.Addr{}},
		"IPv4 as an IPv6": {packet.ProtoUDP, netip.AddrFrom16(v4.inside.As16()), v6.remote},
	} {
		if _, o := m.Out(c.proto, end(c.inside, 1), end(c.remote, 0), 1, 0, m.now); o != nat.Unsupported {
			t.Errorf("%s: outcome %d", name, o)
		}
		m.refuses(c.proto, end(c.remote, 0), end(c.inside, 1), 0)
	}
	m.wantFlows(0)
}

func TestWithoutAnExternalAddressNothingIsTranslated(t *testing.T) {
	t.Parallel()
	v4, v6 := families[0], families[1]
	m := newMasquerade(t, 10, 10, v4.external)
	if _, o := m.Out(packet.ProtoUDP, end(v6.inside, 1), end(v6.remote, 1), 1, 0, m.now); o != nat.Exhausted {
		t.Errorf("IPv6 with an IPv4 address alone: outcome %d", o)
	}
	m.Use(nil)
	if _, o := m.Out(packet.ProtoUDP, end(v4.inside, 1), end(v4.remote, 1), 1, 0, m.now); o != nat.Exhausted {
		t.Errorf("no address: outcome %d", o)
	}
	m.wantFlows(0)
}

func TestFlowsOfAnAddressThatIsTakenAwayEndAndOthersDoNot(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		m := newMasquerade(t, 1000, 1000, f.external, f.external2)
		type flow struct{ inside, external nat.Endpoint }
		var flows []flow
		inside := f.inside
		for range 100 {
			flows = append(flows, flow{end(inside, 9), m.out(packet.ProtoUDP, end(inside, 9), end(f.remote, 53), 0)})
			inside = inside.Next()
		}
		third := f.external2.Next()
		m.Use([]netip.Addr{third, f.external2, f.external2})
		kept := 0
		for _, x := range flows {
			if x.external.Addr == f.external {
				m.refuses(packet.ProtoUDP, end(f.remote, 53), x.external, 0)
				continue
			}
			kept++
			if got := m.in(packet.ProtoUDP, end(f.remote, 53), x.external, 0); got != x.inside {
				t.Errorf("%v leads to %v, want %v", x.external, got, x.inside)
			}
		}
		m.wantFlows(kept)
		if s := m.Stats(m.now); s.Mappings != kept || s.Sources != kept || s.Withdrawn != uint64(100-kept) || kept == 0 || kept == 100 {
			t.Errorf("kept %d, %+v", kept, s)
		}
		used := map[netip.Addr]bool{}
		for _, x := range flows {
			used[m.out(packet.ProtoUDP, x.inside, end(f.remote, 53), 0).Addr] = true
		}
		if !used[third] || !used[f.external2] || len(used) != 2 {
			t.Errorf("afterwards %v", used)
		}
	}
}

func TestFlowsAreListed(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		inside, remote := end(f.inside, 4000), end(f.remote, 80)
		external := m.open(inside, remote)
		ping := m.out(f.icmp, end(f.inside, 9), end(f.remote, 0), 0)
		got := slices.Collect(m.Flows)
		want := []nat.Flow{
			{
				Proto: packet.ProtoTCP, Inside: inside, External: external, Remote: remote, Origin: origin, Answered: true,
				State: got[0].State, Last: m.now, Ends: m.now.Add(2*time.Hour + 4*time.Minute),
			},
			{
				Proto: f.icmp, Inside: end(f.inside, 9), External: ping, Remote: end(f.remote, 0), Origin: origin,
				Last: m.now, Ends: m.now.Add(time.Minute),
			},
		}
		if !slices.Equal(got, want) || got[0].State.String() != "established" {
			t.Errorf("%+v, %v", got, got[0].State)
		}
		for range m.Flows {
			break
		}
	})
}

func TestTimeThatGoesBackHarmsNothing(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, m *masquerade) {
		inside, remote := end(f.inside, 4000), end(f.remote, 80)
		m.pass(time.Hour)
		external := m.out(packet.ProtoUDP, inside, remote, 0)
		for _, back := range []time.Duration{time.Minute, 2 * time.Hour} {
			earlier := m.now.Add(-back)
			m.Expire(earlier)
			if _, o := m.Out(packet.ProtoUDP, inside, remote, 1, 0, earlier); o != nat.Translated {
				t.Fatalf("outcome %d", o)
			}
		}
		m.pass(4 * time.Minute)
		if got := m.out(packet.ProtoUDP, inside, remote, 0); got != external {
			t.Errorf("%v became %v", external, got)
		}
	})
}

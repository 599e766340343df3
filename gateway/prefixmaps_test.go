package gateway_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// What the RFCs about address translation ask of prefix maps, which keep no state.

// RFC 4787 section 8: whatever crossed before, and in whichever gateway, the same
// packet becomes the same bytes.
func TestRFC4787REQ11_PrefixMapsTranslateTheSameWhateverWentBefore(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4787, 11))
	for _, w := range families {
		out, in := flow{src: w.podA, dst: w.seenPodB}.udp(counting(40)), flow{src: w.podB, dst: w.nodeOut}.udp(counting(40))
		fresh := newA(t)
		wantOut, wantIn := bytes.Clone(fresh.fromNode(bytes.Clone(out)).Packet), bytes.Clone(fresh.fromTunnel(bytes.Clone(in)).Packet)
		busy := newA(t)
		for range 2000 {
			f := flow{src: randomHost(r), dst: randomHost(r), from: uint16(r.Uint32()), to: uint16(r.Uint32())}
			if addr(f.src).Is4() != addr(f.dst).Is4() {
				continue
			}
			busy.fromNode(f.tcp(syn, nil, nil))
			busy.fromTunnel(f.unreachable(f.back().udp(counting(9))))
		}
		if got := busy.fromNode(bytes.Clone(out)).Packet; !bytes.Equal(got, wantOut) {
			t.Errorf("out\ngot  % x\nwant % x", got, wantOut)
		}
		if got := busy.fromTunnel(bytes.Clone(in)).Packet; !bytes.Equal(got, wantIn) {
			t.Errorf("in\ngot  % x\nwant % x", got, wantIn)
		}
	}
}

func TestRFC4787REQ13_PrefixMapsAnswerWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, mtu := range []int{1280, 1300, tunnelMTU} {
			legs := gateway.MTUs{Overlay: overlayMTU, Tunnel: mtu}
			for _, src := range []string{w.podA, w.node} {
				a := sideOf(tableOf(t, configured(t, clusterA), legs), node1A)
				f := flow{src: src, dst: w.seenPodB, df: true}
				if got := expectRefusal(t, a, w, sized(mtu+1, f), tooBig); got != mtu {
					t.Errorf("%s is told of %d, want %d", src, got, mtu)
				}
				expectVerdict(t, a.fromNode(sized(mtu, f)), gateway.ToTunnel)
			}
		}
	}
}

// Ways to open and to end a connection (RFC 9293 section 3.5): the sender, with which
// flags. Nothing here is an answer to anything for a map without state.
func TestRFC5382REQ2_PrefixMapsPassEveryOrderOfSegments(t *testing.T) {
	t.Parallel()
	const rst = 0x04
	type segment struct {
		fromA bool
		flags byte
	}
	for name, segments := range map[string][]segment{
		"three-way handshake": {{true, syn}, {false, syn | ack}, {true, ack}},
		"opened by B":         {{false, syn}, {true, syn | ack}, {false, ack}},
		"simultaneous open":   {{true, syn}, {false, syn}, {true, syn | ack}, {false, syn | ack}, {true, ack}, {false, ack}},
		"SYNs that crossed twice": {
			{true, syn}, {true, syn}, {false, syn}, {false, syn | ack}, {true, ack}},
		"half-closed, then closed": {{true, fin | ack}, {false, ack}, {false, psh | ack}, {false, fin | ack}, {true, ack}},
		"simultaneous close":       {{true, fin | ack}, {false, fin | ack}, {true, ack}, {false, ack}},
		"reset":                    {{true, syn}, {false, rst | ack}},
		"from the middle":          {{false, psh | ack}, {true, ack}},
	} {
		for _, w := range families {
			a, b := newA(t), newB(t)
			for i, s := range segments {
				near, far, f, j := a, b, flow{src: w.podA, dst: w.seenPodB}, journey{
					tunnelSrc: w.podA, tunnelDst: w.podB, arrivesSrc: w.seenPodA, arrivesDst: w.podB}
				if !s.fromA {
					near, far, f, j = b, a, flow{src: w.podB, dst: w.seenPodA, from: 443, to: 12345}, journey{
						tunnelSrc: w.podB, tunnelDst: w.podA, arrivesSrc: w.seenPodB, arrivesDst: w.podA}
				}
				t.Logf("%s, segment %d", name, i)
				expectJourney(t, near, far, f.tcp(s.flags, nil, counting(i)), j)
			}
		}
	}
}

// Every byte of an error counts: damage anywhere in the message, also in what it
// quotes, and it is not believed, from neither side.
func TestRFC5508REQ3_PrefixMapsDropErrorsWithAWrongChecksum(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		out, in := flow{src: w.podA, dst: w.seenPodB}, flow{src: w.podB, dst: w.podA}
		fromInside, fromOutside := out.unreachable(out.back().udp(counting(20))), in.unreachable(in.back().udp(counting(20)))
		a, header := newA(t), len(fromInside)-len(read(t, fromInside).upper)
		for at := header; at < len(fromInside); at++ {
			if at == header || at == header+8 {
				continue // another type, or a quote of another version: dropped for that or no error at all
			}
			for bit := range 8 {
				damaged := bytes.Clone(fromInside)
				damaged[at] ^= 1 << bit
				expectDrop(t, a.fromNode(damaged), gateway.ICMPChecksum)
				damaged = bytes.Clone(fromOutside)
				damaged[at] ^= 1 << bit
				expectDrop(t, a.fromTunnel(damaged), gateway.ICMPChecksum)
			}
		}
		expectVerdict(t, a.fromNode(fromInside), gateway.ToTunnel)
		expectVerdict(t, a.fromTunnel(fromOutside), gateway.ToNode)
	}
}

// An error about a packet that cannot have passed this gateway is dropped, and
// is not answered: REQ-4 for errors from outside, REQ-5 for those from inside.
func TestRFC5508REQ4_RFC5508REQ5_PrefixMapsDropErrorsAboutNothing(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, quoted := range []struct{ src, dst string }{
			{w.foreign, w.podB}, {w.podA, w.foreign}, {w.node, w.podB}, {w.gateway, w.podB},
			{w.ungrantedPodA, w.podB}, {w.podA, w.seenPodB}, {w.seenPodA, w.podB},
		} {
			about := flow{src: quoted.src, dst: quoted.dst}.tcp(ack, nil, counting(9))
			r := newA(t).fromTunnel(flow{src: w.podB, dst: w.podA}.unreachable(about))
			expectDrop(t, r, gateway.ICMPUnrelated)
			if r.Answer != nil {
				t.Errorf("from outside, about %+v: answered", quoted)
			}
		}
		for _, quoted := range []struct{ src, dst string }{
			{w.foreign, w.podA}, {w.seenPodB, w.foreign}, {w.podB, w.podA}, {w.seenPodB, w.nodeWithout}, {w.seenPodB, w.ungrantedPodA},
		} {
			about := flow{src: quoted.src, dst: quoted.dst}.tcp(ack, nil, counting(9))
			r := newA(t).fromNode(flow{src: w.podA, dst: w.seenPodB}.unreachable(about))
			expectDrop(t, r, gateway.ICMPUnrelated)
			if r.Answer != nil {
				t.Errorf("from inside, about %+v: answered", quoted)
			}
		}
	}
}

// Every source keeps an address of its own, so its identifications stay unique and
// stay as they are: with DF and without, in fragments, and in pieces made here.
func TestI10_PrefixMapsLeaveTheIdentificationAlone(t *testing.T) {
	t.Parallel()
	identified := func(b []byte, id uint16) []byte {
		binary.BigEndian.PutUint16(b[4:], id)
		sealIPv4(b)
		return b
	}
	for _, id := range []uint16{0, 1, 0x7701, 0xffff} {
		for _, j := range journeys(v4) {
			out, in := flow{src: j.src, dst: j.dst}, flow{src: j.tunnelDst, dst: j.tunnelSrc}
			whole, unfragmented := out, in
			whole.df, unfragmented.df = true, true
			for _, c := range []struct {
				r   gateway.Result
				mtu int
			}{
				{newA(t).fromNode(identified(whole.udp(counting(99)), id)), tunnelMTU},
				{newA(t).fromNode(identified(out.udp(counting(99)), id)), tunnelMTU},
				{newA(t).fromNode(identified(out.piece(800, true, counting(80)), id)), tunnelMTU},
				{newA(t).fromNode(identified(out.udp(counting(4000)), id)), tunnelMTU},
				{newA(t).fromTunnel(identified(unfragmented.udp(counting(99)), id)), overlayMTU},
				{newA(t).fromTunnel(identified(in.udp(counting(4000)), id)), overlayMTU},
			} {
				if c.r.Verdict == gateway.Drop {
					t.Fatalf("%s: dropped for %q", j.name, c.r.Reason)
				}
				for _, b := range pieces(t, c.r, c.mtu) {
					if got := binary.BigEndian.Uint16(b[4:]); got != id {
						t.Errorf("%s: identification %d became %d", j.name, id, got)
					}
				}
			}
		}
	}
}

func TestRFC6296Overlap_NoTwoMapsShareAnAddress(t *testing.T) {
	t.Parallel()
	remote := func(cidr, seenAs string) config.RemotePrefix {
		return config.RemotePrefix{CIDR: netip.MustParsePrefix(cidr), SeenAs: netip.MustParsePrefix(seenAs)}
	}
	for _, c := range []struct {
		name   string
		second config.RemotePrefix
		want   string
	}{
		{"apart", remote("10.1.0.0/16", "10.75.0.0/16"), ""},
		{"the same seen twice", remote("10.1.0.0/16", "10.71.0.0/16"), "overlaps 10.71.0.0/16"},
		{"seen inside another", remote("10.1.2.0/24", "10.71.2.0/24"), "overlaps 10.71.0.0/16"},
		{"seen around another", remote("192.168.0.0/12", "10.64.0.0/12"), "overlaps"},
		{"one range seen twice", remote("10.0.0.0/16", "10.75.0.0/16"), "overlaps 10.0.0.0/16"},
		{"a part of a range seen elsewhere", remote("10.0.2.0/24", "10.75.2.0/24"), "overlaps 10.0.0.0/16"},
		{"mapped to this cluster's own pods", remote("10.1.0.0/16", "10.0.0.0/16"), "overlaps 10.0.0.0/16"},
		{"of another length", remote("10.1.0.0/16", "10.75.0.0/17"), "cannot stand for"},
		{"of another family", remote("10.1.0.0/16", "fd00::/16"), "cannot stand for"},
	} {
		g := configured(t, clusterA)
		g.Remote.Prefixes = []config.RemotePrefix{remote("10.0.0.0/16", "10.71.0.0/16"), c.second}
		err := g.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A node that sends back what it was sent, and a far gateway that sends back what it
// was sent under the names it has here, are not received: no packet goes in circles.
func TestRFC6296Loop_NothingIsSentBackWhereItCameFrom(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := newA(t)
		for _, dst := range []string{w.podA, w.nodeOut} {
			r := a.fromTunnel(flow{src: w.podB, dst: dst}.udp(counting(20)))
			expectVerdict(t, r, gateway.ToNode)
			expectDrop(t, a.fromNode(slices.Clone(r.Packet)), gateway.SpoofedSource)
		}
		for _, dst := range []string{w.seenPodB, w.seenNodeB} {
			seen := flow{src: w.podB, dst: dst}.udp(counting(20))
			expectDrop(t, a.fromTunnel(seen), gateway.DestinationNotGranted)
			expectDrop(t, a.fromTunnel(flow{src: dst, dst: w.podA}.udp(nil)), gateway.SourceNotGranted)
		}
		// Where both clusters use the same range, two far ends that play a packet to
		// and fro take one off its TTL each time.
		f := flow{src: w.podA, dst: w.seenPodB, ttl: 4}
		r := a.fromNode(f.udp(nil))
		crossings := 0
		for r.Verdict == gateway.ToTunnel || r.Verdict == gateway.ToNode {
			if crossings++; crossings > 4 {
				t.Fatal("still under way")
			}
			r = a.fromTunnel(slices.Clone(r.Packet))
		}
	}
}

package gateway_test

import (
	"bytes"
	"slices"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// ipv4Options are option areas, and the verdict on packets with them (RFC 7126
// section 4: a router drops source routes, and does not act on what it does not
// serve; router alert and record route pass as they are).
var ipv4Options = []struct {
	name   string
	bytes  []byte
	reason gateway.Reason
}{
	{"padding", []byte{1, 1, 0, 0}, gateway.NoReason},
	{"router alert", []byte{148, 4, 0, 0}, gateway.NoReason},
	{"record route", []byte{7, 7, 4, 0, 0, 0, 0, 0}, gateway.NoReason},
	{"timestamp", []byte{68, 8, 5, 0, 0, 0, 0, 0}, gateway.NoReason},
	{"security", []byte{130, 4, 0, 0}, gateway.NoReason},
	{"experiment", []byte{94, 4, 0, 0}, gateway.NoReason},
	{"unknown", []byte{30, 2, 31, 2}, gateway.NoReason},
	{"40 bytes of padding", slices.Repeat([]byte{1}, 40), gateway.NoReason},
	{"40 bytes of options", slices.Repeat([]byte{30, 2}, 20), gateway.NoReason},
	{"what stands behind the end", []byte{0, 131, 3, 4}, gateway.NoReason},
	{"loose source route", []byte{131, 7, 4, 10, 0, 0, 1, 0}, gateway.IPSourceRoute},
	{"strict source route", []byte{137, 7, 4, 10, 0, 0, 1, 0}, gateway.IPSourceRoute},
	{"source route that is used up", []byte{131, 7, 8, 10, 0, 0, 1, 0}, gateway.IPSourceRoute},
	{"source route behind others", []byte{1, 148, 4, 0, 0, 137, 3, 4}, gateway.IPSourceRoute},
	{"length 0", []byte{148, 0, 0, 0}, gateway.IPOptions},
	{"length 1", []byte{148, 1, 0, 0}, gateway.IPOptions},
	{"longer than the header", []byte{148, 5, 0, 0}, gateway.IPOptions},
	{"without a length", []byte{1, 1, 1, 148}, gateway.IPOptions},
}

func TestI8_SourceRoutesAreDroppedAndOtherOptionsCrossUnread(t *testing.T) {
	t.Parallel()
	for _, o := range ipv4Options {
		out := flow{src: v4.podA, dst: v4.seenPodB, options: o.bytes}
		in := flow{src: v4.podB, dst: v4.podA, options: o.bytes}
		for from, r := range map[string]gateway.Result{
			"a node": newA(t).fromNode(out.udp(counting(20))), "the tunnel": newA(t).fromTunnel(in.udp(counting(20))),
		} {
			if o.reason != gateway.NoReason {
				expectDrop(t, r, o.reason)
				if r.Answer != nil {
					t.Errorf("%s from %s: answered", o.name, from)
				}
				continue
			}
			if r.Verdict == gateway.Drop {
				t.Fatalf("%s from %s: dropped for %q", o.name, from, r.Reason)
			}
			if b := receive(t, r.Packet).bytes; !bytes.Equal(b[20:20+len(o.bytes)], o.bytes) {
				t.Errorf("%s from %s became % x", o.name, from, b[20:20+len(o.bytes)])
			}
		}
	}
}

// chain is n destination options headers of 8 bytes, of which the last says what
// follows.
func chain(n int, next byte) []byte {
	b := slices.Repeat([]byte{60, 0, 1, 4, 0, 0, 0, 0}, n)
	b[(n-1)*8] = next
	return b
}

func TestI9_ExtensionHeadersCrossWithinBounds(t *testing.T) {
	t.Parallel()
	routing := func(kind byte) []byte { return []byte{packet.ProtoUDP, 0, kind, 0, 0, 0, 0, 0} }
	left := func(kind byte) []byte { // one segment is left
		return append([]byte{packet.ProtoUDP, 2, kind, 1, 0, 0, 0, 0}, addr("fd00:71:0:2::77").AsSlice()...)
	}
	for _, c := range []struct {
		name       string
		next       uint8
		extensions []byte
		reason     gateway.Reason
	}{
		{"hop by hop", 0, []byte{packet.ProtoUDP, 0, 1, 4, 0, 0, 0, 0}, gateway.NoReason},
		{"seven headers", 60, chain(7, packet.ProtoUDP), gateway.NoReason},
		{"eight headers", 60, chain(8, packet.ProtoUDP), gateway.IPExtension},
		{"a hundred headers", 60, chain(100, packet.ProtoUDP), gateway.IPExtension},
		{"a header of 1024 bytes", 60, append([]byte{packet.ProtoUDP, 127}, make([]byte, 1022)...), gateway.NoReason},
		{"a header that ends behind the packet", 60, []byte{packet.ProtoUDP, 255, 0, 0, 0, 0, 0, 0}, gateway.IPExtension},
		{"a chain that never ends", 60, chain(3, 60), gateway.IPExtension},
		{"routing header type 0, RFC 5095", 43, routing(0), gateway.IPSourceRoute},
		{"routing header type 2", 43, routing(2), gateway.NoReason},
		{"routing header type 4", 43, routing(4), gateway.NoReason},
		{"routing header type 2 with a segment left, RFC 8200 section 8.1", 43, left(2), gateway.IPSourceRoute},
		{"routing header type 4 with a segment left, RFC 7915 section 5.1", 43, left(4), gateway.IPSourceRoute},
		{"routing header with a segment left behind others", 60, append(chain(2, 43), left(4)...), gateway.IPSourceRoute},
		{"routing header with a segment left in a first fragment", 44, append([]byte{43, 0, 0, 1, 0, 0, 0, 9}, left(4)...), gateway.IPSourceRoute},
		{"routing header type 0 behind others", 60, append(chain(2, 43), routing(0)...), gateway.IPSourceRoute},
		{"two fragment headers", 44, append([]byte{44, 0, 0, 1, 0, 0, 0, 9}, packet.ProtoUDP, 0, 0, 1, 0, 0, 0, 9), gateway.IPExtension},
	} {
		out := flow{src: v6.podA, dst: v6.seenPodB, next: c.next, extensions: c.extensions}
		in := flow{src: v6.podB, dst: v6.podA, next: c.next, extensions: c.extensions}
		for from, r := range map[string]gateway.Result{
			"a node": newA(t).fromNode(out.udp(counting(24))), "the tunnel": newA(t).fromTunnel(in.udp(counting(24))),
		} {
			if c.reason != gateway.NoReason {
				if r.Verdict != gateway.Drop || r.Reason != c.reason || r.Answer != nil {
					t.Errorf("%s from %s: verdict %d, %q, answer % x; want a drop for %q", c.name, from, r.Verdict, r.Reason, r.Answer, c.reason)
				}
				continue
			}
			if r.Verdict == gateway.Drop {
				t.Fatalf("%s from %s: dropped for %q", c.name, from, r.Reason)
			}
			if got := r.Packet[40:][:len(c.extensions)]; !bytes.Equal(got, c.extensions) {
				t.Errorf("%s from %s became % x", c.name, from, got)
			}
			v, upper := readWell(t, r.Packet), r.Packet[40+len(c.extensions):]
			if slowSum(pseudoHeader(packet.ProtoUDP, v.src, v.dst, len(upper)), upper) != 0xffff {
				t.Errorf("%s from %s: the checksum behind the headers is wrong", c.name, from)
			}
		}
	}
}

// A datagram in one fragment, offset 0 and none to follow, is a whole one (RFC 6946):
// it crosses with its header as it is, and its checksum is judged and kept right.
func TestI9_AtomicFragmentsCrossAsTheyAre(t *testing.T) {
	t.Parallel()
	atomic := fragmentHeader(packet.ProtoUDP, 0, false)
	out := flow{src: v6.podA, dst: v6.seenPodB, next: 44, extensions: atomic}
	about := flow{src: v6.podA, dst: v6.seenPodB, next: 44, extensions: fragmentHeader(packet.ProtoICMPv6, 0, false)}
	there := newA(t).fromNode(out.udp(counting(40)))
	expectVerdict(t, there, gateway.ToTunnel)
	v := expect(t, there.Packet, v6.podA, v6.podB, 63)
	if !bytes.Equal(there.Packet[40:48], atomic) || v.more || v.offset != 0 {
		t.Errorf("became % x", there.Packet[40:48])
	}
	again := newB(t).fromTunnel(there.Packet)
	expectVerdict(t, again, gateway.ToNode)
	expect(t, again.Packet, v6.seenPodA, v6.podB, 62)

	damaged := about.unreachable(flow{src: v6.seenPodB, dst: v6.podA}.udp(counting(20)))
	damaged[len(damaged)-1] ^= 1
	expectDrop(t, newA(t).fromNode(damaged), gateway.ICMPChecksum)
}

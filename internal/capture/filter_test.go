package capture

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/packet"
)

// view is a TCP packet from 10.0.1.5:40000 to 10.71.2.9:80, changed by some.
func view(changes ...func(*View)) *View {
	v := &View{
		Src: netip.MustParseAddr("10.0.1.5"), Dst: netip.MustParseAddr("10.71.2.9"), SrcPort: 40000, DstPort: 80,
		HasPorts: true, Version: 4, Proto: packet.ProtoTCP, Len: 60,
	}
	for _, change := range changes {
		change(v)
	}
	return v
}

func TestAFilterKeepsWhatItSays(t *testing.T) {
	t.Parallel()
	udp := func(v *View) { v.Proto = packet.ProtoUDP }
	fragment := func(v *View) { v.HasPorts, v.SrcPort, v.DstPort = false, 0, 0 }
	v6 := func(v *View) {
		v.Version, v.Src, v.Dst = 6, netip.MustParseAddr("fd00::5"), netip.MustParseAddr("fd00:71::9")
	}
	ping6 := func(v *View) { v6(v); v.Proto, v.HasPorts = packet.ProtoICMPv6, false }
	for _, c := range []struct {
		filter string
		view   *View
		keeps  bool
	}{
		{"", view(), true},
		{"host 10.0.1.5", view(), true},
		{"host 10.71.2.9", view(), true},
		{"host 10.0.1.6", view(), false},
		{"src host 10.0.1.5", view(), true},
		{"dst host 10.0.1.5", view(), false},
		{"src 10.0.1.5", view(), true},
		{"10.71.2.9", view(), true},
		{"::ffff:10.71.2.9", view(), true},
		{"10.71.0.0/16", view(), true},
		{"net 10.71.2.1/16", view(), true},
		{"src net 10.71.0.0/16", view(), false},
		{"net fd00:71::/32", view(), false},
		{"net fd00:71::/32", view(v6), true},
		{"port 80", view(), true},
		{"src port 80", view(), false},
		{"dst port 80", view(), true},
		{"port 80", view(fragment), false},
		{"port 0", view(fragment), false},
		{"portrange 79-81", view(), true},
		{"portrange 81-90", view(), false},
		{"tcp", view(), true},
		{"udp", view(), false},
		{"tcp port 80", view(), true},
		{"udp port 80", view(), false},
		{"udp port 80", view(udp), true},
		{"tcp dst port 40000", view(), false},
		{"ip", view(), true},
		{"ip6", view(), false},
		{"icmp6", view(ping6), true},
		{"icmp", view(ping6), false},
		{"ip6 host fd00::5", view(v6), true},
		{"less 60", view(), true},
		{"less 59", view(), false},
		{"greater 60", view(), true},
		{"greater 61", view(), false},
		{"not port 80", view(), false},
		{"!udp", view(), true},
		{"not not tcp", view(), true},
		{"tcp and port 80", view(), true},
		{"tcp && !port 80", view(), false},
		{"udp or port 80", view(), true},
		{"udp || port 81", view(), false},
		{"udp and udp or tcp", view(), true}, // and binds tighter
		{"tcp or udp and udp", view(), true}, // on both sides
		{"(tcp or udp) and udp", view(), false},
		{"not (udp or port 81)", view(), true},
		{"tcp and(port 80)", view(), true},
	} {
		f, err := ParseFilter(c.filter)
		if err != nil {
			t.Errorf("%q: %v", c.filter, err)
			continue
		}
		if f.Match(c.view) != c.keeps {
			t.Errorf("%q keeps %+v: %v", c.filter, *c.view, !c.keeps)
		}
	}
}

func TestASyntaxErrorInAFilterIsReportedWithItsPosition(t *testing.T) {
	t.Parallel()
	for filter, says := range map[string]string{
		"prot 80":                     `at character 1: "prot"; expected a test: host,`,
		"host 10.0.0.1 and prot 80":   `at character 19: "prot"; expected a test: host,`,
		"tcp port http":               `at character 10: "http"; expected a port from 0 to 65535`,
		"port 65536":                  `at character 6: "65536"; expected a port`,
		"port 80 or":                  `it ends after character 10; expected a test`,
		"port 80 81":                  `at character 9: "81"; expected and, or, or the end`,
		"(tcp":                        `it ends after character 4; expected and, or, or )`,
		"tcp)":                        `at character 4: ")"; expected and, or, or the end`,
		"host web":                    `at character 6: "web"; expected an address`,
		"host fe80::1%eth0":           `expected an address`,
		"net 10.0.0.0":                `at character 5: "10.0.0.0"; expected a prefix`,
		"net ::ffff:10.0.0.0/100":     `expected a prefix`,
		"portrange 90-80":             `the lower first`,
		"portrange 80":                `the lower first`,
		"src":                         `it ends after character 3; expected host, net, port`,
		"src tcp":                     `at character 5: "tcp"; expected host, net, port`,
		"greater big":                 `a number of bytes`,
		"tcp & udp":                   `at character 5: "&"`,
		strings.Repeat("(", 100):      `at character 65: "("; expected not more than 64`,
		strings.Repeat("ip or ", 700): `leave at most 4096`,
	} {
		_, err := ParseFilter(filter)
		if err == nil || !strings.HasPrefix(err.Error(), "filter: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, without %q", filter, err, says)
		}
	}
}

// twin is a filter made together with its meaning.
type twin struct {
	text  string
	keeps func(*View) bool
}

// randomTwin makes a filter of at most so many levels. join says what stands around it:
// parentheses are left out where the words alone must do.
func randomTwin(r *rand.Rand, levels int) twin {
	if levels == 0 {
		return randomTest(r)
	}
	a, b := randomTwin(r, levels-1), randomTwin(r, levels-1)
	switch r.IntN(4) {
	case 0:
		return twin{"(" + a.text + " and " + b.text + ")", func(v *View) bool { return a.keeps(v) && b.keeps(v) }}
	case 1:
		return twin{"(" + a.text + " or " + b.text + ")", func(v *View) bool { return a.keeps(v) || b.keeps(v) }}
	case 2:
		return twin{"not " + a.text, func(v *View) bool { return !a.keeps(v) }}
	}
	return randomTest(r)
}

func randomTest(r *rand.Rand) twin {
	address, port := randomAddress(r), uint16(r.IntN(4))
	switch r.IntN(7) {
	case 0:
		return twin{"src host " + address.String(), func(v *View) bool { return v.Src == address }}
	case 1:
		return twin{"dst " + address.String(), func(v *View) bool { return v.Dst == address }}
	case 2:
		p, _ := address.Prefix(address.BitLen() - 1)
		return twin{"net " + p.String(), func(v *View) bool { return p.Contains(v.Src) || p.Contains(v.Dst) }}
	case 3:
		return twin{fmt.Sprintf("port %d", port), func(v *View) bool { return v.HasPorts && (v.SrcPort == port || v.DstPort == port) }}
	case 4:
		return twin{fmt.Sprintf("tcp src portrange %d-%d", port, port+1), func(v *View) bool {
			return v.Proto == packet.ProtoTCP && v.HasPorts && (v.SrcPort == port || v.SrcPort == port+1)
		}}
	case 5:
		return twin{"ip6", func(v *View) bool { return v.Version == 6 }}
	}
	n := r.IntN(200)
	return twin{fmt.Sprintf("greater %d", n), func(v *View) bool { return v.Len >= n }}
}

func randomAddress(r *rand.Rand) netip.Addr {
	if r.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(4))})
	}
	return netip.AddrFrom16([16]byte{0xfd, 15: byte(r.IntN(4))})
}

func TestFiltersMeanWhatTheirTwinsDo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		twin := randomTwin(r, 4)
		f, err := ParseFilter(twin.text)
		if err != nil {
			t.Fatalf("%s: %v", twin.text, err)
		}
		for range 50 {
			v := View{
				Src: randomAddress(r), Dst: randomAddress(r), SrcPort: uint16(r.IntN(5)), DstPort: uint16(r.IntN(5)),
				HasPorts: r.IntN(3) > 0, Version: uint8(4 + 2*r.IntN(2)), Proto: []uint8{1, 6, 17}[r.IntN(3)], Len: r.IntN(200),
			}
			if f.Match(&v) != twin.keeps(&v) {
				t.Fatalf("%s of %+v", twin.text, v)
			}
		}
	}
}

func FuzzFilter(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add(randomTwin(r, 3).text)
	}
	for _, text := range []string{"", "src", "((", "!!tcp&&udp||ip6", "host 10.0.0.1/8", "less 4294967296", "port 80-90"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseFilter(text)
		if err != nil {
			return
		}
		for _, v := range []*View{view(), {}} {
			keeps := filter.Match(v)
			if opposite, err := ParseFilter("not (" + text + ")"); err == nil && opposite.Match(v) == keeps && !filter.KeepsAll() {
				t.Errorf("%q and its opposite agree about %+v", text, *v)
			}
		}
	})
}

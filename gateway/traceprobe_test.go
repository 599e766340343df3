package gateway_test

import (
	"strings"
	"testing"

	"strait.dev/strait/gateway"
)

// probes are of every protocol, between two addresses.
func probes(src, dst string) []gateway.Probe {
	p := gateway.Probe{Source: addr(src), Destination: addr(dst), TTL: 64}
	var all []gateway.Probe
	for _, protocol := range []string{gateway.TCP, gateway.UDP, gateway.ICMP} {
		for _, size := range []int{0, 333, 1500} {
			p := p
			p.Protocol, p.Size = protocol, size
			if protocol != gateway.ICMP {
				p.SourcePort, p.Port = 40000, 80
			}
			if protocol == gateway.TCP && size != 333 {
				p.MSS = 1460
			}
			p.MayFragment = p.Source.Is4() && size == 333
			all = append(all, p, p.Answer())
		}
	}
	return all
}

func TestAProbeIsAPacketThatHostsAcceptAndReadsBackAsItself(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, p := range probes(w.podA, w.seenPodB) {
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			b := p.Packet()
			receive(t, b)
			got, ok := gateway.ReadProbe(b)
			p.Size = p.Length()
			if !ok || got != p {
				t.Errorf("got  %+v %v\nwant %+v", got, ok, p)
			}
		}
	}
}

func TestAProbeThatIsNoPacketSaysWhatToDo(t *testing.T) {
	t.Parallel()
	good := gateway.Probe{Protocol: gateway.TCP, Source: addr(v4.podA), Destination: addr(v4.seenPodB), TTL: 64}
	for want, edit := range map[string]func(*gateway.Probe){
		"give both addresses":              func(p *gateway.Probe) { *p = gateway.Probe{} },
		"give two of IPv4 or two of IPv6":  func(p *gateway.Probe) { p.Source = addr(v6.podA) },
		"choose tcp, udp or icmp":          func(p *gateway.Probe) { p.Protocol = "sctp" },
		"give 1 to 255":                    func(p *gateway.Probe) { p.TTL = 0 },
		"give 40 (no payload)":             func(p *gateway.Probe) { p.Size = 39 },
		"to 65535 bytes":                   func(p *gateway.Probe) { p.Size = 65536 },
		"write addresses like 10.0.1.5 or": func(p *gateway.Probe) { p.Source = addr("fe80::1%eth0") },
	} {
		p := good
		edit(&p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

func FuzzReadProbe(f *testing.F) {
	for _, w := range families {
		for _, p := range probes(w.podA, w.seenPodB) {
			f.Add(p.Packet())
		}
		for _, b := range everyKind(flow{src: w.podA, dst: w.seenPodB}) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := gateway.ReadProbe(b)
		if !ok {
			return
		}
		v := read(t, b)
		if p.Source != v.src || p.Destination != v.dst || p.TTL != v.ttl || p.Size > len(b) {
			t.Fatalf("%+v of % x", p, b)
		}
	})
}

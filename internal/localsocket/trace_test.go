package localsocket

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

func syn(from, to string) gateway.Probe {
	return gateway.Probe{Protocol: gateway.TCP, Source: netip.MustParseAddr(from), Destination: netip.MustParseAddr(to), SourcePort: 40000, Port: 80, TTL: 63}
}

func FuzzTraceQuestion(f *testing.F) {
	for _, p := range []gateway.Probe{syn("10.0.1.5", "10.71.2.9"), syn("fd00::5", "fd00:71::9"), syn("10.0.2.9", "10.0.1.5")} {
		for _, fromTunnel := range []bool{false, true} {
			text, err := json.Marshal(TraceQuestion{Probe: p, FromTunnel: fromTunnel, Outer: &TraceOuter{Source: p.Source, VNI: 101, Encapsulation: config.VXLAN}})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	c := &config.Gateway{
		Overlay: config.Overlay{Addresses: []netip.Addr{netip.MustParseAddr("10.80.0.1")}, Nodes: []config.Node{{
			Name: "node-1", Underlay: netip.MustParseAddr("192.0.2.21"), VNI: 101, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")},
			Addresses: []netip.Addr{netip.MustParseAddr("10.80.0.11")},
		}}},
		Local:  config.Local{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}},
		Remote: config.Remote{Prefixes: []config.RemotePrefix{{CIDR: netip.MustParsePrefix("10.0.0.0/16"), SeenAs: netip.MustParsePrefix("10.71.0.0/16")}}},
	}
	table, err := gateway.NewTable(c, gateway.MTUs{Overlay: 1450, Tunnel: 1390}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var q TraceQuestion
		if json.Unmarshal([]byte(text), &q) != nil {
			return
		}
		a, err := TraceTable(gateway.NewTracer(table), q, time.Unix(0, 0))
		if err != nil {
			return
		}
		if (a.Verdict == TraceDropped) != (a.After == nil) || (a.Verdict == TraceDropped) != (a.Reason != "") {
			t.Fatalf("%+v", a)
		}
		if a.Before.Source != q.Probe.Source || a.Before.Size != q.Probe.Length() {
			t.Fatalf("asked about %+v, thought of %+v", q.Probe, a.Before)
		}
	})
}

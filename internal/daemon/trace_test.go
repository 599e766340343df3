package daemon

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

func syn(from, to string) gateway.Probe {
	return gateway.Probe{Protocol: gateway.TCP, Source: netip.MustParseAddr(from), Destination: netip.MustParseAddr(to), SourcePort: 40000, Port: 80, TTL: 63}
}

func TestTheSocketSaysWhatWouldBecomeOfAPacketAndCountsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.socket = socketPath(t)
	b.start(t)
	ask := func(q TraceQuestion) *TraceAnswer {
		t.Helper()
		a, err := AskTrace(t.Context(), b.socket, q)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := ask(TraceQuestion{Probe: syn("10.0.1.5", "10.71.2.9")})
	after := syn("10.0.1.5", "10.0.2.9")
	after.TTL, after.Size = 62, 40
	if a.Verdict != TraceToTunnel || a.After == nil || *a.After != after || a.Node == nil || a.Node.Name != "node-1" {
		t.Errorf("%+v, after %+v, node %+v", a, a.After, a.Node)
	}
	if a.Cluster != "a" || a.Remote != "b" || a.MTU != 1400 || len(a.Entries) != 4 {
		t.Errorf("%+v", a)
	}
	if len(a.Links) != 1 || a.Links[0].Name != "b-0" || !a.Links[0].Active || a.Links[0].Up || a.Links[0].RemoteKey != publicKeyOf(9) || a.Links[0].Endpoint.IsValid() {
		t.Errorf("%+v", a.Links)
	}
	big := syn("10.0.1.5", "10.71.2.9")
	big.Size = 1500
	if a := ask(TraceQuestion{Probe: big}); a.Verdict != TraceDropped || a.Reason != "too_big" || a.Error == nil || a.Error.MTU != 1400 || a.Error.Source != netip.MustParseAddr("10.80.0.1") {
		t.Errorf("%+v, error %+v", a, a.Error)
	}
	if a := ask(TraceQuestion{Probe: syn("10.0.2.9", "10.0.1.5"), FromTunnel: true}); a.Verdict != TraceToNode || a.Node.Name != "node-1" || a.After.Source != netip.MustParseAddr("10.71.2.9") {
		t.Errorf("%+v", a)
	}
	unknown := &TraceOuter{Source: netip.MustParseAddr("127.0.0.9"), VNI: 101, Encapsulation: config.Geneve}
	if a := ask(TraceQuestion{Probe: syn("10.0.1.5", "10.71.2.9"), Outer: unknown}); a.Reason != "unknown_source" || a.Node != nil {
		t.Errorf("%+v", a)
	}
	for line := range strings.Lines(b.get("/metrics")) {
		for _, name := range []string{"strait_packets_total{", "strait_dropped_packets_total{", "strait_icmp_errors"} {
			if strings.HasPrefix(line, name) && !strings.HasSuffix(line, " 0\n") {
				t.Errorf("moved: %s", line)
			}
		}
	}
}

func TestAQuestionThatIsNoneSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.socket = socketPath(t)
	b.start(t)
	for body, want := range map[string]string{
		`{"probe":{"protocol":"tcp","source":"10.0.1.5","destination":"fd00::1","ttl":64}}`: "give two of IPv4 or two of IPv6",
		`{"packet":1}`: "use the strait of the gateway's own version",
		`{`:            "cannot be read",
	} {
		if _, err := call(t, b.socket, tracePath, body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
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
		a, err := TraceTable(table, q, time.Unix(0, 0))
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

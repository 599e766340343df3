package daemon

import (
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/localsocket"
)

func syn(from, to string) gateway.Probe {
	return gateway.Probe{Protocol: gateway.TCP, Source: netip.MustParseAddr(from), Destination: netip.MustParseAddr(to), SourcePort: 40000, Port: 80, TTL: 63}
}

func TestTheSocketSaysWhatWouldBecomeOfAPacketAndCountsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.socket = socketPath(t)
	b.start(t)
	ask := func(q localsocket.TraceQuestion) *localsocket.TraceAnswer {
		t.Helper()
		a, err := localsocket.AskTrace(t.Context(), b.socket, q)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := ask(localsocket.TraceQuestion{Probe: syn("10.0.1.5", "10.71.2.9")})
	after := syn("10.0.1.5", "10.0.2.9")
	after.TTL, after.Size = 62, 40
	if a.Verdict != localsocket.TraceToTunnel || a.After == nil || *a.After != after || a.Node == nil || a.Node.Name != "node-1" {
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
	if a := ask(localsocket.TraceQuestion{Probe: big}); a.Verdict != localsocket.TraceDropped || a.Reason != "too_big" || a.Error == nil || a.Error.MTU != 1400 || a.Error.Source != netip.MustParseAddr("10.80.0.1") {
		t.Errorf("%+v, error %+v", a, a.Error)
	}
	if a := ask(localsocket.TraceQuestion{Probe: syn("10.0.2.9", "10.0.1.5"), FromTunnel: true}); a.Verdict != localsocket.TraceToNode || a.Node.Name != "node-1" || a.After.Source != netip.MustParseAddr("10.71.2.9") {
		t.Errorf("%+v", a)
	}
	unknown := &localsocket.TraceOuter{Source: netip.MustParseAddr("127.0.0.9"), VNI: 101, Encapsulation: config.Geneve}
	if a := ask(localsocket.TraceQuestion{Probe: syn("10.0.1.5", "10.71.2.9"), Outer: unknown}); a.Reason != "unknown_source" || a.Node != nil {
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
		if _, err := call(t, b.socket, localsocket.TracePath, body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

package verify

import (
	"flag"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/internal/endpoint/leak"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, file, is string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(is), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if is != string(want) {
		t.Errorf("%s is not what is printed:\n%s", file, is)
	}
}

// example is a run in which everything was as result says.
func example(both bool, result func(planned) endpoint.Result) *Report {
	r := &Report{MTU: 1370, Clusters: []ClusterShape{{"a", "context a", "n1", "n2"}, {"b", "context b", "m1", "m2"}}}
	a, b := shapeOf("a", 72, true, ip4, ip6), shapeOf("b", 71, false, ip4)
	if !both {
		r.Clusters[1].OtherNode = ""
	} else {
		b = shapeOf("b", 71, true, ip4, ip6)
	}
	a.serve(b)
	b.serve(a)
	r.Checks = append(r.Checks, Check{Group: OfPeering, From: "a", What: "Peering b is ready", Outcome: Passed, Detail: "1 of 1 links up"})
	for _, p := range []plan{planOf(a, b, 1370), planOf(b, a, 1370)} {
		for _, s := range p.sequences {
			failed := false
			for _, c := range s {
				is := result(c)
				if failed {
					is = endpoint.Result{Failure: endpoint.NotTried, Detail: "the first check of this destination failed"}
				}
				failed = failed || is.Failure != "" && c.What == string(c.probe.Protocol)+" 64"
				r.Checks = append(r.Checks, judge(c, is, 1370))
			}
		}
		r.Checks = append(r.Checks, p.skipped...)
	}
	r.Checks = append(r.Checks,
		Check{Group: OfFlow, From: "a", To: "b", Family: "IPv4", Source: "pod @other", Destination: "pod @gateway", What: "long-lived connection", Outcome: Passed, Detail: "61440 bytes, longest time without an answer 12ms"},
		judgeWatch("a", []leak.Report{{Underlay: []string{"eth0"}, Clear: 900, Tunnel: 800}}, nil))
	r.finish(time.Now())
	r.Seconds = 31.4
	return r
}

func well(c planned) endpoint.Result {
	r := endpoint.Result{RTT: 2 * time.Millisecond, Bytes: int64(c.probe.Size)}
	if c.probe.Mode == endpoint.TooBig {
		r.MTU = 1370
	}
	return r
}

func failed(f endpoint.Failure, detail string) endpoint.Result {
	return endpoint.Result{Failure: f, Detail: detail}
}

func TestTheTableShowsWhatIsWellAndWhatIsNot(t *testing.T) {
	for name, r := range map[string]*Report{
		"well":     example(true, well),
		"one-node": example(false, well),
		"broken": example(false, func(c planned) endpoint.Result {
			r := well(c)
			switch {
			case c.What == "udp mtu" && c.From == "a":
				return failed(endpoint.Timeout, "nothing came back of 1370 bytes within 3s")
			case c.agent == "host-gateway" && c.What == "tcp from":
				return failed(endpoint.WrongSource, "the server saw 192.0.2.21 instead of 10.73.0.11")
			case c.From == "b" && c.What == "icmp 64":
				return failed(endpoint.NotPermitted, "socket: permission denied")
			case c.From == "b" && c.Destination == "Service @other" && c.What == "tcp 64":
				return failed(endpoint.Refused, "connect: connection refused")
			case c.What == "udp big":
				r.MTU = 1280
			}
			return r
		}),
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := r.Table(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/"+name+".golden.txt", b.String())
			b.Reset()
			if err := r.JUnit(&b); err != nil {
				t.Fatal(err)
			}
			if name == "broken" {
				golden(t, "testdata/"+name+".golden.xml", b.String())
			}
			if r.Passed != (name != "broken") {
				t.Errorf("passed is %v", r.Passed)
			}
		})
	}
}

func TestTheNodeThatAllFailuresHaveInCommonIsNamed(t *testing.T) {
	silent := func(where func(planned) bool) *Report {
		return example(true, func(c planned) endpoint.Result {
			if where(c) {
				return failed(endpoint.Timeout, "nothing came back")
			}
			return well(c)
		})
	}
	for name, where := range map[string]func(planned) bool{
		"there and from there": func(c planned) bool {
			return c.From == "a" && at(c.Source) == "@other" || c.To == "a" && at(c.Destination) == "@other"
		},
		"from there": func(c planned) bool { return c.From == "a" && at(c.Source) == "@other" },
	} {
		if is := silent(where).commonNode(); !strings.Contains(is, "node n2 of cluster a") {
			t.Errorf("what fails is %s: %q, want the node", name, is)
		}
	}
	for name, r := range map[string]*Report{
		"one protocol": silent(func(c planned) bool { return c.probe.Protocol == endpoint.UDP }),
		"between two": silent(func(c planned) bool {
			return c.From == "a" && at(c.Source) == "@other" && at(c.Destination) == "@other"
		}),
		"everything": silent(func(planned) bool { return true }),
		"nothing":    silent(func(planned) bool { return false }),
	} {
		if is := r.commonNode(); is != "" {
			t.Errorf("%s fails: %q, want no node named", name, is)
		}
	}
}

func TestEveryFailureHasACauseAndARemedy(t *testing.T) {
	for _, failure := range []endpoint.Failure{
		endpoint.Refused, endpoint.Unreachable, endpoint.Timeout, endpoint.Big, endpoint.Silent, endpoint.Corrupted, endpoint.WrongSource, endpoint.Closed,
	} {
		for _, column := range matrixColumns {
			for _, destination := range []string{"pod @gateway", "Service @other"} {
				c := judge(planned{Check: Check{What: column, Destination: destination}}, endpoint.Result{Failure: failure, Detail: "it"}, 1370)
				if c.Outcome != Failed || c.Cause == "" || c.Remedy == "" {
					t.Errorf("%s of %s to %s: %+v", failure, column, destination, c)
				}
			}
		}
	}
}

// strait trace refuses a port with ICMP.
func TestTheTraceOfAFailureHasAPortIfItsProtocolHas(t *testing.T) {
	for protocol, want := range map[endpoint.Protocol]string{endpoint.ICMP: "'->' 10.71.2.9 --protocol icmp", endpoint.UDP: "'->' 10.71.2.9:6099 --protocol udp"} {
		c := planned{Check: Check{What: string(protocol) + " 64"}, agent: "pod-gateway", probe: endpoint.Check{Protocol: protocol, To: netip.MustParseAddrPort("10.71.2.9:6099")}}
		if is := judge(c, failed(endpoint.Timeout, "it"), 1370); !strings.HasSuffix(is.Remedy, want) {
			t.Errorf("%s: remedy %q, want %q", protocol, is.Remedy, want)
		}
	}
}

func TestALinkThatCarriesMoreThanThePeeringIsNoFailure(t *testing.T) {
	big := planned{probe: endpoint.Check{Mode: endpoint.TooBig}}
	for _, c := range []struct {
		r    endpoint.Result
		want Outcome
	}{
		{endpoint.Result{MTU: 1370}, Passed}, {endpoint.Result{MTU: 1400}, Passed}, {endpoint.Result{MTU: 1280}, Failed},
		{endpoint.Result{Failure: endpoint.Crossed}, Passed}, {endpoint.Result{Failure: endpoint.Silent}, Failed},
	} {
		if is := judge(big, c.r, 1370); is.Outcome != c.want {
			t.Errorf("%+v: %s, want %s", c.r, is.Outcome, c.want)
		}
	}
}

func TestEncryptionIsShownOnlyWhereThereWasSomethingToSee(t *testing.T) {
	seen := leak.Report{Underlay: []string{"eth0"}, Clear: 10, Tunnel: 10}
	leaking := seen
	leaking.Leaks = []leak.Leak{{Interface: "eth0", Packets: 3}}
	nothing, blind, alone := seen, seen, seen
	nothing.Clear, blind.Underlay, alone.Tunnel = 0, nil, 0
	for _, c := range []struct {
		reports []leak.Report
		want    Outcome
	}{
		{[]leak.Report{seen}, Passed}, {[]leak.Report{seen, alone}, Passed}, {[]leak.Report{seen, leaking}, Failed},
		{nil, Skipped}, {[]leak.Report{nothing}, Skipped}, {[]leak.Report{blind}, Skipped}, {[]leak.Report{alone}, Skipped},
	} {
		if is := judgeWatch("a", c.reports, nil); is.Outcome != c.want || is.Detail == "" {
			t.Errorf("%+v: %s (%s), want %s", c.reports, is.Outcome, is.Detail, c.want)
		}
	}
}

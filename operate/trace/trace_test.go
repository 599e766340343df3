package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
	"strait.dev/strait/offload/borrower"
)

var update = flag.Bool("update", false, "write the golden files anew")

func towards(address string) func(*Question) {
	return func(q *Question) { q.To = netip.MustParseAddr(address) }
}

func size(n int) func(*Question) { return func(q *Question) { q.Size = n } }

func ping(q *Question) { q.Protocol, q.Port = gateway.ICMP, 0 }

// cases are packets, what is wrong with the world, and what has to come of it.
var cases = []struct {
	name    string
	q       Question
	wrong   func(*fixture)
	alone   bool // without access to the other cluster
	verdict Verdict
	stage   Stage
	reason  string
}{
	{name: "delivered", q: ask(), verdict: Delivered},
	{name: "delivered-ping-of-full-size", q: ask(ping, size(1390)), verdict: Delivered},
	{name: "delivered-from-the-nodes-network", q: ask(func(q *Question) { q.Namespace, q.Pod, q.Protocol = "kube-system", "agent", gateway.UDP }), verdict: Delivered},
	{name: "delivered-to-a-node", q: ask(ping, towards("10.73.0.12")), wrong: func(w *fixture) { w.b.Peerings[0].Spec.LocalNodes = v1alpha1.LocalNodesAllow }, verdict: Delivered},
	{name: "to-a-node-that-is-not-granted", q: ask(ping, towards("10.73.0.12")), verdict: Dropped, stage: StageNode, reason: "node_not_granted"},
	{name: "delivered-to-a-gateway", q: ask(ping, towards("10.73.0.1")), verdict: Delivered},
	{name: "alone", q: ask(), alone: true, verdict: Unknown, stage: StageGateway},
	{name: "too-big", q: ask(size(1500)), verdict: Dropped, stage: StageNode, reason: "too_big"},
	{name: "too-big-for-the-gateway", q: ask(size(1400)), wrong: func(w *fixture) { w.a.broken = func(way *node.Way) { way.MTU = 1500 } }, verdict: Dropped, stage: StageGateway, reason: "too_big"},
	{name: "outside-the-grant", q: ask(), wrong: func(w *fixture) { w.b.config.Local.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.7.0/24")} },
		verdict: Dropped, stage: StageGateway, reason: "destination_not_granted"},
	{name: "no-pod", q: ask(towards("10.71.2.77")), verdict: Dropped, stage: StagePod, reason: "no_pod"},
	{name: "no-node", q: ask(towards("10.71.99.9")), verdict: Dropped, stage: StageGateway, reason: "no_node"},
	{name: "not-remote", q: ask(towards("198.51.100.7")), verdict: Dropped, stage: StageNode, reason: "not_remote"},
	{name: "no-ipv6-there", q: ask(towards("fd00:99::1")), verdict: Dropped, stage: StageNode, reason: "not_remote"},
	{name: "no-address-of-the-family", q: ask(towards("fd00:99::1"), func(q *Question) { q.Namespace, q.Pod = "kube-system", "agent" }), verdict: Dropped, stage: StagePod, reason: "no_address"},
	{name: "spoofed", q: ask(func(q *Question) { q.From = netip.MustParseAddr("10.0.2.6") }), verdict: Dropped, stage: StageGateway, reason: "spoofed_source"},
	{name: "the-node-cannot-be-asked", q: ask(), wrong: func(w *fixture) { w.a.refuse = errors.New("pod strait-nodes/x: exec is not permitted") }, verdict: Unknown, stage: StageNode},
	{name: "the-gateway-cannot-be-asked", q: ask(), wrong: func(w *fixture) { w.a.unanswered = errors.New("pod strait-gateways/b-0: it is gone") }, verdict: Unknown, stage: StageGateway},
	{name: "the-other-cluster-is-another", q: ask(), wrong: func(w *fixture) { w.b.ID = "c" }, verdict: Unknown, stage: StageGateway},
	{name: "no-gateway-serves", q: ask(), wrong: func(w *fixture) {
		w.a.broken = func(way *node.Way) { way.Overlay, way.Blackhole, way.Refused = nil, true, "dropped" }
	}, verdict: Dropped, stage: StageNode, reason: "no_gateway"},
	{name: "withdrawn", q: ask(), wrong: func(w *fixture) {
		w.a.Peerings[0].Status.Prefixes = nil
		w.a.broken = func(way *node.Way) {
			way.Range, way.Overlay, way.Blackhole, way.Refused = netip.MustParsePrefix("10.71.0.0/16"), nil, true, "dropped"
		}
	}, verdict: Dropped, stage: StageNode, reason: "not_remote"},
	{name: "from-a-cluster-without-node-helpers", q: ask(), wrong: func(w *fixture) { w.a.Network.Status.WithoutNodes = true },
		verdict: Dropped, stage: StageNode, reason: "no_node_helpers"},
	{name: "to-a-cluster-without-node-helpers", q: ask(), wrong: func(w *fixture) {
		w.b.Network.Status.WithoutNodes, w.b.Nodes = true, nil
		w.b.config.Overlay.Nodes, w.b.config.Proxy.Prefixes = nil, w.b.config.Local.Prefixes
	}, verdict: Delivered},
	{name: "one-of-several-gateways", q: ask(), wrong: func(w *fixture) {
		other := w.a.Peerings[0].Status.Gateways[0]
		other.Name, other.InternalAddresses = "b-1", []v1alpha1.IP{"10.80.0.2"}
		out := other
		out.Name, out.InternalAddresses = "b-2", []v1alpha1.IP{"10.80.0.3"}
		w.a.Peerings[0].Status.Gateways = append(w.a.Peerings[0].Status.Gateways, other, out)
		s := &w.a.Nodes[0].Status
		s.Gateways = append(s.Gateways, v1alpha1.NodeGateway{Name: "b-1", Ready: true, State: v1alpha1.Forwarding, InUse: true}, v1alpha1.NodeGateway{Name: "b-2", Ready: true, State: v1alpha1.NoLinks})
		w.a.broken = func(way *node.Way) {
			if way.Overlay != nil {
				way.Gateways, way.Any = append(addrs("10.80.0.1"), addrs("10.80.0.2")...), true
			}
		}
	}, verdict: Delivered},
	{name: "no-rule", q: ask(), wrong: func(w *fixture) {
		w.a.broken = func(way *node.Way) { way.Overlay, way.Rule, way.Device = nil, false, "eth0" }
	}, verdict: Dropped, stage: StageNode, reason: "no_rule"},
	{name: "the-nodes-link-is-down", q: ask(), wrong: func(w *fixture) { w.a.broken = func(way *node.Way) { way.Overlay.Up = false } }, verdict: Dropped, stage: StageNode, reason: "node_link_down"},
	{name: "frames-from-elsewhere", q: ask(), wrong: func(w *fixture) {
		w.a.broken = func(way *node.Way) { way.Overlay.Source = netip.MustParseAddr("192.0.2.99") }
	}, verdict: Dropped, stage: StageOverlay, reason: "unknown_source"},
	{name: "another-vni", q: ask(), wrong: func(w *fixture) { w.a.config.Overlay.Nodes[0].VNI = 99 }, verdict: Dropped, stage: StageOverlay, reason: "wrong_vni"},
	{name: "unknown-peer", q: ask(), wrong: func(w *fixture) { w.a.links[0].Endpoint = netip.AddrPort{} }, verdict: Dropped, stage: StageTunnel, reason: "no_peer"},
	{name: "the-tunnel-is-down", q: ask(), wrong: func(w *fixture) { w.a.links[0].Up = false }, verdict: Dropped, stage: StageTunnel, reason: "link_down"},
	{name: "a-key-that-is-not-trusted", q: ask(), wrong: func(w *fixture) { w.b.links[0].RemoteKey = "an old one" }, verdict: Dropped, stage: StageGateway, reason: "unknown_key"},
	{name: "the-other-side-takes-less", q: ask(), wrong: func(w *fixture) {
		w.b.config.Remote.Prefixes = []config.RemotePrefix{{CIDR: netip.MustParsePrefix("10.0.9.0/24"), SeenAs: netip.MustParsePrefix("10.72.9.0/24")}}
	}, verdict: Dropped, stage: StageGateway, reason: "source_not_granted"},
	{name: "a-node-that-is-gone", q: ask(), wrong: func(w *fixture) { w.b.Nodes = w.b.Nodes[:1] }, verdict: Dropped, stage: StageOverlay, reason: "no_attachment"},
	{name: "another-vni-there", q: ask(), wrong: func(w *fixture) { w.b.Nodes[1].Status.Gateways[0].VNI = 7 }, verdict: Dropped, stage: StageOverlay, reason: "wrong_vni"},
	{name: "a-pod-that-ended", q: ask(), wrong: func(w *fixture) { w.b.pods[0].Status.Phase = corev1.PodSucceeded }, verdict: Dropped, stage: StagePod, reason: "pod_not_running"},
	{name: "the-reply-has-no-way", q: ask(), wrong: func(w *fixture) {
		w.b.broken = func(way *node.Way) {
			if way.Overlay != nil {
				way.Overlay, way.Rule = nil, false
			}
		}
	}, verdict: Dropped, stage: StageNode, reason: "no_rule"},
	{name: "the-reply-is-not-granted-here", q: ask(), wrong: func(w *fixture) {
		w.a.changed = func(a *localsocket.TraceAnswer) {
			if a.Verdict == localsocket.TraceToNode {
				a.Verdict, a.Reason, a.After, a.Node = localsocket.TraceDropped, "destination_not_granted", nil, nil
			}
		}
	}, verdict: Dropped, stage: StageGateway, reason: "destination_not_granted"},
	{name: "another-pod-has-the-address", q: ask(), wrong: func(w *fixture) {
		w.a.pods = append([]corev1.Pod{pod("default", "twin", "node-1", "10.0.1.5")}, w.a.pods...)
		w.a.pods[1].Status.Phase = corev1.PodPending
	}, verdict: Dropped, stage: StagePod, reason: "other_pod"},
	{name: "odd-but-delivered", q: ask(func(q *Question) { q.Port = 8080 }), wrong: func(w *fixture) {
		w.b.pods[0].Status.Conditions[0].Status = corev1.ConditionFalse
		w.a.links[0].PathMTU = 0
		w.a.broken = func(way *node.Way) { way.Sources = node.SourcesDamaged }
		w.a.Nodes[0].Status.Gateways[0].Ready, w.a.Nodes[0].Status.Gateways[0].Message = false, "no answer for 3 s"
		w.a.Nodes[0].Status.Gateways[0].Encapsulation = v1alpha1.Userspace
	}, verdict: Delivered},
}

func TestWhatBecomesOfAPacket(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture()
			if c.wrong != nil {
				c.wrong(w)
			}
			remote := &w.b.Side
			if c.alone {
				remote = nil
			}
			r, err := Run(t.Context(), c.q, &w.a.Side, remote, start)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != c.verdict || r.Stage != c.stage || r.Reason != c.reason {
				t.Errorf("%s at %q: %q, want %s at %q: %q", r.Verdict, r.Stage, r.Reason, c.verdict, c.stage, c.reason)
			}
			if (c.verdict == Dropped) != (r.Remedy != "") {
				t.Errorf("remedy %q", r.Remedy)
			}
			var text bytes.Buffer
			if err := Table(&text, r); err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+".txt", text.Bytes())
			if c.name == "delivered" || c.name == "too-big" {
				form, err := json.MarshalIndent(r, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				golden(t, c.name+".json", append(form, '\n'))
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s\nif that is right: go test ./operate/trace -update", name, got, want)
	}
}

// Every reason for a drop has a remedy, in gateways and elsewhere.
func TestEveryReasonHasARemedy(t *testing.T) {
	known := map[string]bool{
		noAddress: true, notRemote: true, noRoute: true, noRule: true, noServing: true, nodeLinkDown: true, linkDown: true,
		unknownKey: true, noNodeThere: true, routedBack: true, noPod: true, podNotRunning: true, otherPod: true, noHelpers: true, nodeNotGranted: true,
	}
	for reason := range gateway.Reasons {
		known[reason.String()] = true
	}
	page, err := os.ReadFile("../../docs/how-to/trace.md")
	if err != nil {
		t.Fatal(err)
	}
	for reason := range known {
		if Remedy(reason) == "" {
			t.Errorf("%s has no remedy", reason)
		}
		if row := "| `" + reason + "` |"; strings.Contains(string(page), row) != isOurs(reason) {
			t.Errorf("docs/how-to/trace.md has %q: %v", row, !isOurs(reason))
		}
	}
	for reason := range remedies {
		if !known[reason] {
			t.Errorf("no component drops a packet for %s", reason)
		}
	}
}

// isOurs reports whether a reason is none of gateways.
func isOurs(reason string) bool {
	for r := range gateway.Reasons {
		if r.String() == reason {
			return false
		}
	}
	return true
}

func TestAPodThatIsNotThereIsAnErrorWithARemedy(t *testing.T) {
	w := newFixture()
	_, err := Run(t.Context(), ask(func(q *Question) { q.Pod = "missing" }), &w.a.Side, nil, start)
	if err == nil || !strings.Contains(err.Error(), "kubectl get pods -n default") {
		t.Error(err)
	}
}

// The packets of a pod that runs in another cluster begin there.
func TestAnOffloadedPodIsTracedWhereItRuns(t *testing.T) {
	f := newFixture()
	f.a.pods[0].Spec.NodeName = "strait-b"
	f.a.pods[0].Status.Conditions = []corev1.PodCondition{{Type: borrower.Offered, Status: corev1.ConditionTrue}}
	_, err := Run(t.Context(), ask(), &f.a.Side, &f.b.Side, start)
	if err == nil || !strings.Contains(err.Error(), "with the context of that cluster") {
		t.Errorf("the error is %v", err)
	}
}

func TestAPodWithoutANodeGoesNowhere(t *testing.T) {
	w := newFixture()
	w.a.pods[0].Spec.NodeName, w.a.pods[0].Status.PodIPs = "", nil
	if r := w.run(t, ask()); r.Verdict != Dropped || r.Reason != noAddress || len(r.Hops) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestOneGatewayAloneSaysWhereThePacketGoes(t *testing.T) {
	for name, c := range map[string]struct {
		q       localsocket.TraceQuestion
		verdict Verdict
		hops    int
		says    string
	}{
		"out":    {localsocket.TraceQuestion{Probe: probe("10.0.1.5", "10.71.2.9")}, Passed, 2, "passed: forwarded into the tunnel to cluster b"},
		"in":     {localsocket.TraceQuestion{Probe: probe("10.0.2.9", "10.0.1.5"), FromTunnel: true}, Passed, 1, "passed: forwarded to node node-1"},
		"itself": {localsocket.TraceQuestion{Probe: probe("10.0.1.5", "10.80.0.1")}, Passed, 1, "passed: addressed to the gateway itself"},
		"no":     {localsocket.TraceQuestion{Probe: probe("10.0.1.5", "198.51.100.7")}, Dropped, 1, "dropped at gateway of cluster a: destination_not_granted: "},
	} {
		a, err := newFixture().a.Gateway(t.Context(), "b-0", c.q)
		if err != nil {
			t.Fatal(err)
		}
		r := Single(c.q, a, start)
		if r.Verdict != c.verdict || !strings.HasPrefix(r.Conclusion(), c.says) || len(r.Hops) != c.hops {
			t.Errorf("%s: %s: %s", name, r.Verdict, r.Conclusion())
		}
	}
}

func probe(from, to string) gateway.Probe {
	return gateway.Probe{Protocol: gateway.ICMP, Source: netip.MustParseAddr(from), Destination: netip.MustParseAddr(to), TTL: 63}
}

package nodehelper

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
)

func TestStatusSaysWhy(t *testing.T) {
	all := map[string]nodeprobe.State{"b-0": nodeprobe.LinksUp, "b-1": nodeprobe.NoLinks}
	for _, c := range []struct {
		name    string
		change  func(*input)
		kernel  string
		ready   string // status and reason of the condition
		message string
	}{
		{"all answer", func(in *input) { in.answers = all }, "", "True GatewaysReachable", "all gateways answer"},
		{"no gateways", func(in *input) { in.peerings = nil }, "", "True NoGateways", "there is no gateway to reach"},
		{"one is silent", func(*input) {}, "", "False GatewayUnreachable", "gateway b-0: 10.80.0.1 does not answer over geneve to 10.0.1.2; check that its pod runs"},
		{"one has no link", func(in *input) { in.peerings[0].Status.Gateways[1].MTU = 0 }, "", "False GatewayWithoutLink", "gateway b-1: the gateway has not reported"},
		{"the kernel refuses", func(in *input) { in.answers = all }, "node: add link: operation not permitted", "False KernelRefuses", "node: add link: operation not permitted"},
		{"a range is left out", func(in *input) { in.answers = all; in.peerings[0].Status.Prefixes[0].SeenAs = "10.0.0.0/16" }, "", "True GatewaysReachable", "all gateways answer. Peering b: seenAs 10.0.0.0/16 is not routed"},
	} {
		in := example()
		c.change(&in)
		out := computeDesired(in)
		s := status(out, c.kernel, in.answers, nil)
		got := s.Conditions[0]
		if ready := string(got.Status) + " " + got.Reason; ready != c.ready || !strings.HasPrefix(got.Message, c.message) {
			t.Errorf("%s: %s, %s; want %s, %s", c.name, ready, got.Message, c.ready, c.message)
		}
	}
}

func TestT7_StatusHasTheConflictsOfMappedRanges(t *testing.T) {
	in := example()
	out := computeDesired(in)
	mapped := out.desired.Routes[0].Prefix
	out.conflict([]node.Takeover{
		{Prefix: mapped, Destination: "route to 10.0.0.0/8 dev wg0 table 254", Refused: true},
		{Prefix: netip.MustParsePrefix("10.99.0.0/16"), Destination: "route to 10.99.0.0/16 dev wg0 table 254", Refused: true}, // withdrawn
	})
	s := status(out, "", in.answers, nil)
	if len(s.RouteConflicts) != 1 || s.RouteConflicts[0] != (v1alpha1.RouteConflict{CIDR: v1alpha1.CIDR(mapped.String()), Destination: "route to 10.0.0.0/8 dev wg0 table 254", Refused: true}) {
		t.Errorf("conflicts %+v", s.RouteConflicts)
	}
	if m := s.Conditions[0].Message; !strings.Contains(m, "Peering b: "+mapped.String()+" is not routed to gateways") || strings.Contains(m, "10.99") {
		t.Errorf("the message is %s", m)
	}
}

func TestStatusCountsEncapsulations(t *testing.T) {
	in := example()
	in.support = node.Support{VXLAN: true}
	s := status(computeDesired(in), "", in.answers, nil)
	if len(s.Encapsulations) != 1 || s.Encapsulations[0] != v1alpha1.VXLAN {
		t.Errorf("encapsulations %v", s.Encapsulations)
	}
	if g := s.Gateways; len(g) != 2 || g[0].Ready || !g[1].Ready || g[1].VNI != 3<<8+2 || g[1].Encapsulation != v1alpha1.VXLAN {
		t.Errorf("gateways %+v", g)
	}
}

// The status of thousands of nodes is read by every gateway: it is written when it says
// something new, and not otherwise.
func TestSettledStatusIsNotWrittenAgain(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	in := example()
	first, differs := statusToWrite(status(computeDesired(in), "", in.answers, nil), v1alpha1.NodeAttachmentStatus{}, 1, now)
	if !differs {
		t.Fatal("the first status is not written")
	}
	first.Gateways[0], first.Gateways[1] = first.Gateways[1], first.Gateways[0]
	if _, differs = statusToWrite(status(computeDesired(in), "", in.answers, nil), first, 1, now.Add(time.Hour)); differs {
		t.Error("written again, though it says the same")
	}
	next, differs := statusToWrite(status(computeDesired(in), "", in.answers, nil), first, 2, now.Add(time.Hour))
	if !differs || next.ObservedGeneration != 2 || !onlyGenerations(status(computeDesired(in), "", in.answers, nil), first, now) {
		t.Error("a change of the spec alone is not recognized")
	}
	in.answers["b-0"] = nodeprobe.LinksUp
	if onlyGenerations(status(computeDesired(in), "", in.answers, nil), first, now) {
		t.Error("an answer counts as a change of the spec alone")
	}
	second, differs := statusToWrite(status(computeDesired(in), "", in.answers, nil), first, 1, now.Add(time.Hour))
	if !differs || !second.Conditions[0].LastTransitionTime.After(first.Conditions[0].LastTransitionTime.Time) {
		t.Errorf("second status %+v", second)
	}
}

func TestLongMessagesAreClipped(t *testing.T) {
	in := example()
	long := strings.Repeat("ä", maxMessage)
	s := status(computeDesired(in), long, in.answers, nil)
	if got := s.Conditions[0].Message; len(got) > maxMessage || !strings.HasSuffix(got, "...") {
		t.Errorf("a message of %d bytes", len(got))
	}
}

// The first gateway is silent and the second answers: a helper that begins anew goes on
// with the second, and not with the first until it knows better.
func TestARestartMovesNoRoutes(t *testing.T) {
	in := example()
	before := computeDesired(in)
	in.attachment.Status = status(before, "", in.answers, nil)
	p := newProbes(nil, time.Now)
	p.restore(in.attachment.Status)
	in.answers, in.joining, in.unlinked = p.known()
	in.serving = inUse(in.attachment.Status)
	if after := computeDesired(in); !reflect.DeepEqual(after.desired, before.desired) {
		t.Errorf("before %+v\nafter  %+v", before.desired, after.desired)
	}
}

// The status explains why a node encapsulates in userspace.
func TestStatusSaysWhyAHelperStandsInForTheKernel(t *testing.T) {
	in := example()
	in.support = node.Support{Userspace: true, Lacks: "no Geneve (not supported), no VXLAN (not supported)"}
	in.answers = map[string]nodeprobe.State{"b-0": nodeprobe.LinksUp}
	const why = "the kernel has no Geneve (not supported), no VXLAN (not supported); the node helper encapsulates packets in userspace"
	s := status(computeDesired(in), "", in.answers, nil)
	if len(s.Encapsulations) != 1 || s.Encapsulations[0] != v1alpha1.Userspace {
		t.Errorf("encapsulations %v", s.Encapsulations)
	}
	first, second := s.Gateways[0], s.Gateways[1]
	if !first.Ready || first.Encapsulation != v1alpha1.Userspace || !strings.HasPrefix(first.Message, why) {
		t.Errorf("a gateway that answers: %+v", first)
	}
	if second.Ready || !strings.HasPrefix(second.Message, "10.80.0.2 does not answer over userspace to 10.0.2.2. "+why) {
		t.Errorf("a gateway that does not: %+v", second)
	}
	in.answers["b-1"] = nodeprobe.LinksUp
	if m := status(computeDesired(in), "", in.answers, nil).Conditions[0].Message; !strings.HasPrefix(m, "all gateways answer. "+why) || strings.Count(m, why) != 1 {
		t.Errorf("condition %s", m)
	}
}

func TestStatusSaysWhereFramesAreNotSent(t *testing.T) {
	in := example()
	in.support = node.Support{Userspace: true}
	s := status(computeDesired(in), "", in.answers, map[uint32]netip.Addr{3<<8 + 2: netip.MustParseAddr("10.0.2.2")})
	if m := s.Gateways[0].Message; strings.Contains(m, "does not send") {
		t.Errorf("a gateway that frames are sent to: %s", m)
	}
	if g := s.Gateways[1]; !g.Ready || !strings.HasPrefix(g.Message, "the kernel does not send all packets to 10.0.2.2; check that the node has a route to it") {
		t.Errorf("one that they are not: %+v", g)
	}
}

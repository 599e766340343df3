package gateway_test

import (
	"slices"
	"testing"

	"strait.dev/strait/gateway"
)

// dropCase is a packet that goes no further.
type dropCase struct {
	reason gateway.Reason
	name   string
	send   func(a *side) (gateway.Result, *gateway.Counters)
	answer *icmpMeaning // the error that tells its sender; nil: none
}

// Where a packet comes from.

func fromNode(b []byte) func(*side) (gateway.Result, *gateway.Counters) {
	return datagram(node1A, node1A.frame(b))
}

func datagram(w wire, b []byte) func(*side) (gateway.Result, *gateway.Counters) {
	return func(a *side) (gateway.Result, *gateway.Counters) { return a.send(w, b), &a.egress.Counters }
}

func fromTunnel(b []byte) func(*side) (gateway.Result, *gateway.Counters) {
	return func(a *side) (gateway.Result, *gateway.Counters) { return a.fromTunnel(b), &a.ingress.Counters }
}

func fromHost(b []byte) func(*side) (gateway.Result, *gateway.Counters) {
	return func(a *side) (gateway.Result, *gateway.Counters) { return a.origin.Packet(b), &a.origin.Counters }
}

func superFromHost(b []byte) func(*side) (gateway.Result, *gateway.Counters) {
	return func(a *side) (gateway.Result, *gateway.Counters) {
		return a.origin.SuperPacket(b, 1000), &a.origin.Counters
	}
}

// byCaller are the reasons that those who carry packets to and from the journeys
// count; no journey gives them.
var byCaller = []gateway.Reason{gateway.NoPeer, gateway.TunnelQueue, gateway.UnderlaySend, gateway.Panic}

// ofMany are the reasons that it takes many packets or much time to reach:
// TestT11_FragmentsThatNeverEndAreBoundedAndCounted.
var ofMany = []gateway.Reason{gateway.FragmentMemory, gateway.FragmentTimeout}

func TestEveryReasonIsReached(t *testing.T) {
	t.Parallel()
	reached := make(map[gateway.Reason]bool)
	for _, c := range slices.Concat(frameDrops(), malformedDrops(), grantDrops(v4), grantDrops(v6), forwardingDrops(v4), forwardingDrops(v6), ownDrops(v4), ownDrops(v6), hostDrops(v4), hostDrops(v6), masqueradeDrops(t, v4), masqueradeDrops(t, v6)) {
		t.Run(c.reason.String()+"/"+c.name, func(t *testing.T) {
			r, counters := c.send(newA(t))
			expectDrop(t, r, c.reason)
			reached[c.reason] = true
			if got := dropped(counters); len(got) != 1 || got[c.reason] != 1 {
				t.Errorf("counted %v", got)
			}
			expectAnswer(t, r, c.answer)
			if sent, _ := counters.Answers(); sent != 1 && c.answer != nil || sent != 0 && c.answer == nil {
				t.Errorf("counted %d answers", sent)
			}
		})
	}
	for reason := range gateway.Reasons {
		if !reached[reason] && !slices.Contains(byCaller, reason) && !slices.Contains(ofMany, reason) {
			t.Errorf("no case is dropped for %q", reason)
		}
	}
}

func dropped(c *gateway.Counters) map[gateway.Reason]uint64 {
	counts := make(map[gateway.Reason]uint64)
	for reason := range gateway.Reasons {
		if n := c.Dropped(reason); n != 0 {
			counts[reason] = n
		}
	}
	return counts
}

func expectAnswer(t *testing.T, r gateway.Result, want *icmpMeaning) {
	t.Helper()
	if want == nil {
		if r.Answer != nil {
			t.Errorf("answered: % x", r.Answer)
		}
		return
	}
	if r.Answer == nil {
		t.Fatal("not answered")
	}
	v := receive(t, r.Answer)
	kind, code := want.type4, want.code4
	if v.src.Is6() {
		kind, code = want.type6, want.code6
	}
	if v.upper[0] != kind || v.upper[1] != code {
		t.Errorf("answered with type %d code %d, want %d %d", v.upper[0], v.upper[1], kind, code)
	}
}

func TestCallersCountWhatTheyCouldNotSend(t *testing.T) {
	t.Parallel()
	for _, reason := range byCaller {
		var c gateway.Counters
		c.CountDropped(reason, 3)
		c.CountDropped(reason, 2)
		if n := c.Dropped(reason); n != 5 {
			t.Errorf("%s: counted %d, want 5", reason, n)
		}
	}
	var c gateway.Counters
	c.CountForwarded(2, 2800)
	c.CountForwarded(1, 64)
	if packets, bytes := c.Forwarded(); packets != 3 || bytes != 2864 {
		t.Errorf("forwarded %d packets, %d bytes", packets, bytes)
	}
}

func TestReasonNamesAreUnique(t *testing.T) {
	t.Parallel()
	taken := make(map[string]bool)
	for reason := range gateway.Reasons {
		if name := reason.String(); name == "" || taken[name] {
			t.Errorf("reason %d is named %q", reason, name)
		} else {
			taken[name] = true
		}
	}
	for range gateway.Reasons {
		break // stopping early is fine
	}
	if gateway.NoReason.String() != "" {
		t.Error("no reason has a name")
	}
}

func TestAForwardedPacketIsNoDrop(t *testing.T) {
	t.Parallel()
	a, b := newA(t), newB(t)
	out := a.fromNode(flow{src: v4.podA, dst: v4.seenPodB}.udp(nil))
	b.fromTunnel(out.Packet)
	if d := dropped(&a.egress.Counters); len(d) != 0 {
		t.Errorf("egress counted %v", d)
	}
	if d := dropped(&b.ingress.Counters); len(d) != 0 {
		t.Errorf("ingress counted %v", d)
	}
}

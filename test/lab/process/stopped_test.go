//go:build lab || nightly

package process

import (
	"syscall"
	"testing"
	"time"

	"strait.dev/strait/test/lab"
)

// stopFor is how long the gateway is stopped, and resumeWithin how long after that pings may have no answer.
const (
	stopFor      = 5 * time.Second
	resumeWithin = time.Second
)

// A gateway that was stopped continues as if nothing had happened: it does not blame its links, and its sessions
// stay. B waits for A to initiate, so that no handshake of B hides what A does.
func TestF4_AStoppedGatewayContinuesWhereItWas(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{Configure: func(s *lab.Site, c *lab.GatewayConfig) {
		if s.Name == "b" {
			c.PeerEndpoint = ""
		}
	}})
	a, b := top.A.Gateway, top.B.Gateway
	const lostMetric, downLine = "strait_link_probes_lost_total", "link is down"
	untilUndisturbed(t, top, func() (verdict func()) {
		lost, downs := a.Metric(t, lostMetric), a.Logged(downLine)
		var stopped time.Duration
		silent, gap := stop(t, top, func() {
			began := time.Now()
			time.Sleep(stopFor)
			stopped = time.Since(began)
		})
		lab.Eventually(t, "B reports the link up again", func() bool { return b.LinkUp(t) })
		lost, downs = a.Metric(t, lostMetric)-lost, a.Logged(downLine)-downs
		return func() {
			if silent > gap+resumeWithin {
				t.Errorf("pings got no answer for %v; want at most %v", silent, gap+resumeWithin)
			}
			if gap < stopFor || gap > stopped+resumeWithin {
				t.Errorf("the longest gap took %v, want %v", gap, stopFor)
			}
			if lost != 0 || downs != 0 {
				t.Errorf("%v probes count as lost, and %d times the link was found down; want neither", lost, downs)
			}
		}
	})
	lab.Ping(t, top.A.Pod, top.A.Sees(top.B.Pod4), 10)
}

// A gateway that was stopped for long trusts none of its links when it continues, and has them again soon, although
// the other end has given up the session meanwhile.
func TestF4_AGatewayThatWasStoppedForLongIsBackSoon(t *testing.T) {
	t.Parallel()
	const stopForLong, backWithin = 12 * time.Second, 4 * time.Second
	top := lab.Build(t, lab.Options{})
	a, b := top.A.Gateway, top.B.Gateway
	untilUndisturbed(t, top, func() (verdict func()) {
		silent, gap := stop(t, top, func() {
			lab.Eventually(t, "B finds the link down", func() bool { return !b.LinkUp(t) })
			time.Sleep(stopForLong)
		})
		return func() {
			if silent > gap+backWithin {
				t.Errorf("pings got no answer for %v; want at most %v", silent, gap+backWithin)
			}
		}
	})
	lab.Eventually(t, "both ends report the link up again", func() bool { return a.LinkUp(t) && b.LinkUp(t) })
	const distrusts = "links are down until a probe is answered"
	if a.Logged(distrusts) == 0 {
		t.Errorf("the log of the gateway that was stopped does not have %q", distrusts)
	}
}

// untilUndisturbed stops gateway A until both gateways ran at all other times: then the verdict counts. On a machine that
// is busy they may not.
func untilUndisturbed(t *testing.T, top *lab.Topology, stopA func() (verdict func())) {
	t.Helper()
	gaps := func(g *lab.Gateway) float64 { return g.Metric(t, "strait_process_gaps_total") }
	a, b := top.A.Gateway, top.B.Gateway
	for range lab.MostRounds {
		lab.Eventually(t, "both ends report the link up", func() bool { return a.LinkUp(t) && b.LinkUp(t) })
		ofA, ofB := gaps(a), gaps(b)
		verdict := stopA()
		lab.Eventually(t, "the gap is counted", func() bool { return gaps(a) > ofA })
		if ofA, ofB = gaps(a)-ofA, gaps(b)-ofB; ofA == 1 && ofB == 0 {
			verdict()
			return
		}
		t.Logf("A did not run %v times, B %v times: again", ofA, ofB)
	}
	t.Errorf("in %d rounds, A never had exactly one gap and B none", lab.MostRounds)
}

// stop stops gateway A for as long as meanwhile takes. It returns for how long pings got no answer, and A's own
// measurement of how long it did not run.
func stop(t *testing.T, top *lab.Topology, meanwhile func()) (silent, gap time.Duration) {
	t.Helper()
	a := top.A.Gateway
	p := lab.StartPings(t, top.A.Pod, top.A.Sees(top.B.Pod4))
	defer p.Stop()
	lab.Eventually(t, "pings cross", func() bool { return p.Read(t).Replies > 0 })
	a.Signal(t, syscall.SIGSTOP)
	meanwhile()
	before := p.Read(t).Replies
	a.Signal(t, syscall.SIGCONT)
	lab.Eventually(t, "pings cross again", func() bool { return p.Read(t).Replies > before })
	silent = p.Read(t).Silence
	gap = time.Duration(a.Metric(t, "strait_process_longest_gap_seconds") * float64(time.Second))
	t.Logf("A did not run for %v, and pings got no answer for %v", gap.Round(time.Millisecond), silent)
	return silent, gap
}

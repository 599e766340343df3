//go:build lab || nightly

package lab

import (
	"syscall"
	"testing"
	"time"
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
	top := build(t, options{configure: func(s *site, c *gatewayConfig) {
		if s.name == "b" {
			c.PeerEndpoint = ""
		}
	}})
	a, b := top.a.gateway, top.b.gateway
	const lostMetric, downLine = "strait_link_probes_lost_total", "link is down"
	untilUndisturbed(t, top, func() (verdict func()) {
		lost, downs := a.metric(t, lostMetric), a.logged(downLine)
		var stopped time.Duration
		silent, gap := stop(t, top, func() {
			began := time.Now()
			time.Sleep(stopFor)
			stopped = time.Since(began)
		})
		eventually(t, "B reports the link up again", func() bool { return b.linkUp(t) })
		lost, downs = a.metric(t, lostMetric)-lost, a.logged(downLine)-downs
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
	ping(t, top.a.pod, top.a.sees(top.b.pod4), 10)
}

// A gateway that was stopped for long trusts none of its links when it continues, and has them again soon, although
// the other end has given up the session meanwhile.
func TestF4_AGatewayThatWasStoppedForLongIsBackSoon(t *testing.T) {
	t.Parallel()
	const stopForLong, backWithin = 12 * time.Second, 4 * time.Second
	top := build(t, options{})
	a, b := top.a.gateway, top.b.gateway
	untilUndisturbed(t, top, func() (verdict func()) {
		silent, gap := stop(t, top, func() {
			eventually(t, "B finds the link down", func() bool { return !b.linkUp(t) })
			time.Sleep(stopForLong)
		})
		return func() {
			if silent > gap+backWithin {
				t.Errorf("pings got no answer for %v; want at most %v", silent, gap+backWithin)
			}
		}
	})
	eventually(t, "both ends report the link up again", func() bool { return a.linkUp(t) && b.linkUp(t) })
	const distrusts = "links are down until a probe is answered"
	if a.logged(distrusts) == 0 {
		t.Errorf("the log of the gateway that was stopped does not have %q", distrusts)
	}
}

// untilUndisturbed stops gateway A until both gateways ran at all other times: then the verdict counts. On a machine that
// is busy they may not.
func untilUndisturbed(t *testing.T, top *topology, stopA func() (verdict func())) {
	t.Helper()
	gaps := func(g *gateway) float64 { return g.metric(t, "strait_process_gaps_total") }
	a, b := top.a.gateway, top.b.gateway
	for range mostRounds {
		eventually(t, "both ends report the link up", func() bool { return a.linkUp(t) && b.linkUp(t) })
		ofA, ofB := gaps(a), gaps(b)
		verdict := stopA()
		eventually(t, "the gap is counted", func() bool { return gaps(a) > ofA })
		if ofA, ofB = gaps(a)-ofA, gaps(b)-ofB; ofA == 1 && ofB == 0 {
			verdict()
			return
		}
		t.Logf("A did not run %v times, B %v times: again", ofA, ofB)
	}
	t.Errorf("in %d rounds, A never had exactly one gap and B none", mostRounds)
}

// stop stops gateway A for as long as meanwhile takes. It returns for how long pings got no answer, and A's own
// measurement of how long it did not run.
func stop(t *testing.T, top *topology, meanwhile func()) (silent, gap time.Duration) {
	t.Helper()
	a := top.a.gateway
	p := startPings(t, top.a.pod, top.a.sees(top.b.pod4))
	defer p.stop()
	eventually(t, "pings cross", func() bool { return p.read(t).replies > 0 })
	a.signal(t, syscall.SIGSTOP)
	meanwhile()
	before := p.read(t).replies
	a.signal(t, syscall.SIGCONT)
	eventually(t, "pings cross again", func() bool { return p.read(t).replies > before })
	silent = p.read(t).silence
	gap = time.Duration(a.metric(t, "strait_process_longest_gap_seconds") * float64(time.Second))
	t.Logf("A did not run for %v, and pings got no answer for %v", gap.Round(time.Millisecond), silent)
	return silent, gap
}

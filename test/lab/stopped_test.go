//go:build lab || nightly

package lab

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stopFor is how long the gateway is stopped, and resumeWithin how long after that a ping may take.
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
	eventually(t, "both ends report the link up", func() bool { return a.linkUp(t) && b.linkUp(t) })
	lost := a.metric(t, "strait_link_probes_lost_total")

	p := startPings(t, top.a.pod, top.a.sees(top.b.pod4))
	eventually(t, "pings cross", func() bool { count, _ := p.replied(t); return count > 0 })
	a.signal(t, syscall.SIGSTOP)
	time.Sleep(stopFor)
	a.signal(t, syscall.SIGCONT)
	eventually(t, "pings cross again", func() bool { _, gap := p.replied(t); return gap >= stopFor-resumeWithin })
	_, gap := p.replied(t)
	t.Logf("pings got no answer for %v", gap)
	if gap > stopFor+resumeWithin {
		t.Errorf("pings got no answer for %v; want at most %v", gap, stopFor+resumeWithin)
	}
	eventually(t, "B reports the link up again", func() bool { return b.linkUp(t) })
	if got := a.metric(t, "strait_process_gaps_total"); got != 1 {
		t.Errorf("%v gaps counted, want 1", got)
	}
	if got := a.metric(t, "strait_process_longest_gap_seconds"); got < stopFor.Seconds() || got > (stopFor+resumeWithin).Seconds() {
		t.Errorf("the longest gap took %v s, want %v", got, stopFor.Seconds())
	}
	if got := a.metric(t, "strait_link_probes_lost_total"); got != lost {
		t.Errorf("%v probes count as lost, want none", got-lost)
	}
	log, err := os.ReadFile(a.logFile())
	if err != nil {
		t.Fatal(err)
	}
	if text := string(log); strings.Contains(text, "link is down") || strings.Count(text, "did not run") != 1 {
		t.Errorf("the log has a link that went down, or not exactly one gap:\n%s", text)
	}
	ping(t, top.a.pod, top.a.sees(top.b.pod4), 10)
}

// A gateway that was stopped for long trusts none of its links when it continues, and has them again soon, although
// the other end has given up the session meanwhile.
func TestF4_AGatewayThatWasStoppedForLongIsBackSoon(t *testing.T) {
	t.Parallel()
	const stopForLong, backWithin = 12 * time.Second, 4 * time.Second
	top := build(t, options{})
	a, b := top.a.gateway, top.b.gateway
	eventually(t, "both ends report the link up", func() bool { return a.linkUp(t) && b.linkUp(t) })
	p := startPings(t, top.a.pod, top.a.sees(top.b.pod4))
	eventually(t, "pings cross", func() bool { count, _ := p.replied(t); return count > 0 })
	a.signal(t, syscall.SIGSTOP)
	eventually(t, "B finds the link down", func() bool { return !b.linkUp(t) })
	time.Sleep(stopForLong)
	a.signal(t, syscall.SIGCONT)
	eventually(t, "pings cross again", func() bool { _, gap := p.replied(t); return gap >= stopForLong })
	_, gap := p.replied(t)
	t.Logf("pings got no answer for %v", gap)
	if gap > stopForLong+backWithin {
		t.Errorf("pings got no answer for %v; want at most %v", gap, stopForLong+backWithin)
	}
	eventually(t, "both ends report the link up again", func() bool { return a.linkUp(t) && b.linkUp(t) })
	for _, line := range []string{"links are down until a probe is answered", "link is down"} {
		if a.logged(line) == 0 {
			t.Errorf("the log of the gateway that was stopped does not have %q", line)
		}
	}
}

// pings are the lines of a ping that runs until the test ends.
type pings struct{ output string }

// startPings pings 20 times a second.
func startPings(t *testing.T, from *namespace, to netip.Addr) pings {
	t.Helper()
	p := pings{filepath.Join(t.TempDir(), "pings")}
	output, err := os.Create(p.output)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command("ping", "-n", "-D", "-i", "0.05", to.String())
	cmd.Stdout, cmd.Stderr = output, output
	if err := from.in(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

// replied returns how many replies have arrived, and the longest time without one.
func (p pings) replied(t *testing.T) (count int, gap time.Duration) {
	t.Helper()
	output, err := os.ReadFile(p.output)
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	for line := range strings.Lines(string(output)) {
		var at float64 // of the reply, in seconds
		if n, _ := fmt.Sscanf(line, "[%f] ", &at); n == 0 || !strings.Contains(line, "bytes from") {
			continue
		}
		if count++; count > 1 {
			gap = max(gap, time.Duration((at-last)*float64(time.Second)))
		}
		last = at
	}
	return count, gap
}

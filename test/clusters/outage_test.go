//go:build apiserver || nightly

package clusters

import (
	"fmt"
	"testing"
	"time"
)

// Both API servers are unavailable while pods communicate, in the measured tier for
// minutes; meanwhile gateways and node helpers are restarted, from their caches. Only the
// restart of a gateway interrupts traffic, for as long as it takes to start.
func TestF3_F5_TrafficGoesOnWhileTheAPIServersAreAway(t *testing.T) {
	p := newPair(t)
	b, a := p.join(t)
	there, back := seen(t, b, podAddresses[1]), seen(t, a, podAddresses[1])
	p.a.StopServer(t)
	p.b.StopServer(t)
	gone := time.Now()

	quiet := ping(t, p.a.pods[1], there)
	p.a.helpers[1].Kill() // as the kernel does when memory is short
	p.a.startHelper(t, 1)
	p.b.helpers[0].Stop(t) // as an upgrade does
	p.b.startHelper(t, 0)
	p.a.controller.Kill()
	p.a.startController(t)
	time.Sleep(watchTime)
	if longest, lost := quiet.outage(t); lost > 0 {
		t.Errorf("%d packets were lost while helpers and a controller restarted, without replies for %v", lost, longest)
		p.tellLosses(t)
	}

	g := p.a.gateways["b-0"]
	g.Kill()
	g.startContainer(t)
	took := within(t, 5*time.Second, "traffic resumes after the gateway was restarted", func() error {
		out, err := p.b.pods[0].Try("ping", "-n", "-c", "1", "-W", "1", back)
		if err != nil {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	t.Logf("traffic resumed %v after a gateway was killed and restarted without an API server", took.Round(10*time.Millisecond))

	rest := ping(t, p.b.pods[0], back)
	time.Sleep(away - time.Since(gone)) // the test requires that time passes
	p.a.StartServer(t)
	p.b.StartServer(t)
	p.a.ready(t, "b")
	p.b.ready(t, "a")
	if longest, lost := rest.outage(t); lost > 0 {
		t.Errorf("%d packets were lost while the API servers were unavailable and returned, without replies for %v", lost, longest)
		p.tellLosses(t)
	}
	t.Logf("the API servers were unavailable for %v", time.Since(gone).Round(time.Second))
}

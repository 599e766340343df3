//go:build nightly

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A pod of a pings one of b during upgrades: first with two gateways on each side, which are
// replaced in turn, then with one.
func TestUpgradeLosesFewPackets(t *testing.T) {
	w := newWorld(t)
	w.install(t)
	w.join(t)
	web := w.podsMeet(t)
	w.replacePinged(t, web, 2)
	w.scale(t, 1)
	w.replacePinged(t, web, 1)
}

// replacePinged is replace, and checks the share of lost packets.
func (w *world) replacePinged(t *testing.T, seen string, gateways int) {
	t.Helper()
	stop := w.ping(t, w.web(t, "a", "metadata.name")[0], seen)
	w.replace(t, seen, gateways)
	sent, lost := stop()
	t.Logf("with %d gateways on each side, %d of %d packets were lost", gateways, lost, sent)
	note("%.1f s without packets while gateways were replaced on both sides, %d on each", float64(lost)*interval.Seconds(), gateways)
	bound := sent / 2
	if gateways > 1 {
		bound = sent / 20 // none on a machine with enough capacity
	}
	if sent < 100 || lost > bound {
		t.Errorf("of %d packets sent during the upgrade with %d gateways, %d were lost", sent, gateways, lost)
	}
}

// interval is the interval of pings.
const interval = 100 * time.Millisecond

// ping makes a pod of cluster a ping an address until stop is called, which returns how
// many packets were sent and how many were not answered.
func (w *world) ping(t *testing.T, pod, address string) (stop func() (sent, lost int)) {
	t.Helper()
	cmd := w.command(t, "kubectl", "--context=a", "exec", pod, "--", "ping", fmt.Sprintf("-i%g", interval.Seconds()), address)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	must(t, cmd.Start())
	return func() (sent, lost int) {
		t.Helper()
		w.do(t, "", "kubectl", "--context=a", "exec", pod, "--", "killall", "-INT", "ping")
		_ = cmd.Wait() // the output contains the error
		fields := strings.Fields(tail(out.String(), 2))
		for i, field := range fields {
			switch {
			case strings.HasPrefix(field, "transmitted"):
				sent, _ = strconv.Atoi(fields[i-2])
			case strings.HasPrefix(field, "received"):
				received, _ := strconv.Atoi(fields[i-2])
				lost = sent - received
			}
		}
		if sent == 0 {
			t.Fatalf("ping printed no count:\n%s", tail(out.String(), 5))
		}
		return sent, lost
	}
}

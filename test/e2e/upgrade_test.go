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

// upgrade gives every pod of both installations another annotation, one cluster after the
// other, while a pod of a pings one of b.
func (w *world) upgrade(t *testing.T, seen string) {
	t.Helper()
	stop := w.ping(t, w.web(t, "a", "metadata.name")[0], seen)
	for _, cluster := range []string{"a", "b"} {
		peering := map[string]string{"a": "b", "b": "a"}[cluster]
		w.do(t, "", "helm", "upgrade", "strait", "charts/strait", "--kube-context="+cluster, "--namespace=strait-system",
			"--set=controller.annotations.upgraded=yes", "--set=gateway.annotations.upgraded=yes", "--set=node.annotations.upgraded=yes",
			"--wait", "--timeout=2m")
		within(t, "the gateway of "+cluster+" is a new one", func() error {
			out, err := w.try(t, "", "kubectl", "--context="+cluster, "--namespace=strait-gateways", "get", "pod", peering+"-0",
				`--output=jsonpath={.metadata.annotations.upgraded} {.status.conditions[?(@.type=="Ready")].status}`)
			if err == nil && out != "yes True" {
				err = fmt.Errorf("upgraded and ready: %q", out)
			}
			return err
		})
		w.do(t, "", "strait", "status", "--context="+cluster, "--wait")
	}
	for _, cluster := range []string{"a", "b"} {
		w.do(t, "", "strait", "status", "--context="+cluster, "--wait")
	}
	sent, lost := stop()
	t.Logf("%d of %d packets were lost", lost, sent)
	report = append(report, fmt.Sprintf("%.1f s without packets in two upgrades", float64(lost)*interval.Seconds()))
	if sent < 100 || lost > sent/2 {
		t.Errorf("of %d packets that a pod sent during the upgrade %d were lost", sent, lost)
	}
	w.answers(t, "a", w.web(t, "a", "metadata.name")[0], seen+":8080", "b")
}

// interval is how often a ping is sent.
const interval = 100 * time.Millisecond

// ping has a pod of cluster a ping an address until the function is called, which says how
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
		_ = cmd.Wait() // what it printed tells
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

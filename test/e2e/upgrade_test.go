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
// other, while a pod of a pings one of b: first with one gateway on each side, where
// packets have to wait for the new one, then with two, which take turns.
func (w *world) upgrade(t *testing.T, seen string) {
	t.Helper()
	w.replace(t, seen, 1)
	for _, cluster := range []string{"a", "b"} {
		w.do(t, "", "kubectl", "--context="+cluster, "patch", "peering", peering[cluster], "--type=merge", `--patch={"spec":{"gateway":{"replicas":2}}}`)
	}
	w.joined(t, 2)
	w.replace(t, seen, 2)
}

// peering is what each cluster calls the one with the other.
var peering = map[string]string{"a": "b", "b": "a"}

// replace upgrades both clusters, which have so many gateways each.
func (w *world) replace(t *testing.T, seen string, gateways int) {
	t.Helper()
	mark := fmt.Sprint(gateways)
	stop := w.ping(t, w.web(t, "a", "metadata.name")[0], seen)
	for _, cluster := range []string{"a", "b"} {
		w.do(t, "", "helm", "upgrade", "strait", "charts/strait", "--kube-context="+cluster, "--namespace=strait-system",
			"--set-string=controller.annotations.upgraded="+mark, "--set-string=gateway.annotations.upgraded="+mark, "--set-string=node.annotations.upgraded="+mark,
			"--wait", "--timeout=2m")
		for i := range gateways {
			within(t, fmt.Sprintf("gateway %d of %s is a new one", i, cluster), func() error {
				out, err := w.try(t, "", "kubectl", "--context="+cluster, "--namespace=strait-gateways", "get", "pod", fmt.Sprintf("%s-%d", peering[cluster], i),
					`--output=jsonpath={.metadata.annotations.upgraded} {.status.conditions[?(@.type=="Ready")].status}`)
				if err == nil && out != mark+" True" {
					err = fmt.Errorf("upgraded and ready: %q", out)
				}
				return err
			})
		}
		w.joined(t, gateways)
	}
	sent, lost := stop()
	t.Logf("with %d gateways on each side, %d of %d packets were lost", gateways, lost, sent)
	report = append(report, fmt.Sprintf("%.1f s without packets while gateways were replaced on both sides, %d on each", float64(lost)*interval.Seconds(), gateways))
	bound := sent / 2
	if gateways > 1 {
		bound = sent / 20 // on a machine with time for it, none
	}
	if sent < 100 || lost > bound {
		t.Errorf("of %d packets that a pod sent during the upgrade with %d gateways, %d were lost", sent, gateways, lost)
	}
	w.answers(t, "a", w.web(t, "a", "metadata.name")[0], seen+":8080", "b")
}

// joined waits until both clusters say that the peering is ready, with so many gateways.
func (w *world) joined(t *testing.T, gateways int) {
	t.Helper()
	for _, cluster := range []string{"a", "b"} {
		within(t, fmt.Sprintf("%d gateways of %s", gateways, cluster), func() error {
			out, err := w.try(t, "", "kubectl", "--context="+cluster, "--namespace=strait-gateways", "get", "statefulset", peering[cluster], "--output=jsonpath={.status.readyReplicas}")
			if err == nil && out != fmt.Sprint(gateways) {
				err = fmt.Errorf("ready: %q", out)
			}
			return err
		})
		w.do(t, "", "strait", "status", "--context="+cluster, "--wait")
	}
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

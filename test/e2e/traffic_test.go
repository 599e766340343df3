//go:build nightly

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/k8s/install"
)

// trafficPods are an echo server on each node, in which kubectl starts the senders.
const trafficPods = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: traffic}
spec:
  selector: {matchLabels: {app: traffic}}
  template:
    metadata: {labels: {app: traffic}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: traffic, image: IMAGE, args: [agent, serve]}]
`

// The flows from each pod to each pod of the other cluster, of 50 messages a second each. With two
// nodes in each cluster these are 800 datagrams a second and 8 connections; each message is answered.
const (
	udpOfPair = 2
	tcpOfPair = 1
)

// traffic is flows in both directions between the pods of two clusters.
type traffic struct {
	w       *world
	senders []sender
}

// sender is the agent that sends the flows of a pod.
type sender struct {
	pod     string
	orders  *json.Encoder
	results *json.Decoder
}

// startTraffic starts flows between pods of all nodes but one, "" for none, until the test ends,
// and returns once they are answered.
func (w *world) startTraffic(t *testing.T, except string) *traffic {
	t.Helper()
	for _, cluster := range w.names {
		w.do(t, strings.ReplaceAll(trafficPods, "IMAGE", w.image), "kubectl", "--context="+cluster, "apply", "--filename=-")
	}
	for _, cluster := range w.names {
		w.do(t, "", "kubectl", "--context="+cluster, "rollout", "status", "daemonset/traffic", "--timeout=10m")
	}
	tr := &traffic{w: w}
	for _, from := range w.names {
		var order endpoint.StreamsOrder
		order.UDP, order.TCP, order.Longest = udpOfPair, tcpOfPair, 24*time.Hour
		for _, address := range w.trafficOn(t, peering[from], "status.podIP", except) {
			seen := strings.TrimSpace(w.do(t, "", "strait", "resolve", address, "--of="+peering[from], "--context="+from, "--output=address"))
			order.To = append(order.To, netip.AddrPortFrom(netip.MustParseAddr(seen), endpoint.Port))
		}
		for _, pod := range w.trafficOn(t, from, "metadata.name", except) {
			tr.start(t, from, pod, order)
		}
	}
	eventually(t, "all flows are answered", func() error {
		if is := tr.lost(t); is.Sent == 0 || is.Lost > 0 || is.Broken > 0 || is.Gap >= time.Second {
			return fmt.Errorf("%+v", is)
		}
		return nil
	})
	return tr
}

// trafficOn returns a field of the pods on all nodes but one.
func (w *world) trafficOn(t *testing.T, cluster, field, except string) (all []string) {
	t.Helper()
	values := w.fields(t, cluster, "traffic", field)
	for i, node := range w.fields(t, cluster, "traffic", "spec.nodeName") {
		if node != except {
			all = append(all, values[i])
		}
	}
	return all
}

func (tr *traffic) start(t *testing.T, cluster, pod string, order endpoint.StreamsOrder) {
	t.Helper()
	cmd := tr.w.command(t, "kubectl", "--context="+cluster, "exec", "--stdin", pod, "--", install.Binary, "agent", "streams")
	input, err := cmd.StdinPipe()
	must(t, err)
	output, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = input.Close() // ends the agent
		_, _ = io.Copy(io.Discard, output)
		_ = cmd.Wait()
	})
	c := sender{cluster + "/" + pod, json.NewEncoder(input), json.NewDecoder(output)}
	must(t, c.orders.Encode(order))
	tr.senders = append(tr.senders, c)
}

// lost returns what all flows have lost since the last call.
func (tr *traffic) lost(t *testing.T) (sum endpoint.StreamsResult) {
	t.Helper()
	for _, c := range tr.senders {
		must(t, c.orders.Encode("now"))
	}
	for _, c := range tr.senders {
		var is endpoint.StreamsResult
		must(t, c.results.Decode(&is))
		if is.Lost > 0 || is.Broken > 0 {
			t.Logf("flows of %s: %+v", c.pod, is)
		}
		sum.Add(is)
	}
	return sum
}

// during returns what the flows lose while something is done, and for the rest of a time that
// begins with it.
func (tr *traffic) during(t *testing.T, atLeast time.Duration, do func()) endpoint.StreamsResult {
	t.Helper()
	tr.lost(t)
	end := time.Now().Add(atLeast)
	do()
	time.Sleep(time.Until(end))
	return tr.lost(t)
}

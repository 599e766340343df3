//go:build nightly

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// Each planned change is measured for so long at least, and with so many packets: datagrams and
// their answers.
const (
	plannedTime    = 100 * time.Second
	plannedPackets = 100_000
)

// planned is the planned changes of a test, and the table of what flows lost.
type planned struct {
	*world
	traffic *traffic
	table   strings.Builder
	rows    *tabwriter.Writer
}

// Every planned change, while 1,600 UDP packets a second and TCP connections cross between pods of
// all nodes, in both directions: with two gateways on each side, with one, and with four.
func TestF2_F3_F8_F15_PlannedChangesLoseNothing(t *testing.T) {
	w := newWorld(t)
	w.install(t)
	w.join(t)
	w.joined(t, 2)
	p := &planned{world: w, traffic: w.startTraffic(t, "")}
	p.rows = tabwriter.NewWriter(&p.table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(p.rows, "CHANGE\tTOOK\tDATAGRAMS\tLOST\tDUPLICATED\tGAP\tCONNECTIONS BROKEN\tFLOWS MOVED")
	defer func() {
		_ = p.rows.Flush() // writing to a strings.Builder cannot fail
		t.Logf("datagrams without an answer, and the longest time without an answer of a flow:\n%s", &p.table)
	}()
	p.change(t, "none", func(*testing.T) {})
	p.eachCluster(t, "2 gateways, new keys", p.rotateKeys)
	p.eachCluster(t, "2 gateways, upgrade", func(t *testing.T, cluster string) { w.upgrade(t, cluster, 2) })
	p.eachCluster(t, "2 gateways, node drained", func(t *testing.T, cluster string) { w.drain(t, cluster, 2) })
	p.eachCluster(t, "2 to 1 gateways", func(t *testing.T, cluster string) { w.scaleOne(t, cluster, 1) })
	p.eachCluster(t, "1 gateway, new keys", p.rotateKeys)
	p.eachCluster(t, "1 gateway, upgrade", func(t *testing.T, cluster string) { w.upgrade(t, cluster, 1) })
	p.eachCluster(t, "1 gateway, node drained", func(t *testing.T, cluster string) { w.drain(t, cluster, 1) })
	p.eachCluster(t, "1 to 4 gateways", func(t *testing.T, cluster string) { w.scaleOne(t, cluster, 4) })
	p.eachCluster(t, "4 to 2 gateways", func(t *testing.T, cluster string) { w.scaleOne(t, cluster, 2) })
}

// eachCluster makes a change in one cluster after the other.
func (p *planned) eachCluster(t *testing.T, what string, do func(t *testing.T, cluster string)) {
	t.Helper()
	for _, cluster := range p.names {
		p.change(t, what+", "+cluster, func(t *testing.T) { do(t, cluster) })
	}
}

// change makes a change, which must lose nothing.
func (p *planned) change(t *testing.T, what string, do func(*testing.T)) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		var took time.Duration
		is := p.traffic.during(t, plannedTime, func() {
			begun := time.Now()
			do(t)
			took = time.Since(begun)
		})
		t.Logf("in %.0f s: %+v", took.Seconds(), is)
		fmt.Fprintf(p.rows, "%s\t%.0f s\t%d\t%d\t%d\t%v\t%d\t%d\n", what, took.Seconds(), is.Sent, is.Lost, is.Duplicated, is.Gap.Round(time.Millisecond), is.Broken, is.Moved)
		if 2*is.Sent < plannedPackets {
			t.Errorf("only %d datagrams were sent, want %d", is.Sent, plannedPackets/2)
		}
		if is.Lost > 0 || is.Broken > 0 {
			t.Errorf("%d of %d datagrams were lost, and %d connections broke", is.Lost, is.Sent, is.Broken)
		}
	})
}

// rotateKeys gives all gateways of a cluster new keys.
func (w *world) rotateKeys(t *testing.T, cluster string) {
	t.Helper()
	w.do(t, "", "strait", "rotate-keys", peering[cluster], "--context="+cluster, "--wait=10m")
}

// drain drains the node of gateway 0 of a cluster, and uncordons it.
func (w *world) drain(t *testing.T, cluster string, gateways int) {
	t.Helper()
	node := w.do(t, "", "kubectl", "--context="+cluster, "--namespace=strait-gateways", "get", "pod", peering[cluster]+"-0", "--output=jsonpath={.spec.nodeName}")
	w.do(t, "", "kubectl", "--context="+cluster, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10m")
	w.joined(t, gateways)
	w.do(t, "", "kubectl", "--context="+cluster, "uncordon", node)
	w.joined(t, gateways)
}

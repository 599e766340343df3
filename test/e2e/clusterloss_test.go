//go:build nightly

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/services"
	"strait.dev/strait/test/nodes"
)

// notReadyWithin is the time after which no endpoint of a lost cluster is ready.
const notReadyWithin = 3 * time.Second

// losses is how often a cluster is lost.
const losses = 20

// Two clusters export a Service, and a pod of a third one calls it by name all the time. One
// of the two is disconnected and comes back, again and again.
func TestAnImportedServiceOutlivesAClusterThatExportsIt(t *testing.T) {
	w := newWorldOf(t, nodes.Options{Pods: 1}, nodes.Options{Pods: 2}, nodes.Options{Pods: 3}) // not mapped, so that an address tells its cluster
	stage(t, "install", func(t *testing.T) { w.install(t) })
	stage(t, "join", func(t *testing.T) {
		for _, exporter := range []string{"a", "b"} {
			w.do(t, "", "strait", "peer", "--context="+exporter, "--remote-context=c", "--name=c", "--remote-name="+exporter, "--service-type=NodePort", "--wait=10m")
		}
	})
	stage(t, "DNS", func(t *testing.T) { w.configureDNS(t) })
	sites := w.sites(t)
	c := sites[2]
	stage(t, "losses", func(t *testing.T) {
		b := newBehaviour(t, sites, true)
		service := helloService()
		service.Spec.SessionAffinity, service.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
		for _, exporter := range sites[:2] {
			b.deploy(exporter, 2)
			b.share(exporter, service, helloExport())
		}
		b.until(podsWithin, "endpoints of both clusters", func() error { return errors.Join(b.readyOf(c, "10.1.", 2), b.readyOf(c, "10.2.", 2)) })
		b.until(2*time.Minute, "the import has a name", func() error { // the controller asks the DNS server once a minute
			is, err := c.client.ServiceImports(b.namespace).Get(b.Context(), hello, metav1.GetOptions{})
			if err == nil && !meta.IsStatusConditionTrue(is.Status.Conditions, services.NamedCondition) {
				err = fmt.Errorf("the conditions are %+v", is.Status.Conditions)
			}
			return err
		})
		calls := b.callAllTheTime(c)
		var took []time.Duration
		for range losses {
			lost := time.Now()
			w.a.Disconnect(t)
			b.until(time.Minute, "no endpoint of a is ready", func() error { return b.readyOf(c, "10.1.", 0) })
			took = append(took, time.Since(lost))
			time.Sleep(time.Until(lost.Add(notReadyWithin + 2*time.Second)))
			calls.check(t, lost)
			w.a.Reconnect(t)
			b.until(time.Minute, "the endpoints of a are ready again", func() error { return b.readyOf(c, "10.1.", 2) })
		}
		slices.Sort(took)
		t.Logf("of %d losses, the endpoints of the lost cluster were ready for %v (median), %v (maximum); %s", losses, took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), calls)
		if longest := took[len(took)-1]; longest > notReadyWithin {
			t.Errorf("endpoints of a lost cluster were ready for %v", longest)
		}
	})
}

// readyOf returns an error unless so many endpoints of the import with a prefix are ready.
func (b *behaviour) readyOf(in *site, prefix string, want int) error {
	list, err := in.client.EndpointSlices(b.namespace).List(b.Context(), metav1.ListOptions{LabelSelector: mcsv1beta1.LabelServiceName + "=" + hello})
	if err != nil {
		return err
	}
	ready := 0
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if strings.HasPrefix(e.Addresses[0], prefix) && *e.Conditions.Ready {
				ready++
			}
		}
	}
	if ready != want {
		return fmt.Errorf("%d endpoints in %s0.0 are ready, want %d", ready, prefix, want)
	}
	return nil
}

// calls are the results of calls of the Service.
type calls struct {
	mu            sync.Mutex
	all           []call
	failed, after int // failed ones, and those that began while no endpoint of the lost cluster was ready
}

type call struct {
	begun time.Time
	ok    bool
}

// callAllTheTime calls the Service by name from a cluster until the test ends.
func (b *behaviour) callAllTheTime(from *site) *calls {
	b.Helper()
	cmd := from.w.command(b.T, "kubectl", "--context="+from.name, "--namespace="+clients, "exec", "request", "--", "sh", "-c",
		fmt.Sprintf(`while sleep 0.02; do timeout 2 wget -q -O- http://%s:42/ || echo failed; done`, b.host("clusterset.local")))
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // the pod is deleted with its namespace
		_ = cmd.Wait()
	})
	c := new(calls)
	go func() {
		begun := time.Now()
		for lines := bufio.NewScanner(out); lines.Scan(); begun = time.Now() {
			c.mu.Lock()
			c.all = append(c.all, call{begun, strings.HasPrefix(lines.Text(), "pod ip ")})
			c.mu.Unlock()
		}
	}()
	return c
}

// check demands that calls which begin after no endpoint of a lost cluster can be ready
// succeed, and counts those that failed before.
func (c *calls) check(t *testing.T, lost time.Time) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := 0
	for _, one := range c.all {
		if one.begun.Before(lost.Add(notReadyWithin)) {
			if !one.ok {
				c.failed++
			}
			continue
		}
		seen++
		if !one.ok {
			t.Errorf("a call %v after the cluster was lost failed", one.begun.Sub(lost).Round(time.Millisecond))
		}
	}
	if seen == 0 {
		t.Errorf("no call in the %v after a cluster was lost", time.Since(lost))
	}
	c.after += seen
	c.all = c.all[:0]
}

func (c *calls) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d calls failed before; of %d calls that began later, none", c.failed, c.after)
}

//go:build nightly

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/verify"
	"strait.dev/strait/test/nodes"
)

// The clusters have the same CIDRs in both IP families.
func TestDualStackClustersAreJoined(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, nodes.Options{DualStack: true}, nodes.Options{CNI: nodes.FlannelVXLAN, DualStack: true})
	before, err := w.everything(t)
	must(t, err)
	stage(t, "install", func(t *testing.T) { w.install(t) })
	stage(t, "join", func(t *testing.T) { w.join(t) })
	stage(t, "pods", func(t *testing.T) {
		w.serviceIsReached(t, w.podsMeet(t))
		w.podsMeetOverIPv6(t)
	})
	stage(t, "verify", func(t *testing.T) { w.verifiedInBothFamilies(t) })
	stage(t, "Service", func(t *testing.T) { w.importIsCalledInBothFamilies(t) })
	stage(t, "unpeer", func(t *testing.T) { w.separate(t) })
	stage(t, "uninstall", func(t *testing.T) {
		w.removePods(t)
		w.uninstall(t)
		w.nothingIsLeft(t, before)
	})
}

// podsMeetOverIPv6 makes the pods of podsMeet connect over IPv6.
func (w *world) podsMeetOverIPv6(t *testing.T) {
	t.Helper()
	for _, way := range [][2]string{{"b", "a"}, {"a", "b"}} {
		here, there := way[0], way[1]
		for _, address := range w.web(t, there, "status.podIPs[1].ip") {
			seen := strings.TrimSpace(w.do(t, "", "strait", "resolve", address, "--of="+there, "--context="+here, "--output=address"))
			for _, pod := range w.web(t, here, "metadata.name") {
				w.do(t, "", "kubectl", "--context="+here, "exec", pod, "--", "ping", "-c1", "-W60", seen)
				w.answers(t, here, pod, net.JoinHostPort(seen, "8080"), there)
			}
		}
	}
}

// verifiedInBothFamilies checks that as many checks between pods pass over IPv6 as over IPv4.
func (w *world) verifiedInBothFamilies(t *testing.T) {
	t.Helper()
	var report verify.Report
	out := w.do(t, "", "strait", "verify", "--context=a", "--remote-context=b", "--output=json")
	must(t, json.Unmarshal([]byte(out), &report))
	passed := make(map[string]int)
	for _, c := range report.Checks {
		if c.Group == verify.OfMatrix && strings.HasPrefix(c.Source, "pod") && c.Outcome == verify.Passed {
			passed[c.Family]++
		}
	}
	if passed["IPv4"] == 0 || passed["IPv4"] != passed["IPv6"] {
		t.Errorf("checks between pods: %v; the report is:\n%s", passed, out)
	}
}

// importIsCalledInBothFamilies exports a Service of the first cluster, and calls all
// addresses of its imports.
func (w *world) importIsCalledInBothFamilies(t *testing.T) {
	t.Helper()
	b := newBehaviour(t, w.sites(t), false)
	b.deploy(b.sites[0], 1)
	b.share(b.sites[0], b.service, b.export)
	for _, s := range b.sites {
		is := b.imported(s, func(i *mcsv1beta1.ServiceImport) error {
			if len(i.Spec.IPs) != 2 {
				return fmt.Errorf("its IPs are %v", i.Spec.IPs)
			}
			return nil
		})
		b.answersAt(s, is.Spec.IPs)
		w.do(t, "", "kubectl", "--context="+s.name, "delete", "namespace", clients, "--wait=false")
	}
}

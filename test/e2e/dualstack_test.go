//go:build e2e || nightly

package e2e

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"strait.dev/strait/k8s/verify"
)

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

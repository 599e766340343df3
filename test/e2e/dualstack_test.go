//go:build e2e || nightly

package e2e

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"strait.dev/strait/operate/verify"
)

// podsMeetInSecondFamily makes the pods of podsMeet connect over the second IP family of the
// cluster of the server.
func (w *world) podsMeetInSecondFamily(t *testing.T) {
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

// verifiedIn checks that strait verify succeeds, and that as many of its checks between pods
// pass in each of these IP families, and none in others.
func (w *world) verifiedIn(t *testing.T, families ...string) {
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
	for _, family := range families {
		if passed[family] == 0 || passed[family] != passed[families[0]] || len(passed) != len(families) {
			t.Errorf("checks between pods: %v, want as many in each of %v; the report is:\n%s", passed, families, out)
		}
	}
}

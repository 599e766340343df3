//go:build nightly

package e2e

import (
	"net"
	"strings"
	"testing"

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
	stage(t, "verify", func(t *testing.T) {
		out := w.do(t, "", "strait", "verify", "--context=a", "--remote-context=b")
		t.Log(out)
	})
	stage(t, "unpeer", func(t *testing.T) { w.separate(t) })
	stage(t, "uninstall", func(t *testing.T) {
		w.removePods(t)
		w.uninstall(t)
		w.nothingIsLeft(t, before)
	})
}

// podsMeetOverIPv6 does the same as podsMeet over IPv6.
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

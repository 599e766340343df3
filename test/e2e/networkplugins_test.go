//go:build nightly

package e2e

import (
	"testing"

	"strait.dev/strait/test/nodes"
)

// Flannel routes through nodes in cluster a, and encapsulates in VXLAN in cluster b.
func TestClustersOfFlannelAreJoined(t *testing.T) {
	w := newWorldOf(t, nodes.Options{CNI: nodes.FlannelHostGW}, nodes.Options{CNI: nodes.FlannelVXLAN})
	w.a.StartMetalLB(t)
	before, err := w.everything(t)
	must(t, err)
	w.install(t)
	w.joinBy(t, "LoadBalancer")
	w.balanced(t)
	w.serviceIsReached(t, w.podsMeet(t))
	t.Log(w.do(t, "", "strait", "verify", "--context=a", "--remote-context=b"))
	w.separate(t)
	w.removePods(t)
	w.uninstall(t)
	w.nothingIsLeft(t, before)
}

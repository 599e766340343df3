//go:build nightly

package e2e

import (
	"testing"

	"strait.dev/strait/test/nodes"
)

// Pods have the same addresses in all clusters where the pod CIDRs are distinct, so all
// behaviours of the Multi-Cluster Services API hold.
func TestServicesAreSharedBetweenClustersWithDistinctCIDRs(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, nodes.Options{Pods: 1}, nodes.Options{Pods: 2})
	stage(t, "install", func(t *testing.T) { w.install(t) })
	stage(t, "join", func(t *testing.T) {
		w.do(t, "", "strait", "peer", "--context=a", "--remote-context=b", "--name=b", "--remote-name=a", "--keep-addresses", "--service-type=NodePort", "--wait=10m")
	})
	stage(t, "DNS", func(t *testing.T) { w.configureDNS(t) })
	stage(t, "27 behaviours of Services", func(t *testing.T) { w.servicesAreShared(t, true) })
}

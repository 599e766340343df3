package plan

import (
	"testing"

	"strait.dev/strait/nat"
)

func TestPodsAreSeenAtTheirMappedAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ own, other Cluster }{{A, B}, {B, A}} {
		for f := range c.own.Address {
			m, err := nat.NewMap(PodCIDRs[f], c.other.RemotePods[f])
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Translate(c.own.Address[f]); got != c.own.PodSeen[f] {
				t.Errorf("pod %s is mapped to %v, want %v", c.own.Name, got, c.own.PodSeen[f])
			}
		}
	}
}

package translate

import (
	"fmt"
	"slices"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// The order of the peers says which of them have the ordinal of this gateway: b-10 is the tenth and not the second.
func TestPeersAreInTheOrderOfTheirOrdinals(t *testing.T) {
	t.Parallel()
	in := load(t, "testdata/whole.yaml")
	in.Peering.Spec.Gateway.Replicas = 4
	in.Peering.Spec.Peers = nil
	var want []string
	for ordinal := range 16 {
		name := fmt.Sprintf("b-%d", ordinal)
		want = append(want, name)
		key := "ABCDEFGHIJKLMNOP"[ordinal:ordinal+1] + "SDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
		in.Peering.Spec.Peers = append(in.Peering.Spec.Peers, v1alpha1.Peer{Name: name, PublicKey: v1alpha1.PublicKey(key)})
	}
	slices.Reverse(in.Peering.Spec.Peers)
	c, problems := Gateway(in)
	if c == nil {
		t.Fatal(problems)
	}
	var got []string
	for _, p := range c.WireGuard.Peers {
		got = append(got, p.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the peers are %v", got)
	}
	if w := c.WireGuard; w.Ordinal != 0 || w.Replicas != 4 {
		t.Errorf("the gateway is %d of %d", w.Ordinal, w.Replicas)
	}
}

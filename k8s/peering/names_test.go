package peering

import (
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestThePlaceOfAGatewayAmongThoseOfItsPeering(t *testing.T) {
	t.Parallel()
	p := new(v1alpha1.Peering)
	p.Name, p.Spec.Gateway.Replicas = "b", 2
	for gateway, want := range map[string][2]int32{
		"b-0":   {0, 2},
		"b-1":   {1, 2},
		"b-2":   {2, 3}, // it is about to end
		"b-15":  {15, 16},
		"b-16":  {0, 1}, // not one that can exist
		"other": {0, 1},
	} {
		if ordinal, replicas := Place(p, gateway); [2]int32{ordinal, replicas} != want {
			t.Errorf("gateway %s is %d of %d, want %v", gateway, ordinal, replicas, want)
		}
	}
	p.Spec.Gateway.Replicas = 1
	if ordinal, replicas := Place(p, "b-1"); ordinal != 1 || replicas != 2 {
		t.Errorf("a temporary second gateway is %d of %d", ordinal, replicas)
	}
}

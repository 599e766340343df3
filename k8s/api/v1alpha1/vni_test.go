package v1alpha1_test

import (
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestEveryPairOfNodeAndGatewayHasAVNIOfItsOwn(t *testing.T) {
	seen := make([]bool, 1<<24)
	for index := int32(1); index <= 65535; index++ {
		for number := int32(1); number <= 255; number++ {
			vni := v1alpha1.VNI(index, number)
			if vni == 0 || vni >= 1<<24 {
				t.Fatalf("node %d at gateway %d: %d is no VNI", index, number, vni)
			}
			if seen[vni] {
				t.Fatalf("node %d at gateway %d: VNI %d is already used by another pair", index, number, vni)
			}
			seen[vni] = true
		}
	}
}

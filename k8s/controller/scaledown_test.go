package controller_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// present returns the gateways that the status of a Peering lists.
func (f *fixture) present(peering string) (names []string) {
	for _, g := range f.peering(peering).Status.Gateways {
		names = append(names, g.Name)
	}
	return names
}

func TestF2_AGatewayThatIsRemovedStaysKnownUntilItHasEnded(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s := f.simulate()
		f.runs(nil, "v1")
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 4})
		f.untilRunning("b-0 v1 ready, b-1 v1 ready, b-2 v1 ready, b-3 v1 ready")
		f.until("four gateways in the status", func() string { return strings.Repeat("no", 4-len(f.present("b"))) })

		s.lock <- struct{}{} // kubelets and gateways pause
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 2})
		f.untilServices("set/b x2", 4)
		f.pause(10 * time.Second)
		for _, name := range []string{"b-2", "b-3"} {
			must(t, f.Pods(gateways).Delete(t.Context(), name, metav1.DeleteOptions{})) // as the StatefulSet's controller does
		}
		f.pause(10 * time.Second)
		if got := f.present("b"); !slices.Equal(got, []string{"b-0", "b-1", "b-2", "b-3"}) {
			t.Errorf("while two gateways end, the status has %v", got)
		}
		f.untilServices("set/b x2", 4)
		<-s.lock
		f.until("the status without them", func() string {
			if got := f.present("b"); !slices.Equal(got, []string{"b-0", "b-1"}) {
				return strings.Join(got, " ")
			}
			return ""
		})
		f.untilServices("set/b x2", 2)
	})
}

// untilServices waits until the workloads begin like want and have that many Services.
func (f *fixture) untilServices(want string, services int) {
	f.Helper()
	f.until("what gateways run in", func() string {
		if got := f.workloads(); !strings.HasPrefix(got, want+" ") || strings.Count(got, "service/") != services {
			return got
		}
		return ""
	})
}

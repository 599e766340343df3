package controller_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/controller/values"
	"strait.dev/strait/k8s/rbac"
)

// install starts a controller, with no more than its rules, that was told these fields
// of the ClusterNetwork.
func (f *fixture) install(fields string) (stop func()) {
	f.Helper()
	network, err := values.ParseNetwork([]byte(fields))
	must(f.T, err)
	account := f.cluster.Account(f.T, "strait-system", "strait-controller", rbac.Controller)
	return f.start(account, "strait-system", "installed", func(o *controller.Options) { o.Network = network })
}

// untilNetwork waits for what the spec of the ClusterNetwork is, and its condition Ready.
func (f *fixture) untilNetwork(want string) *v1alpha1.ClusterNetwork {
	f.Helper()
	var network *v1alpha1.ClusterNetwork
	f.until("ClusterNetwork", func() string {
		var err error
		if network, err = f.ClusterNetworks().Get(f.Context(), "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		ready := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil {
			return "no condition Ready"
		}
		got := fmt.Sprintf("%s%s%s%d %s", network.Spec.ClusterID, network.Spec.PodCIDRs, network.Spec.ExternalCIDRs, network.Spec.Overlay.MTU, ready.Reason)
		if got != want {
			return fmt.Sprintf("%s, want %s; %s", got, want, ready.Message)
		}
		return ""
	})
	return network
}

func TestWhatTheInstallationSaysOfTheClusterComesAndGoes(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		stop := f.install("{podCIDRs: [10.0.0.0/16], serviceCIDRs: [10.96.0.0/16], externalCIDRs: [10.90.0.0/16], overlay: {mtu: 1400}}")
		f.untilNetwork("[10.0.0.0/16][10.90.0.0/16]1400 Configured")
		stop()

		// An admin's field stays when that of the installation goes, and the default is back.
		f.network(`{"podCIDRs":["10.2.0.0/16"]}`)
		stop = f.install("{podCIDRs: [10.0.0.0/16], serviceCIDRs: [10.96.0.0/16]}")
		f.untilNetwork("[10.0.0.0/16 10.2.0.0/16][10.70.0.0/16]0 Configured")
		stop()
		stop = f.install("{serviceCIDRs: [10.96.0.0/16]}")
		f.untilNetwork("[10.2.0.0/16][10.70.0.0/16]0 Configured")

		// An object that takes the place of the first gets it too.
		must(t, f.ClusterNetworks().Delete(t.Context(), "default", metav1.DeleteOptions{}))
		f.network(`{"podCIDRs":["10.2.0.0/16"]}`)
		f.untilNetwork("[10.2.0.0/16][10.70.0.0/16]0 Configured")
		stop()

		// A controller that was told nothing takes nothing away.
		stop = f.lead()
		f.node("node-1", "192.0.2.21", "10.2.0.0/24")
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]")
		f.untilNetwork("[10.2.0.0/16][10.70.0.0/16]0 Configured")
		stop()
	})
}

func TestWithoutPoliciesThereAreNone(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		stop := f.lead()
		f.peer("b", 1, "10.0.0.0/16")
		f.untilWorkloads("set/b x1 service/b-0 policy/b secret/b-0-key-1 1.key")
		stop()
		f.start(f.cluster.Admin(), "default", "second", func(o *controller.Options) { o.Gateways.NoPolicies = true })
		f.untilWorkloads("set/b x1 service/b-0 secret/b-0-key-1 1.key")
	})
}

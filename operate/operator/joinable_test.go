package operator

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/fakekube"
)

// TestAChangedClusterNetworkIsJoinedOnceTheControllerHasProcessedIt also covers a user who
// sets spec.clusterID and joins at once: the Peering must not have the previous ID.
func TestAChangedClusterNetworkIsJoinedOnceTheControllerHasProcessedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kube := fakekube.New()
		c := Cluster{Name: "context a", Client: kube.Client(t)}
		networks := c.Client.ClusterNetworks()
		_, err := networks.Create(t.Context(), &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}}, metav1.CreateOptions{})
		must(t, err)
		report := func(id v1alpha1.ClusterID) { // as the controller does
			of, err := networks.Get(t.Context(), v1alpha1.ClusterNetworkName, metav1.GetOptions{})
			if err == nil {
				of.Status = v1alpha1.ClusterNetworkStatus{ObservedGeneration: of.Generation, ClusterID: id}
				_, err = networks.UpdateStatus(t.Context(), of, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Error(err)
			}
		}
		report("detected")
		is, err := networks.Get(t.Context(), v1alpha1.ClusterNetworkName, metav1.GetOptions{})
		must(t, err)
		is.Spec.ClusterID = "wanted"
		_, err = networks.Update(t.Context(), is, metav1.UpdateOptions{})
		must(t, err)

		const missing = "context a: the controller has not processed the last change of ClusterNetwork default yet; if this persists, check that strait controller runs"
		_, err = joinable(t.Context(), Waiting{DryRun: true}, c)
		says(t, err, missing)
		_, err = joinable(t.Context(), Waiting{For: time.Second}, c)
		says(t, err, "not after 1s: "+missing)
		time.AfterFunc(10*time.Second, func() { report("wanted") })
		joined, err := joinable(t.Context(), soon(), c)
		must(t, err)
		if id := joined[0].Status.ClusterID; id != "wanted" {
			t.Errorf("the cluster is joined as %s", id)
		}
	})
}

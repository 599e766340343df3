package controller_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// announced runs the gateway of a Peering, to which the remote cluster announces itself.
func (f *fixture) announced(gateway string, cluster v1alpha1.ClusterID, ranges ...v1alpha1.CIDR) {
	f.Helper()
	f.runGateway(gateway, corev1.ConditionTrue)
	report := announces(cluster, ranges...)
	report.Links = []v1alpha1.LinkStatus{{Remote: "a-0", Up: true}}
	f.say(gateway, report)
}

// untilRefused waits until a Peering has nothing of what its remote cluster announced, because
// another Peering has its ID.
func (f *fixture) untilRefused(name, id, holder string) {
	f.Helper()
	f.untilCondition(name, "Announced", fmt.Sprintf("False ClusterIDTaken cluster ID %s belongs to Peering %s", id, holder))
	if s := f.peering(name).Status; s.ClusterID != "" || s.Announcement != nil || len(s.Prefixes) > 0 || len(s.ExternalPrefixes) > 0 || s.Summary.Endpoint != "" {
		f.Errorf("Peering %s has cluster %q, announcement %+v, prefixes %v", name, s.ClusterID, s.Announcement, s.Prefixes)
	}
}

func TestT7_ARemoteClusterCannotAnnounceTheIDOfAnotherPeering(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		stop := f.lead()
		f.joined()
		f.receive("b", record("web", "10.0.0.5"))
		const imported = "ClusterSetIP web 80/TCP from b: b 10.71.0.5"
		f.untilImported("web", imported)

		_, err := f.Peerings().Apply(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "aa"}, Spec: v1alpha1.PeeringSpec{
			AcceptPrefixes: []v1alpha1.AcceptedCIDR{"10.0.0.0/8"}, Gateway: v1alpha1.GatewaySpec{Replicas: 1}, Peers: []v1alpha1.Peer{{Name: "invite", PublicKey: keyThere}},
		}}, "admin")
		must(t, err)
		f.untilCondition("aa", "Announced", "Unknown NotAnnounced")
		f.announced("aa-0", "b", "10.5.0.0/16")
		f.receive("aa", record("web", "10.5.0.66"))
		f.untilRefused("aa", "b", "b")
		f.untilEvents("Peering", f.peering("aa"), "Warning ClusterIDTaken Announced is False: cluster ID b belongs to Peering b")
		check := func() {
			t.Helper()
			f.pause(2 * time.Minute)
			f.untilRefused("aa", "b", "b")
			f.untilSummary("aa", "0 imported, 1 refused: shop/web: the ID of the remote cluster is not known yet or refused; see the condition Announced of the Peering")
			f.untilSummary("b", "1 imported, 0 refused: ")
			f.untilImported("web", imported)
		}
		check()
		stop() // also for a controller that starts later
		f.lead()
		check()

		must(t, f.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{})) // then the ID is free
		f.untilCondition("aa", "Announced", "True Granted")
		f.untilSummary("aa", "1 imported, 0 refused: ")
	})
}

func TestTheFirstPeeringThatAnnouncesAnIDKeepsIt(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		stop := f.lead()
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.accept("aa", "10.0.0.0/8") // older, and first by its name
		f.pause(2 * time.Second)
		f.accept("b", "10.0.0.0/8")
		f.announced("b-0", "x", "10.1.0.0/16")
		f.untilCondition("b", "Announced", "True Granted")

		f.announced("aa-0", "x", "10.2.0.0/16")
		f.untilCondition("aa", "Announced", "False ClusterIDTaken cluster ID x belongs to Peering b")
		f.peer("x", 1, "10.3.0.0/16") // its spec has the ID, but later
		f.untilCondition("x", "Announced", "False ClusterIDTaken cluster ID x belongs to Peering b")
		f.untilEvents("Peering", f.peering("x"), "Warning ClusterIDTaken")
		stop()
		f.lead()
		f.pause(2 * time.Minute)
		for name, want := range map[string]v1alpha1.ClusterID{"aa": "", "b": "x", "x": ""} {
			if got := f.peering(name).Status.ClusterID; got != want {
				t.Errorf("Peering %s is with cluster %q, want %q", name, got, want)
			}
		}

		f.announced("aa-0", "y", "10.2.0.0/16") // an ID of its own
		f.untilCondition("aa", "Announced", "True Granted")
	})
}

func TestTheIDOfThisClusterIsRefusedAlsoIfThisClusterGetsItLater(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.network(`{"clusterID": "a"}`)
		f.accept("b", "10.0.0.0/8")
		f.announced("b-0", "a", "10.1.0.0/16")
		f.untilCondition("b", "Announced", "False Refused the announcement of the remote cluster is no longer granted: cluster ID a is this cluster's own")
		f.announced("b-0", "x", "10.1.0.0/16")
		f.untilSeen("b", "10.1.0.0/16>10.64.0.0/16 Remapped")
		f.network(`{"clusterID": "x"}`)
		f.untilCondition("b", "Announced", "False Refused the announcement of the remote cluster is no longer granted: cluster ID x is this cluster's own")
		f.untilSeen("b", "NoConflict")
		if s := f.peering("b").Status; s.ClusterID != "" || s.Announcement != nil {
			t.Errorf("the status has cluster %q and announcement %+v", s.ClusterID, s.Announcement)
		}
	})
}

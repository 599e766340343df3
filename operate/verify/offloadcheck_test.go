package verify

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

func TestTheAgentsOfOffloadingAreChecked(t *testing.T) {
	t.Parallel()
	deployment := func(ready int32) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "strait-offload", Name: "strait-lender-b"}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
	}
	running, stopped, none := fakekube.New(deployment(1)), fakekube.New(deployment(0)), fakekube.New()
	restricted, err := client.New(running.ServiceAccount(t, "default", "restricted"))
	if err != nil {
		t.Fatal(err)
	}
	lends := &operator.OffloadReport{Lent: []string{"shop"}, Twins: map[string]int{"Running": 2}}
	for name, c := range map[string]struct {
		client *client.Client
		is     *operator.OffloadReport
		want   string // name, outcome and detail of each check
		remedy string
	}{
		"nothing is offloaded": {client: none.Client(t)},
		"a node that is ready": {client: none.Client(t), is: &operator.OffloadReport{Node: "strait-b", Ready: "True", Pods: map[string]int{"Running": 1, "Pending": 2}},
			want: "virtual node strait-b is ready: passed: pods: 2 Pending, 1 Running"},
		"a silent node": {client: none.Client(t), is: &operator.OffloadReport{Node: "strait-b", Ready: "Unknown"},
			want: "virtual node strait-b is ready: failed: ready is Unknown", remedy: "kubectl logs -n strait-offload deployment/strait-borrower-b"},
		"a node that may not be read": {client: none.Client(t), is: &operator.OffloadReport{Node: "strait-b", Ready: "Missing", Unread: "the account may not read it"},
			want: "virtual node strait-b is ready: skipped: the account may not read it"},
		"a lender": {client: running.Client(t), is: lends, want: "the lender of Peering b runs: passed: pods of the remote cluster: 2 Running"},
		"a lender that does not start": {client: stopped.Client(t), is: lends, want: "the lender of Peering b runs: failed: no pod of it is ready",
			remedy: "kubectl describe pods -n strait-offload"},
		"no lender":                     {client: none.Client(t), is: lends, want: "the lender of Peering b runs: failed: it has no Deployment", remedy: "run strait lend again"},
		"a lender that may not be read": {client: restricted, is: lends, want: "the lender of Peering b runs: skipped: the account may not read it"},
	} {
		report := &operator.Report{ClusterID: "a", Peerings: []operator.PeeringReport{{Name: "b", Offload: c.is}}}
		checks, err := offloadChecks(t.Context(), operator.Cluster{Name: "context a", Client: c.client}, report)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, is := range checks {
			got = append(got, is.What+": "+string(is.Outcome)+": "+is.Detail)
			if is.From != "a" || is.Group != OfPeering || (is.Outcome == Failed) != (is.Cause != "" && is.Remedy != "") || !strings.Contains(is.Remedy, c.remedy) {
				t.Errorf("%s: %+v", name, is)
			}
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

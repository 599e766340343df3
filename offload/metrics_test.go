package offload_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/internal/health"
	"strait.dev/strait/offload/metrics"
	"strait.dev/strait/test/metricspage"
)

// metrics returns the metrics of both agents.
func (j *joined) metrics() string {
	return metricspage.Text(health.NewRegistry(metrics.Borrower("b", &j.borrows), metrics.Lender("a", &j.lends), j.requests))
}

// expectMetrics checks that lines are among the metrics.
func (j *joined) expectMetrics(t *testing.T, when string, lines ...string) {
	t.Helper()
	text := j.metrics()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("%s: no %s in\n%s", when, line, text[strings.Index(text, "# HELP strait_"):])
		}
	}
}

// Of two pods, one runs, and the other has the name of a pod that the provider has already.
func TestMetricsTellWhatRunsAndWhatIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.expectMetrics(t, "without a pod", `strait_borrower_lender_up{peering="b"} 1`, `strait_borrower_pods{peering="b",state="running"} 0`, `strait_lender_borrower_up{peering="a"} 1`,
			`strait_lender_twins{peering="a",state="made"} 0`, `strait_offload_api_requests_total{code="200",peering="b"} `)
		pod := func(name string, uid types.UID, node string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid}, Status: corev1.PodStatus{Phase: corev1.PodPending},
				Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		}
		j.b.Add(pod("db", "u-0", "node-1"))
		j.a.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"strait.dev/offload": "b"}}},
			pod("web", "u-1", "strait-b"), pod("db", "u-2", "strait-b"))
		time.Sleep(time.Minute)
		twin, err := j.b.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		twin.Status.Phase = corev1.PodRunning
		j.b.Add(twin)
		time.Sleep(time.Minute)
		j.expectMetrics(t, "with two pods", `strait_borrower_pods{peering="b",state="running"} 1`, `strait_borrower_pods{peering="b",state="refused"} 1`,
			`strait_lender_twins{peering="a",state="made"} 1`, `strait_lender_twins{peering="a",state="refused"} 1`, `strait_lender_refused_twins{peering="a",reason="NameTaken"} 1`,
			`strait_lender_refused_endpoints{peering="a"} 0`, `strait_offload_waiting_writes{peering="a"} 0`, `strait_offload_waiting_writes{peering="b"} 0`, `strait_lender_requests_total{code="204",peering="a"} `, `strait_lender_list_age_seconds{peering="a"} 1`)
		metricspage.Check(t, "Agents of offloading", j.metrics())

		j.cable.set(true)
		time.Sleep(time.Minute)
		j.expectMetrics(t, "without a link", `strait_borrower_lender_up{peering="b"} 0`, `strait_borrower_lender_silent_seconds{peering="b"} 6`, `strait_lender_borrower_up{peering="a"} 0`,
			`strait_borrower_pods{peering="b",state="running"} 1`)
	})
}

package controller

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/internal/health"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/podaddresses"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/test/metricspage"
)

// observed is a controller that has read one peering with two gateways, one of which runs,
// and a node that reaches both.
func observed(t *testing.T) *controller {
	t.Helper()
	nowhere, err := client.New(&rest.Config{Host: "https://192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{
		networks: nowhere.ClusterNetworks().Cache(""), peerings: nowhere.Peerings().Cache(""),
		attachments: nowhere.NodeAttachments().Cache(""), claims: nowhere.AddressClaims().Cache(""),
		pods: nowhere.Pods("strait-gateways").Cache(""), statefulSets: nowhere.StatefulSets("strait-gateways").Cache(""),
		reports: nowhere.GatewayReports("strait-gateways").Cache(""), gateways: workload.Gateways{Namespace: "strait-gateways"}, published: new(podaddresses.Publisher),
	}
	owner := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{UID: uid, Controller: new(true)}}
	}
	c.state.passes = newPasses()
	for cached, object := range map[cache.SharedIndexInformer]any{
		c.networks: &v1alpha1.ClusterNetwork{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName},
			Spec:       v1alpha1.ClusterNetworkSpec{RemapPools: []v1alpha1.CIDR{"10.64.0.0/12"}},
		},
		c.peerings: &v1alpha1.Peering{
			ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b"},
			Spec:       v1alpha1.PeeringSpec{Gateway: v1alpha1.GatewaySpec{Replicas: 2, KeyGeneration: 3}},
			Status: v1alpha1.PeeringStatus{
				Gateways: []v1alpha1.GatewayStatus{{Name: "b-0", KeyGeneration: 2, KeySince: new(metav1.NewTime(time.Now().Add(-time.Hour)))}, {Name: "b-1"}},
				Services: &v1alpha1.PeeringServicesStatus{Receiver: "b-0", Imported: 7, Refused: 1},
				Conditions: []metav1.Condition{
					{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue},
					{Type: v1alpha1.ConditionCIDRConflict, Status: metav1.ConditionFalse},
					{Type: v1alpha1.ConditionAnnounced, Status: metav1.ConditionUnknown},
				},
			},
		},
		c.attachments: &v1alpha1.NodeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
			Status:     v1alpha1.NodeAttachmentStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}},
		},
		c.claims: &v1alpha1.AddressClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "10.71.0.0-16"},
			Spec:       v1alpha1.AddressClaimSpec{Pool: v1alpha1.PoolRemap, Prefix: "10.71.0.0/16"},
		},
		c.statefulSets: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "strait-gateways", UID: "set", OwnerReferences: owner("b")}},
		c.pods: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "b-0", Namespace: "strait-gateways", OwnerReferences: owner("set"), Labels: map[string]string{appsv1.StatefulSetPodNameLabel: "b-0"}},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		},
	} {
		if err := cached.GetStore().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	c.state.synced.Store(true)
	return c
}

func (c *controller) metrics() string {
	return metricspage.Text(health.NewRegistry(c, c.state.passes.total, c.state.passes.duration))
}

func TestMetricsPageIsComplete(t *testing.T) {
	metricspage.Check(t, "Controller", observed(t).metrics())
}

func TestMetricsTellWhatObjectsSay(t *testing.T) {
	c := observed(t)
	c.state.leads.Store(true)
	now := time.Now()
	c.state.passEnded(now.Add(-time.Second), now, nil)
	c.state.passEnded(now.Add(-time.Second), now, errors.New("something"))
	text := c.metrics()
	for _, line := range []string{
		`strait_controller_leader 1`,
		`strait_controller_passes_total{result="ok"} 1`,
		`strait_controller_passes_total{result="error"} 1`,
		`strait_controller_pass_duration_seconds_sum 2`,
		`strait_peering_condition{condition="Ready",peering="b"} 1`,
		`strait_peering_condition{condition="CIDRConflict",peering="b"} 0`,
		`strait_peering_key_generation{peering="b"} 3`,
		`strait_gateway_ready{gateway="b-0",peering="b"} 1`,
		`strait_gateway_ready{gateway="b-1",peering="b"} 0`,
		`strait_gateway_key_generation{gateway="b-0",peering="b"} 2`,
		`strait_node_attachments{ready="true"} 1`,
		`strait_node_attachments{ready="false"} 0`,
		`strait_pool_addresses{family="ipv4",pool="remap"} 1.048576e+06`,
		`strait_pool_used_addresses{family="ipv4",pool="remap"} 65536`,
		`strait_peering_services{peering="b",state="imported"} 7`,
		`strait_peering_services{peering="b",state="refused"} 1`,
		`strait_peering_services_synced{peering="b"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	age := regexp.MustCompile(`\nstrait_gateway_key_age_seconds\{gateway="b-0",peering="b"\} 36\d\d[.\n]`)
	if !age.MatchString(text) {
		t.Error("the age of the key is missing")
	}
	for _, none := range []string{`condition="Announced"`, `strait_gateway_key_generation{gateway="b-1"`, `strait_gateway_key_age_seconds{gateway="b-1"`} {
		if strings.Contains(text, none) {
			t.Errorf("%s is served, but it is not known", none)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestExportsOfAClusterAreSyncedWhenTheReceiverHasAll(t *testing.T) {
	c := observed(t)
	p, _ := c.peerings.Get("b")
	synced := func() string {
		for line := range strings.Lines(c.metrics()) {
			if value, ok := strings.CutPrefix(line, `strait_peering_services_synced{peering="b"} `); ok {
				return strings.TrimSpace(value)
			}
		}
		return "absent"
	}
	for _, step := range []struct {
		received *v1alpha1.ServicesReport
		want     string
	}{
		{nil, "0"},
		{&v1alpha1.ServicesReport{Synced: true}, "0"}, // from a gateway that is gone
		{&v1alpha1.ServicesReport{From: "a-0"}, "0"},
		{&v1alpha1.ServicesReport{From: "a-0", Synced: true}, "1"},
	} {
		report := &v1alpha1.GatewayReport{ObjectMeta: metav1.ObjectMeta{Name: "b-0", Namespace: "strait-gateways"}, Status: v1alpha1.GatewayReportStatus{Services: step.received}}
		if err := c.reports.GetStore().Update(report); err != nil {
			t.Fatal(err)
		}
		if got := synced(); got != step.want {
			t.Errorf("with %+v: %s, want %s", step.received, got, step.want)
		}
	}
	p.Status.Services.Receiver = ""
	if got := synced(); got != "0" {
		t.Errorf("without a receiver: %s", got)
	}
	p.Spec.Services.ImportFrom = v1alpha1.ImportNone
	if got := synced(); got != "absent" {
		t.Errorf("of a Peering that imports nothing: %s", got)
	}
}

// Metrics of unknown state are absent instead of zero.
func TestBeforeObjectsWereReadTheirMetricsAreAbsent(t *testing.T) {
	c := observed(t)
	c.state.synced.Store(false)
	if text := c.metrics(); strings.Contains(text, "strait_peering") || !strings.Contains(text, "\nstrait_controller_leader 0\n") {
		t.Error(text)
	}
}

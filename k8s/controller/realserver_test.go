//go:build apiserver

package controller_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/test/kube"
)

// The defaults of a ClusterNetwork belong to no field manager, so that anyone may set them.
func TestWhatCannotBeDetectedIsToldNotGuessed(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.node("node-1", "192.0.2.21", "") // its CNI keeps the ranges of pods to itself
	f.peer("b", 1, "10.0.0.0/16")
	f.lead()
	f.until("ClusterNetwork", func() string {
		is, err := f.ClusterNetworks().Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(is.Status.Conditions, v1alpha1.ConditionDetected)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "set spec.podCIDRs of ClusterNetwork default") {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	f.untilSeen("b", "ClusterNetworkNotReady")
	f.untilClaims()

	f.network(`{"podCIDRs": ["10.0.0.0/16"], "remapPools": ["10.71.0.0/16"]}`)
	f.untilSeen("b", "10.0.0.0/16>10.71.0.0/16 Remapped")
}

func TestWhatTheInstallationMayNotSayIsReportedAndChangesNothing(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	stop := f.install("{clusterID: a, podCIDRs: [10.0.0.0/16], serviceCIDRs: [10.96.0.0/16]}")
	f.untilNetwork("a[10.0.0.0/16][10.70.0.0/16]0 Configured")
	stop()
	f.install("{clusterID: b, podCIDRs: [10.0.0.0/16], serviceCIDRs: [10.96.0.0/16]}")
	network := f.untilNetwork("a[10.0.0.0/16][10.70.0.0/16]0 CannotAllocate")
	message := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionReady).Message
	for _, part := range []string{"other clusters know this cluster by it", "correct it in the chart's values"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q does not say %q", message, part)
		}
	}
}

// An accepted announcement must fit into a status: otherwise the API server would reject
// the whole status.
func TestTheLargestAnnouncementFits(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.accept("b", "10.0.0.0/8", "fd00::/16")
	a := announces("b").Announcement
	a.Gateways = nil
	for i := range 64 {
		a.Prefixes = append(a.Prefixes, v1alpha1.CIDR(fmt.Sprintf("fd00:1:%x:ffff:ffff:ffff:ffff:fff0/124", i)))
		a.ExternalPrefixes = append(a.ExternalPrefixes, v1alpha1.CIDR(fmt.Sprintf("10.%d.0.0/16", i)))
	}
	for i := range 16 {
		g := v1alpha1.AnnouncedGateway{Name: fmt.Sprintf("%s%02d", strings.Repeat("a", 61), i)}
		for j := range 2 {
			g.PublicKeys = append(g.PublicKeys, v1alpha1.PublicKey(config.Key{9, byte(i), byte(j)}.String()))
		}
		for j := range 8 {
			long := strings.Repeat("a.b-c.", 40) + "."
			if i > 3 {
				long = "" // all endpoints together have a limit, too
			}
			g.Endpoints = append(g.Endpoints, v1alpha1.Endpoint(fmt.Sprintf("%sx%d-Y:6553%d", long, j, j%6)))
		}
		a.Gateways = append(a.Gateways, g)
	}
	a.Gateways[0].Endpoints = []v1alpha1.Endpoint{"[2001:DB8::1]:1", "1.example:2", "a..b:3", "[fd00::1]:4"}
	if err := peering.Refusal(f.peering("b"), peering.HoldersOf("a", nil), a); err != nil {
		t.Fatal(err)
	}
	f.lead()
	f.say("b-0", v1alpha1.GatewayReportStatus{Announcement: a})
	f.untilCondition("b", "Announced", "True Granted")
}

func TestAPeeringBecomesReadyStepByStep(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	f.lead()
	f.accept("b", "10.1.0.0/16")
	f.untilCondition("b", "Ready", "False NoGatewayReady gateway b-0 has no pod yet")
	f.runGateway("b-0", corev1.ConditionTrue)
	f.untilCondition("b", "Ready", "False NoHandshake no gateway of the remote cluster has answered yet; check that UDP passes to gw.example:51840")
	up := links(1500 * time.Microsecond)
	f.say("b-0", up)
	f.untilCondition("b", "TunnelUp", "True LinkUp 1 link is up")
	f.untilCondition("b", "PathMTU", "True FullSize packets of 1400 bytes pass")
	f.untilCondition("b", "Ready", "False NoRanges")
	up.Announcement = announces("cluster-b", "10.1.0.0/16").Announcement
	f.say("b-0", up)
	f.untilCondition("b", "Ready", "False NoNode 0 of 1 nodes send to a gateway that is up; node-1: its node helper has not reported this gateway yet")
	f.confirm("node-1", true)
	f.untilCondition("b", "Ready", "True Healthy packets pass: 1 link is up; 1 of 1 nodes send to a gateway that is up")
	f.untilRow("b", "b", "True", "gw.example:51840", "10.1.0.0/16", "10.64.0.0/16", "1400")
	f.untilEvents("Peering", f.peering("b"), "Normal LinkUp TunnelUp is True: 1 link is up", "Normal Healthy Ready is True: packets pass: 1 link is up; 1 of 1 nodes send to a gateway that is up")

	f.confirm("node-1", false)
	f.untilCondition("b", "Ready", "False NoNode 0 of 1 nodes send to a gateway that is up; node-1: no answer")
	f.confirm("node-1", true)
	up.Links[0].Up = false
	f.say("b-0", up)
	f.untilCondition("b", "Ready", "False Lost no gateway of the remote cluster has answered since 2")
	f.untilRow("b", "b", "False", "gw.example:51840", "10.1.0.0/16", "10.64.0.0/16", "1400")
	f.untilEvents("Peering", f.peering("b"), "Warning NoNode Ready is False: ", "Warning Lost TunnelUp is False: no gateway of the remote cluster has answered since ")
}

func TestTheServiceOfAGatewayChangesItsType(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.lead()
	last := ""
	for _, c := range []struct {
		service v1alpha1.GatewayService
		want    string
	}{
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeClusterIP}, "ClusterIP 51840"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort}, "NodePort 51840 any"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort, NodePort: new(int32(30100))}, "NodePort 51840 30100"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort, NodePort: new(int32(30110)), Port: 51841}, "NodePort 51841 30110"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]string{"example.com/pool": "edge"}}, "LoadBalancer 51840 any edge"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeClusterIP}, "ClusterIP 51840"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("example.com/lb")}, "LoadBalancer 51840 any example.com/lb"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort}, "NodePort 51840 any"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeClusterIP, Port: 9}, "ClusterIP 9"},
	} {
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 2, Service: c.service})
		for ordinal := range 2 {
			f.until(fmt.Sprintf("gateway %d, %s after %s", ordinal, c.want, last), func() string {
				service, err := f.Services(gateways).Get(t.Context(), fmt.Sprintf("b-%d", ordinal), metav1.GetOptions{})
				if err != nil {
					return err.Error()
				}
				port := service.Spec.Ports[0]
				got := fmt.Sprintf("%s %d", service.Spec.Type, port.Port)
				switch {
				case port.NodePort >= 30100 && port.NodePort < 30120 && c.service.NodePort != nil:
					got += fmt.Sprintf(" %d", port.NodePort-int32(ordinal))
				case port.NodePort != 0:
					got += " any"
				}
				if pool := service.Annotations["example.com/pool"]; pool != "" {
					got += " " + pool
				}
				if service.Spec.LoadBalancerClass != nil {
					got += " " + *service.Spec.LoadBalancerClass
				}
				if got != c.want || len(service.Spec.Ports) != 1 {
					return got
				}
				return ""
			})
		}
		last = c.want
	}
}

func TestNothingIsWrittenWhileNothingChanges(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	config, seen := recorded(f.cluster.Admin())
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	f.start(config, "default", "first")
	f.asks("b", v1alpha1.GatewaySpec{Replicas: 2})
	f.untilWorkloads("set/b x2 service/b-0 service/b-1 policy/b budget/b secret/b-0-key-1 1.key secret/b-1-key-1 1.key")
	passes := 0
	pass := func() { // a pass that is caused by the write of another manager
		t.Helper()
		passes++
		before := seen.count("GET", "/configmaps/kubeadm-config")
		kube.EditStatus(t, f.Services(gateways), "b-0", func(service *corev1.Service) {
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: fmt.Sprintf("lb-%d.example", passes)}}
		})
		f.until("a pass", func() string {
			if seen.count("GET", "/configmaps/kubeadm-config") == before {
				return "none"
			}
			return ""
		})
	}
	f.asks("b", v1alpha1.GatewaySpec{Replicas: 2, Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer}})
	f.until("load balancers", func() string {
		service, err := f.Services(gateways).Get(t.Context(), "b-1", metav1.GetOptions{})
		must(t, err)
		return strings.TrimPrefix(string(service.Spec.Type), "LoadBalancer")
	})
	pass()
	pass()
	before := seen.writes()
	for range 3 {
		pass()
	}
	if after := seen.writes(); len(after) != len(before) {
		t.Errorf("it wrote %q", after[len(before):])
	}
}

func TestOnePeeringsTroubleIsNotAnothers(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.lead()
	nodePort := func(port int32) v1alpha1.GatewaySpec {
		return v1alpha1.GatewaySpec{Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort, NodePort: &port}}
	}
	f.asks("b", nodePort(30150))
	f.untilWorkloads("set/b x1 service/b-0 policy/b secret/b-0-key-1 1.key")
	f.asks("c", nodePort(30150))
	f.asks("d", nodePort(30151))
	f.untilWorkloads("set/b x1 set/c x1 set/d x1 service/b-0 service/d-0 policy/b policy/c policy/d secret/b-0-key-1 1.key secret/c-0-key-1 1.key secret/d-0-key-1 1.key")
	f.until("a remedy", func() string {
		if !f.logged("Service strait-gateways/c-0") || !f.logged("choose another spec.gateway.service.nodePort, or remove it") {
			return "none is logged"
		}
		return ""
	})
	f.asks("c", nodePort(30152))
	f.until("the Service of c", func() string {
		_, err := f.Services(gateways).Get(t.Context(), "c-0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return err.Error()
		}
		must(t, err)
		return ""
	})
}

func TestGatewaysWaitForTheirNamespace(t *testing.T) {
	cluster := kube.Start(t)
	f := newFixture(t, cluster)
	ctx := t.Context()
	must(t, cluster.Kubernetes().CoreV1().Namespaces().Delete(ctx, gateways, metav1.DeleteOptions{})) // without a namespace controller it stays terminating
	f.asks("b", v1alpha1.GatewaySpec{})
	f.lead()
	f.until("a remedy", func() string {
		if !f.logged("create namespace strait-gateways") {
			return "none is logged"
		}
		return ""
	})
}

func TestAPeeringKeepsItsViewWhileARealServerRestarts(t *testing.T) {
	cluster := kube.Start(t)
	newFixture(t, cluster).keepsViews(func() {
		cluster.StopServer(t)
		cluster.StartServer(t)
	})
}

func TestAControllerPausesWithoutTheLeaseAndGoesOnWithIt(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.lead()
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]")

	f.hold("another")
	f.until("the controller waits", func() string {
		if !f.logged("waiting for the lease") {
			return "it does not say so"
		}
		return ""
	})
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n", "/metrics": "\nstrait_controller_leader 0\n"} {
		if got := f.get("first", path); !strings.Contains(got, want) {
			t.Errorf("%s of a controller that waits: %q, want %q", path, got, want)
		}
	}
	f.node("node-2", "192.0.2.22", "10.0.1.0/24")
	released := f.hold("")
	f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]", "node-2 2 [10.80.0.2] [10.70.0.2]")
	second, err := f.NodeAttachments().Get(t.Context(), "node-2", metav1.GetOptions{})
	must(t, err)
	if order, err := resourceversion.CompareResourceVersion(second.ResourceVersion, released); err != nil || order <= 0 {
		t.Errorf("node-2 was attached while another held the lease: at %s, which was released at %s (%v)", second.ResourceVersion, released, err)
	}
}

func TestF17_T19_TwoControllersAtOnceDoNoHarmToARealServer(t *testing.T) {
	newFixture(t, kube.Shared(t)).twoControllers()
}

// untilRow waits until `kubectl get peerings` prints these columns; ? is any digit.
func (f *fixture) untilRow(name string, want ...string) {
	f.Helper()
	f.until("the row of Peering "+name, func() string {
		got := f.row(name)
		if len(got) < len(want) {
			return fmt.Sprintf("%q", got)
		}
		for i, column := range want {
			if !matches(got[i], column) {
				return fmt.Sprintf("%q, want %q", got, want)
			}
		}
		return ""
	})
}

func matches(got, want string) bool {
	for i := range want {
		if i >= len(got) || want[i] != got[i] && want[i] != '?' {
			return false
		}
	}
	return len(got) == len(want)
}

// row is what the API server has kubectl print.
func (f *fixture) row(name string) (columns []string) {
	f.Helper()
	text, err := f.cluster.Kubernetes().CoreV1().RESTClient().Get().AbsPath("/apis/strait.dev/v1alpha1/peerings/"+name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(f.Context()).Raw()
	must(f.T, err)
	var table metav1.Table
	must(f.T, json.Unmarshal(text, &table))
	var names []string
	for i, cell := range table.Rows[0].Cells {
		if table.ColumnDefinitions[i].Priority == 0 {
			names = append(names, table.ColumnDefinitions[i].Name)
			if cell == nil {
				cell = ""
			}
			columns = append(columns, fmt.Sprint(cell))
		}
	}
	if want := []string{"Name", "READY", "ENDPOINT", "REMOTE-CIDR", "SEEN-AS", "MTU", "AGE"}; !slices.Equal(names, want) {
		f.Fatalf("columns %q, want %q", names, want)
	}
	return columns
}

// While an update waits for another peering, the controller applies the template that the
// API server has, with its defaults.
func TestAWaitingStatefulSetKeepsItsTemplate(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	stop := f.runs(nil, "v1")
	set := func(name string) *appsv1.StatefulSet {
		is, err := f.StatefulSets(gateways).Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return new(appsv1.StatefulSet)
		}
		must(t, err)
		return is
	}
	for _, name := range []string{"b", "c"} {
		f.asks(name, v1alpha1.GatewaySpec{})
		f.until("StatefulSet "+name, func() string { return map[bool]string{true: "missing"}[set(name).Name == ""] })
		f.runGateway(name+"-0", corev1.ConditionTrue)
		f.say(name+"-0", v1alpha1.GatewayReportStatus{Links: []v1alpha1.LinkStatus{{Remote: "a-0", Up: true, LastHandshake: &metav1.Time{Time: time.Now().Add(time.Minute)}}}})
		f.untilCondition(name, v1alpha1.ConditionTunnelUp, "True LinkUp")
	}
	before := set("c")
	f.runs(stop, "v2")
	f.untilCondition("c", v1alpha1.ConditionGatewaysUpdated, "False Waiting the gateways are updated when those of Peering b are")
	f.asks("c", v1alpha1.GatewaySpec{Replicas: 2})
	f.until("two replicas", func() string { return map[bool]string{true: "still one"}[*set("c").Spec.Replicas == 1] })
	if now := set("c"); !reflect.DeepEqual(now.Spec.Template, before.Spec.Template) || now.Annotations["strait.dev/rollout"] != before.Annotations["strait.dev/rollout"] {
		t.Errorf("the waiting StatefulSet became %+v", now)
	}
	if image := set("b").Spec.Template.Spec.Containers[0].Image; image != "registry.example/strait:v2" {
		t.Errorf("the first has image %s", image)
	}
}

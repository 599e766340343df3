//go:build nightly

package gateway

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

// hostileTime is the environment variable with the duration of the attack.
const hostileTime = "STRAIT_HOSTILE_TIME"

// What a hostile cluster may cost this one, as docs/explanation/services.md states.
const (
	controllerBound = 128 << 20
	etcdAtOnce      = 48 << 20  // after everything was written once
	etcdPerSecond   = 512 << 10 // until the API server compacts, which it does every 5 minutes
	otherPeering    = 2 * time.Second
)

func TestT10_T12_AHostileClusterAtFullSpeedCostsABudget(t *testing.T) {
	span := 10 * time.Minute
	if text := os.Getenv(hostileTime); text != "" {
		var err error
		span, err = time.ParseDuration(text)
		must(t, err)
	}
	api := kube.Start(t)
	api.InstallCRDs(t, crds.Files)
	api.InstallCRDs(t, fstest.MapFS{"exports.yaml": {Data: mcscrds.ServiceExportCRD}, "imports.yaml": {Data: mcscrds.ServiceImportCRD}})
	admin, err := client.New(api.Admin())
	must(t, err)
	for _, namespace := range []string{"strait-gateways", "shop"} {
		must(t, api.Namespace(t.Context(), namespace))
	}
	dir, err := os.MkdirTemp("", "strait-hostile-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	account := api.ServiceAccount(t, "strait-system", "strait-controller")
	api.Grant(t, rbac.Controller, "strait-system", "strait-controller")
	access := program.Kubeconfig(t, dir, "controller", account)
	_, err = admin.ClusterNetworks().Apply(t.Context(), &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}, Spec: v1alpha1.ClusterNetworkSpec{
		ClusterID: "near", ExternalCIDRs: []v1alpha1.CIDR{}, RemapPools: []v1alpha1.CIDR{"10.64.0.0/10"}, PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}, ServiceCIDRs: []v1alpha1.CIDR{"10.96.0.0/16"},
	}}, "admin")
	must(t, err)
	for name, cidr := range map[string]v1alpha1.CIDR{"bad": "172.20.0.0/16", "good": "172.21.0.0/16"} {
		_, err = admin.Peerings().Apply(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeeringSpec{
			ClusterID: v1alpha1.ClusterID(name), Prefixes: v1alpha1.RemotePrefixes{{CIDR: cidr}}, Gateway: v1alpha1.GatewaySpec{Replicas: 1},
		}}, "admin")
		must(t, err)
	}
	controller := program.Start(t, "the controller", nil, program.Unprivileged, nil, "controller", "--kubeconfig", access, "--namespace", "strait-system", "--identity", "controller-0", "--gateway-image", "strait.test/strait:test")
	api.ServiceAccount(t, "strait-gateways", "default")
	gatewayUp(t, admin, "bad")
	gatewayUp(t, admin, "good")

	exports := control.NewExports(control.ExportsOptions{Stale: func() bool { return false }, Stored: func(time.Duration) {}})
	must(t, exports.Replace(nil))
	receive(t, admin, "good", func(l net.Listener) {
		identify := func(net.Conn) (control.Link, bool) { return control.Link{Name: "a-0"}, true }
		_ = control.Serve(l, identify, func(control.Link, control.Announcement) error { return nil }, exports, slog.New(slog.DiscardHandler))
	})
	watching, err := admin.EndpointSlices("shop").Watch(t.Context(), metav1.ListOptions{LabelSelector: services.ImportLabel})
	must(t, err)
	t.Cleanup(watching.Stop)
	changeOne(t, exports, watching.ResultChan(), 0)
	before, memory := api.Stored(t), controller.PeakMemory(t)
	t.Logf("before: etcd %d MiB, controller %d MiB", before>>20, memory>>20)

	attack := newHostileExports(2500, 400) // a page has no room for more
	bad, _ := receive(t, admin, "bad", func(l net.Listener) { _ = http.Serve(l, attack) })
	begun := time.Now()
	var latencies []time.Duration
	for n := 1; time.Since(begun) < span; n++ {
		latencies = append(latencies, changeOne(t, exports, watching.ResultChan(), n))
		time.Sleep(500 * time.Millisecond)
	}
	slices.Sort(latencies)
	p50, p99 := latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	grown, memory := api.Stored(t)-before, controller.PeakMemory(t)
	requests, sent := attack.numbers()
	report := bad.report()
	t.Logf("%v: the hostile cluster sent %d pages with %d MiB; %+v; etcd grew by %.1f MiB; the controller used %.1f MiB at its peak, its log has %d lines; %d changes of the other Peering took %v (p50), %v (p99), %v (longest)",
		span, requests, sent>>20, *report, float64(grown)/(1<<20), float64(memory)/(1<<20), strings.Count(controller.Log(), "\n"), len(latencies),
		p50.Round(time.Millisecond), p99.Round(time.Millisecond), latencies[len(latencies)-1].Round(time.Millisecond))
	if most := int64(etcdAtOnce) + etcdPerSecond*int64(min(span, 10*time.Minute)/time.Second); grown > most {
		t.Errorf("etcd grew by %d MiB, want at most %d", grown>>20, most>>20)
	}
	if memory > controllerBound {
		t.Errorf("the controller used %d MiB, want at most %d", memory>>20, controllerBound>>20)
	}
	if p99 > otherPeering {
		t.Errorf("99 %% of the changes of the other Peering took up to %v, want %v", p99, otherPeering)
	}
	if lines := strings.Count(controller.Log(), "\n"); lines > 200 {
		t.Errorf("the log of the controller has %d lines", lines)
	}
	if report.Received < 100 || requests < 3 {
		t.Errorf("the attack did too little: %d requests, %+v", requests, report)
	}
}

// changeOne changes a Service of the honest cluster, and returns how long it takes until its
// EndpointSlice has the change.
func changeOne(t *testing.T, exports *control.Exports, seen <-chan watch.Event, n int) time.Duration {
	t.Helper()
	name, address := fmt.Sprint("honest-", n%20), fmt.Sprintf("172.21.%d.%d", n/250, 1+n%250)
	text := fmt.Sprintf(`{"namespace":"shop","name":%q,"exportedAt":"2026-01-01T00:00:00Z","type":"ClusterSetIP","ports":[{"name":"web","protocol":"TCP","port":80}],"sessionAffinity":"None","ipFamilies":["IPv4"],`+
		`"endpoints":[{"addressType":"IPv4","ports":[{"name":"web","protocol":"TCP","port":80}],"endpoints":[{"address":%q,"ready":true,"serving":true}]}]}`, name, address)
	begun := time.Now()
	must(t, exports.Put(control.ServiceRecord{Key: control.ServiceKey{Namespace: "shop", Name: name}, JSON: []byte(text)}))
	deadline := time.After(time.Minute)
	for {
		select {
		case event := <-seen:
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if ok && slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Addresses[0] == address }) {
				return time.Since(begun)
			}
		case <-deadline:
			t.Fatalf("change %d is not imported within a minute", n)
		}
	}
}

//go:build nightly

package scale

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

// The size of a remote cluster whose Services are imported, and the bounds.
const (
	importedServices    = 2000
	importedEndpoints   = 25 // of each
	importedNamespaces  = 20
	endpointChanges     = 200
	controllerMemory    = 200 << 20
	firstImport         = time.Minute
	changePercentile99  = 2 * time.Second
	writesOfEachChange  = 1
	concurrentCreations = 8
)

func TestTheControllerImportsThousandsOfServices(t *testing.T) {
	api := kube.StartAudited(t)
	api.InstallCRDs(t, crds.Files)
	api.InstallCRDs(t, fstest.MapFS{"exports.yaml": {Data: mcscrds.ServiceExportCRD}, "imports.yaml": {Data: mcscrds.ServiceImportCRD}})
	admin, err := client.New(api.Admin())
	must(t, err)
	must(t, api.Namespace(t.Context(), gatewayNamespace))
	dir, err := os.MkdirTemp("", "strait-services-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	account := api.ServiceAccount(t, systemNamespace, "strait-controller")
	api.Grant(t, rbac.Controller, systemNamespace, "strait-controller")
	access := program.Kubeconfig(t, dir, "controller", account)
	_, err = admin.ClusterNetworks().Apply(t.Context(), &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}, Spec: v1alpha1.ClusterNetworkSpec{
		ClusterID: "near", ExternalCIDRs: []v1alpha1.CIDR{}, RemapPools: []v1alpha1.CIDR{"10.64.0.0/10"}, PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}, ServiceCIDRs: []v1alpha1.CIDR{"10.96.0.0/16"},
	}}, "admin")
	must(t, err)
	peering, err := admin.Peerings().Apply(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{
		ClusterID: "b", Prefixes: v1alpha1.RemotePrefixes{{CIDR: "172.20.0.0/16"}}, Gateway: v1alpha1.GatewaySpec{Replicas: 1},
	}}, "admin")
	must(t, err)
	for i := range importedNamespaces {
		must(t, api.Namespace(t.Context(), namespaceOf(i)))
	}
	received := make([]*v1alpha1.ReceivedService, importedServices)
	parallel(importedServices, func(i int) {
		received[i], err = admin.ReceivedServices(gatewayNamespace).Create(t.Context(), receivedService(peering, i), metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}

	begun := time.Now()
	controller := watched{"controller", "system:serviceaccount:" + systemNamespace + ":strait-controller",
		program.Start(t, "the controller", nil, program.Unprivileged, nil, "controller", "--kubeconfig", access, "--namespace", systemNamespace, "--identity", "controller-0",
			"--gateway-image", "strait.test/strait:test")}
	linkUp(t, api, admin)
	within(t, 10*time.Minute, "all Services are imported", func() error {
		// A list of one object has the number of all others.
		some, err := admin.EndpointSlices("").List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		imports, err := admin.ServiceImports("").List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		for _, left := range []*int64{some.RemainingItemCount, imports.RemainingItemCount} {
			if left == nil || *left < importedServices-1 {
				return fmt.Errorf("%d EndpointSlices", len(some.Items))
			}
		}
		return nil
	})
	took := time.Since(begun)
	time.Sleep(20 * time.Second) // until all statuses are written
	first := controller.usage(t)
	before := api.Requests(t)
	latencies := change(t, admin, received)
	time.Sleep(15 * time.Second)
	writes := 0
	for of, n := range api.Requests(t) {
		if of.User == controller.user && slices.Contains([]string{"create", "update", "patch", "delete"}, of.Verb) && of.Resource != "leases" && of.Resource != "secrets" { // of every pass
			if n -= before[of]; n > 0 {
				writes += n
				t.Logf("%d × %s %s", n, of.Verb, of.Resource)
			}
		}
	}
	slices.Sort(latencies)
	p99 := latencies[len(latencies)*99/100]
	last := controller.usage(t)
	t.Logf("%d Services with %d endpoints: imported after %v; a change is in its EndpointSlice after %v (p50), %v (p99); %d writes for %d changes; peak memory %.1f MiB, after the import %.1f MiB; %.1f CPU-seconds of the controller",
		importedServices, importedServices*importedEndpoints, took.Round(100*time.Millisecond), latencies[len(latencies)/2].Round(time.Millisecond), p99.Round(time.Millisecond),
		writes, endpointChanges, inMiB(last.peak), inMiB(first.resident), last.cpu.Seconds())
	if last.peak > controllerMemory {
		t.Errorf("the controller used %.1f MiB, want at most %d", inMiB(last.peak), controllerMemory>>20)
	}
	if took > firstImport {
		t.Errorf("the first import took %v, want at most %v", took, firstImport)
	}
	if p99 > changePercentile99 {
		t.Errorf("99 %% of changes took up to %v, want at most %v", p99, changePercentile99)
	}
	if writes > writesOfEachChange*endpointChanges {
		t.Errorf("%d writes for %d changes", writes, endpointChanges)
	}
}

func namespaceOf(i int) string { return fmt.Sprintf("n%d", i%importedNamespaces) }

// parallel calls do for each number below n.
func parallel(n int, do func(int)) {
	var working sync.WaitGroup
	for worker := range concurrentCreations {
		working.Go(func() {
			for i := worker; i < n; i += concurrentCreations {
				do(i)
			}
		})
	}
	working.Wait()
}

func receivedService(peering *v1alpha1.Peering, i int) *v1alpha1.ReceivedService {
	name, namespace := fmt.Sprintf("s%d", i), namespaceOf(i)
	port := v1alpha1.ServiceRecordPort{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80}
	of := v1alpha1.ServiceRecordEndpoints{AddressType: discoveryv1.AddressTypeIPv4, Ports: []v1alpha1.ServiceRecordPort{port}}
	for j := range importedEndpoints {
		n := i*importedEndpoints + j
		of.Endpoints = append(of.Endpoints, v1alpha1.ServiceRecordEndpoint{Address: fmt.Sprintf("172.20.%d.%d", n/250, 1+n%250), Zone: fmt.Sprintf("zone-%d", j%3), Ready: true, Serving: true})
	}
	return &v1alpha1.ReceivedService{
		ObjectMeta: metav1.ObjectMeta{Name: name + "." + namespace + ".b", Namespace: gatewayNamespace, Labels: map[string]string{"strait.dev/peering": "b"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Peering", Name: peering.Name, UID: peering.UID}}},
		Spec: v1alpha1.ReceivedServiceSpec{Peering: "b", Service: v1alpha1.ServiceRecord{
			Namespace: namespace, Name: name, ExportedAt: metav1.Unix(1_000_000_000, 0), Type: v1alpha1.ServiceRecordClusterSetIP,
			Ports: []v1alpha1.ServiceRecordPort{port}, SessionAffinity: corev1.ServiceAffinityNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Endpoints: []v1alpha1.ServiceRecordEndpoints{of},
		}},
	}
}

// linkUp creates the pod of the only gateway and its report of a link that is up.
func linkUp(t *testing.T, api *kube.Cluster, admin *client.Client) {
	t.Helper()
	api.ServiceAccount(t, gatewayNamespace, "default")
	var set *appsv1.StatefulSet
	within(t, time.Minute, "the StatefulSet of the gateways", func() (err error) {
		set, err = admin.StatefulSets(gatewayNamespace).Get(t.Context(), "b", metav1.GetOptions{})
		return err
	})
	pod, err := admin.Pods(gatewayNamespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "b-0", Labels: map[string]string{"strait.dev/peering": "b"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}},
		Spec: corev1.PodSpec{NodeName: "node-1", AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "gateway", Image: "i"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.9"}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	pod, err = admin.Pods(gatewayNamespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(t, err)
	_, err = admin.GatewayReports(gatewayNamespace).Create(t.Context(), &v1alpha1.GatewayReport{
		ObjectMeta: metav1.ObjectMeta{Name: "b-0", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}},
		Status:     v1alpha1.GatewayReportStatus{Peering: "b", Links: []v1alpha1.LinkStatus{{Remote: "a-0", Up: true}}},
	}, metav1.CreateOptions{})
	must(t, err)
}

// change replaces one endpoint each of some Services, and returns how long each takes until
// it is in an EndpointSlice.
func change(t *testing.T, admin *client.Client, received []*v1alpha1.ReceivedService) (latencies []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan string, 100)
	watching, err := admin.EndpointSlices("").Watch(ctx, metav1.ListOptions{LabelSelector: services.ImportLabel})
	must(t, err)
	go func() {
		for event := range watching.ResultChan() {
			if slice, ok := event.Object.(*discoveryv1.EndpointSlice); ok {
				for _, e := range slice.Endpoints {
					seen <- e.Addresses[0]
				}
			}
		}
	}()
	defer watching.Stop()
	for n := range endpointChanges {
		r := received[n*7%len(received)]
		address := fmt.Sprintf("172.20.%d.%d", 201+n/250, 1+n%250)
		r.Spec.Service.Endpoints[0].Endpoints[n%importedEndpoints].Address = address
		begun := time.Now()
		_, err := admin.ReceivedServices(gatewayNamespace).Update(t.Context(), r, metav1.UpdateOptions{})
		must(t, err)
		for got := range seen {
			if got == address { // the mapped CIDR is the same
				break
			}
		}
		latencies = append(latencies, time.Since(begun))
	}
	return latencies
}

//go:build nightly

package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"

	"strait.dev/strait/config"
	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/k8s/services/merge"
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
	before, memory := etcdSize(t, api), peakMemory(t, controller)
	t.Logf("before: etcd %d MiB, controller %d MiB", before>>20, memory>>20)

	attack := newHostileExports()
	bad := receive(t, admin, "bad", func(l net.Listener) { _ = http.Serve(l, attack) })
	begun := time.Now()
	var latencies []time.Duration
	for n := 1; time.Since(begun) < span; n++ {
		latencies = append(latencies, changeOne(t, exports, watching.ResultChan(), n))
		time.Sleep(500 * time.Millisecond)
	}
	slices.Sort(latencies)
	p50, p99 := latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	grown, memory := etcdSize(t, api)-before, peakMemory(t, controller)
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

// gatewayUp creates the pod of a gateway and its report of a link that is up.
func gatewayUp(t *testing.T, admin *client.Client, name string) {
	t.Helper()
	var set *appsv1.StatefulSet
	kube.Until(t, "the StatefulSet of "+name, func() string {
		var err error
		if set, err = admin.StatefulSets("strait-gateways").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	pod, err := admin.Pods("strait-gateways").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-0", Labels: map[string]string{peering.Label: name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}},
		Spec: corev1.PodSpec{NodeName: "node-1", AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "gateway", Image: "i"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.9"}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	pod, err = admin.Pods("strait-gateways").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(t, err)
	_, err = admin.GatewayReports("strait-gateways").Create(t.Context(), &v1alpha1.GatewayReport{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-0", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}},
		Status:     v1alpha1.GatewayReportStatus{Peering: name, Links: []v1alpha1.LinkStatus{{Remote: "a-0", Up: true}}},
	}, metav1.CreateOptions{})
	must(t, err)
}

// receive runs the receiver of a Peering, to which a far end sends its exports.
func receive(t *testing.T, admin *client.Client, name string, serve func(net.Listener)) *receiver {
	t.Helper()
	l := &wire{arriving: make(chan net.Conn), closed: make(chan struct{})}
	link := control.Link{Name: "a-0", Gateway: "a-0", OwnKey: config.Key{31: 1}, RemoteKey: config.Key{31: 2}}
	log := slog.New(slog.NewTextHandler(t.Output(), nil)).With("peering", name)
	r := &receiver{
		options: &Options{Peering: name, Namespace: "strait-gateways", Name: name + "-0"}, client: admin, metrics: newMetrics(), log: log, changed: make(chan struct{}, 1),
		importer: control.ImporterOptions{
			Up: func() []control.Link { return []control.Link{link} },
			Dial: func(ctx context.Context, _ control.Link) (net.Conn, error) {
				near, far := net.Pipe()
				select {
				case l.arriving <- far:
					return near, nil
				case <-l.closed:
				case <-ctx.Done():
				}
				return nil, net.ErrClosed
			},
			Jitter: func() float64 { return 0 }, Log: log,
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { serve(l) })
	running.Go(func() { r.run(ctx) })
	t.Cleanup(func() { cancel(); l.Close(); running.Wait() })
	kube.Until(t, "Peering "+name+" has a receiver", func() string {
		p, err := admin.Peerings().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || p.Status.Services == nil || p.Status.Services.Receiver == "" || len(p.Status.Prefixes) == 0 {
			return fmt.Sprint("not yet: ", err)
		}
		r.follow(p, time.Now())
		return ""
	})
	return r
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

// etcdSize returns the size of the database in bytes, as the API server measures it.
func etcdSize(t *testing.T, api *kube.Cluster) int64 {
	t.Helper()
	c, err := kubernetes.NewForConfig(api.Admin())
	must(t, err)
	text, err := c.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	found := regexp.MustCompile(`(?m)^apiserver_storage_size_bytes\{.*\} (\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("the API server does not measure the size of etcd")
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	must(t, err)
	return int64(n)
}

// peakMemory returns the highest resident memory of a process in bytes.
func peakMemory(t *testing.T, p *program.Program) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	must(t, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("the controller has ended; end of its log:\n%s", p.Log())
	}
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	must(t, err)
	return n << 10
}

// hostileExports are the exports of a cluster that sends as much as an importer reads, and
// changes everything all the time: many small Services, and large ones of all kinds, also
// larger than permitted.
type hostileExports struct {
	mu       sync.Mutex
	requests int
	sent     int
	digest   [16]byte
	hashes   map[string][16]byte
}

func newHostileExports() *hostileExports { return &hostileExports{hashes: make(map[string][16]byte)} }

func (h *hostileExports) numbers() (requests, sent int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests, h.sent
}

// ServeHTTP answers a request for exports.
func (h *hostileExports) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	snapshot := ""
	if r.URL.Query().Get("epoch") == "" {
		snapshot = `"snapshot":1,`
		clear(h.hashes)
		h.digest = [16]byte{}
	}
	var records []string
	for n := range 900 {
		i := h.requests*900 + n
		of := v1alpha1.ServiceRecord{
			Namespace: "shop", Name: fmt.Sprint("s", i%2500), ExportedAt: metav1.Unix(1_000_000_000, 0), Type: v1alpha1.ServiceRecordClusterSetIP,
			Ports: []v1alpha1.ServiceRecordPort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: int32(1 + i%60000)}},
		}
		group := v1alpha1.ServiceRecordEndpoints{AddressType: discoveryv1.AddressTypeIPv4, Ports: of.Ports}
		for e := range 1 + i%20 {
			group.Endpoints = append(group.Endpoints, v1alpha1.ServiceRecordEndpoint{Address: fmt.Sprintf("172.20.%d.%d", i>>8&0xff, e), Ready: i%2 == 0})
		}
		switch i % 30 {
		case 0:
			of.Ports, group.Ports = longPorts(100), longPorts(100)
		case 1:
			of.Annotations = map[string]string{"a": strings.Repeat("x", merge.MaxProperties-100)}
		case 2:
			of.Endpoints = slices.Repeat([]v1alpha1.ServiceRecordEndpoints{{AddressType: discoveryv1.AddressTypeIPv4}}, 60)
		case 3:
			of.Annotations = map[string]string{"a": strings.Repeat("x", 10<<10)}
		}
		of.Endpoints = append(of.Endpoints, group)
		text, err := json.Marshal(of)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		was := h.hashes[of.Name]
		h.hashes[of.Name] = [16]byte(sum[:])
		for b := range h.digest {
			h.digest[b] ^= was[b] ^ sum[b]
		}
		records = append(records, string(text))
	}
	page := fmt.Sprintf(`{"epoch":"e","revision":%d,%s"digest":%q,"services":[%s]}`, h.requests+1, snapshot, hex.EncodeToString(h.digest[:]), strings.Join(records, ","))
	h.sent += len(page)
	_, _ = io.WriteString(w, page)
}

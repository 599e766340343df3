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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/config"
	"strait.dev/strait/control"
	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/test/fakekube"
)

// storing counts the objects that the API server stores, and their bytes in JSON.
type storing struct {
	next           http.RoundTripper
	objects, bytes *atomic.Int64
}

func (s storing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.next.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet || r.Method == http.MethodDelete || answer.StatusCode >= 300 || strings.Contains(r.URL.Path, "/leases/") {
		return answer, err
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	s.objects.Add(1)
	s.bytes.Add(int64(len(body)))
	answer.Body = io.NopCloser(strings.NewReader(string(body)))
	return answer, nil
}

// What the gateway and the controller store because of a cluster that sends without pause: four
// times the budget, and the metadata of each object.
func TestT10_AHostileClusterMakesTheAPIServerStoreABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := fakekube.New(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strait-gateways"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		var objects, bytes atomic.Int64
		counted := rest.CopyConfig(server.Config())
		counted.Wrap(func(next http.RoundTripper) http.RoundTripper { return storing{next, &objects, &bytes} })
		c, err := client.New(counted)
		must(t, err)
		admin := server.Client(t)
		_, err = admin.ClusterNetworks().Apply(t.Context(), &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}, Spec: v1alpha1.ClusterNetworkSpec{
			ClusterID: "near", RemapPools: []v1alpha1.CIDR{"10.64.0.0/10"}, PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}, ServiceCIDRs: []v1alpha1.CIDR{"10.96.0.0/16"},
		}}, "admin")
		must(t, err)
		const services, limit, span = 50, 256 << 10, 10 * time.Second
		_, err = admin.Peerings().Apply(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: v1alpha1.PeeringSpec{
			ClusterID: "bad", Prefixes: v1alpha1.RemotePrefixes{{CIDR: "172.20.0.0/16"}}, Gateway: v1alpha1.GatewaySpec{Replicas: 1},
			Services: v1alpha1.PeeringServices{MaxServices: new(int32(services)), MaxEndpoints: new(int32(50_000)), MaxBytes: new(int32(limit))},
		}}, "admin")
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- controller.Run(ctx, controller.Options{Client: c, Namespace: "default", Identity: "first", Log: slog.New(slog.DiscardHandler),
				Gateways: workload.Gateways{Namespace: "strait-gateways", ServiceAccount: "strait-gateway", Image: "registry.example/strait:v1"}})
		}()
		gatewayUp(t, admin, "bad")
		attack := newHostileExports(250, 100)
		bad, stop := receive(t, c, "bad", func(l net.Listener) { _ = (&http.Server{Handler: attack}).Serve(l) })
		time.Sleep(span)
		t.Logf("the report: %+v", *bad.report())
		stop()
		time.Sleep(time.Second)
		cancel()
		must(t, <-ended)
		requests, sent := attack.numbers()
		writes := services + int(span/time.Second)*writesPerSecond
		const metadata = 6 << 10 // of the objects of one Service
		most := int64(4*(limit+int(span/time.Second)*bytesPerSecond) + writes*metadata)
		t.Logf("%d pages with %d KiB were sent; %d objects with %d KiB were stored, at most %d KiB are permitted", requests, sent>>10, objects.Load(), bytes.Load()>>10, most>>10)
		if bytes.Load() > most || objects.Load() > int64(6*writes) || objects.Load() < services {
			t.Errorf("%d objects with %d KiB were stored, want at most %d with %d KiB", objects.Load(), bytes.Load()>>10, 6*writes, most>>10)
		}
	})
}

// poll waits until check has nothing to complain of, in virtual or real time.
//
//strait:virtualtime
func poll(t *testing.T, what string, check func() string) {
	t.Helper()
	for range 1200 { // two minutes
		if check() == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s: %s", what, check())
}

// gatewayUp creates the pod of a gateway and its report of a link that is up.
func gatewayUp(t *testing.T, admin *client.Client, name string) {
	t.Helper()
	var set *appsv1.StatefulSet
	poll(t, "the StatefulSet of "+name, func() string {
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

// receive runs the receiver of a Peering, to which a far end sends its exports, until the test
// ends or stop is called.
func receive(t *testing.T, admin *client.Client, name string, serve func(net.Listener)) (r *receiver, stop func()) {
	t.Helper()
	l := &wire{arriving: make(chan net.Conn), closed: make(chan struct{})}
	link := control.Link{Name: "a-0", Gateway: "a-0", OwnKey: config.Key{31: 1}, RemoteKey: config.Key{31: 2}}
	log := slog.New(slog.DiscardHandler)
	r = &receiver{
		options: &Options{Peering: name, Namespace: "strait-gateways", Settings: translate.Settings{Name: name + "-0"}}, client: admin, metrics: newMetrics(), log: log, changed: make(client.Signal, 1),
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
			Jitter: func() float64 { return 0 }, Budget: new(ratelimit.Bucket), Log: log,
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { serve(l) })
	running.Go(func() { r.run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); l.Close(); running.Wait() })
	t.Cleanup(stop)
	poll(t, "Peering "+name+" has a receiver", func() string {
		p, err := admin.Peerings().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || p.Status.Services == nil || p.Status.Services.Receiver == "" || len(p.Status.Prefixes) == 0 {
			return fmt.Sprint("not yet: ", err)
		}
		r.follow(p, time.Now())
		return ""
	})
	return r, stop
}

// hostileExports are the exports of a cluster that sends as much as an importer reads, and
// changes everything all the time: many small Services, and large ones of all kinds, also
// larger than permitted.
type hostileExports struct {
	services, page int // that exist, and that a page has

	mu       sync.Mutex
	requests int
	sent     int
	digest   [16]byte
	hashes   map[string][16]byte
}

func newHostileExports(services, page int) *hostileExports {
	return &hostileExports{services: services, page: page, hashes: make(map[string][16]byte)}
}

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
	for n := range h.page {
		i := h.requests*h.page + n
		of := v1alpha1.ServiceRecord{
			Namespace: "shop", Name: fmt.Sprint("s", i%h.services), ExportedAt: metav1.Unix(1_000_000_000, 0), Type: v1alpha1.ServiceRecordClusterSetIP,
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

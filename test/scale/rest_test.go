//go:build nightly

package scale

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/test/kube"
)

// manyGateways is the maximum number of gateways of a Peering, on each side.
const manyGateways = 16

// bytesAtRest is the bound of what the API server sends to one node, in bytes per second.
// client-go has the API server send a bookmark of a few hundred bytes per minute and watch.
const bytesAtRest = 100

// Every node watches the Peerings. What 16 gateways measure of 256 links must not reach
// them. The gateways are simulated: they write their reports as often as real ones.
func TestF23_AtRestNodesAreSentNothingWhateverGatewaysMeasure(t *testing.T) {
	span := 2 * time.Minute
	if s := sizeFromEnvironment(t); !s.bounds {
		span = 20 * time.Second
	}
	api := kube.Start(t)
	api.InstallCRDs(t, crds.Files)
	must(t, api.Namespace(t.Context(), gatewayNamespace))
	api.ServiceAccount(t, gatewayNamespace, "strait-gateway")
	admin, err := client.New(api.Admin())
	must(t, err)
	_, err = admin.ClusterNetworks().Apply(t.Context(), &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}, Spec: v1alpha1.ClusterNetworkSpec{
		ClusterID: "near", PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}, NodeCIDRs: []v1alpha1.CIDR{"192.0.2.0/24"},
	}}, "admin")
	must(t, err)

	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		if err := controller.Run(ctx, controller.Options{
			Client: admin, Namespace: gatewayNamespace, Identity: "only", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Gateways: workload.Gateways{Namespace: gatewayNamespace, ServiceAccount: "strait-gateway", Image: "registry.example/strait:v1"},
		}); err != nil {
			t.Error(err)
		}
	})
	reports := startReports(t, admin)

	// One node, with the watches of a node helper.
	events, bytes := new(atomic.Int64), new(atomic.Int64)
	node, err := client.New(counting(api, bytes))
	must(t, err)
	for _, watch := range []cache.SharedIndexInformer{node.Peerings().Cache(""), node.ClusterNetworks().Cache(v1alpha1.ClusterNetworkName), node.NodeAttachments().Cache("node-1")} {
		count := func() { events.Add(1) }
		_, err := watch.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { count() }, UpdateFunc: func(any, any) { count() }, DeleteFunc: func(any) { count() }})
		must(t, err)
		running.Go(func() { watch.RunWithContext(ctx) })
		if !cache.WaitForCacheSync(ctx.Done(), watch.HasSynced) {
			t.Fatal("no first list")
		}
	}
	reports.write(t, 0)
	within(t, time.Minute, "all gateways have a link", func() error {
		p, err := admin.Peerings().Get(t.Context(), peeringName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		up := 0
		for _, g := range p.Status.Gateways {
			if g.LinkUp {
				up++
			}
		}
		if up != manyGateways {
			return fmt.Errorf("%d of %d", up, manyGateways)
		}
		return nil
	})
	time.Sleep(min(15*time.Second, span)) // until all is written

	events.Store(0)
	bytes.Store(0)
	begun, writes := time.Now(), 0
	for time.Since(begun) < span {
		writes++
		reports.write(t, writes)
		time.Sleep(10*time.Second - time.Since(begun)%(10*time.Second))
	}
	took := time.Since(begun).Seconds()
	perSecond := float64(bytes.Load()) / took
	fmt.Fprintf(t.Output(), "\n%s\n", table([]row{
		{what: "gateways, links", is: fmt.Sprintf("%d, %d", manyGateways, manyGateways*manyGateways)},
		{what: "gateways: reports without changes", is: fmt.Sprintf("%.1f/s", float64(writes*manyGateways)/took)},
		{what: "each node: objects received without changes", is: fmt.Sprintf("%.3f/s", float64(events.Load())/took), bound: "0/s", missed: events.Load() > 0},
		{what: "each node: bytes received without changes", is: fmt.Sprintf("%.1f/s", perSecond), bound: fmt.Sprintf("%d/s", bytesAtRest), missed: perSecond > bytesAtRest},
	}))
	if events.Load() > 0 || perSecond > bytesAtRest {
		t.Errorf("a node received %d objects and %.1f bytes/s", events.Load(), perSecond)
	}
}

// gatewayReports are those of the gateways of one Peering.
type gatewayReports struct {
	admin *client.Client
	pods  [manyGateways]metav1.OwnerReference
}

// startReports creates the Peering and the pods of its gateways.
func startReports(t *testing.T, admin *client.Client) *gatewayReports {
	t.Helper()
	_, err := admin.Peerings().Apply(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: peeringName}, Spec: v1alpha1.PeeringSpec{
		ClusterID: "far", LocalPods: true, Prefixes: v1alpha1.RemotePrefixes{{CIDR: "10.0.0.0/16"}}, Gateway: v1alpha1.GatewaySpec{Replicas: manyGateways},
	}}, "admin")
	must(t, err)
	var set *appsv1.StatefulSet
	within(t, time.Minute, "the StatefulSet", func() (err error) {
		set, err = admin.StatefulSets(gatewayNamespace).Get(t.Context(), peeringName, metav1.GetOptions{})
		return err
	})
	r := &gatewayReports{admin: admin}
	for i := range r.pods {
		pod := createPod(t, admin, set, fmt.Sprintf("%s-%d", peeringName, i), fmt.Sprintf("10.0.1.%d", i+1))
		r.pods[i] = metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	return r
}

// write writes all reports with other measurements than before.
func (r *gatewayReports) write(t *testing.T, round int) {
	t.Helper()
	shaken := metav1.NewTime(time.Now().Truncate(time.Second))
	for i, owner := range r.pods {
		s := v1alpha1.GatewayReportStatus{Peering: peeringName, PublicKey: v1alpha1.PublicKey(config.Key{9, byte(i)}.String()), KeyGeneration: 1, MTU: 1400}
		for j := range manyGateways {
			s.Links = append(s.Links, v1alpha1.LinkStatus{Remote: fmt.Sprintf("near-%d", j), Up: true, PathMTU: 1400, LastHandshake: &shaken,
				RTT: &metav1.Duration{Duration: time.Duration(1+(round+i+j)%7) * time.Millisecond}, Endpoint: v1alpha1.Endpoint(fmt.Sprintf("198.51.100.%d:%d", j+1, 50000+round))})
		}
		_, err := r.admin.GatewayReports(gatewayNamespace).Apply(t.Context(), &v1alpha1.GatewayReport{
			ObjectMeta: metav1.ObjectMeta{Name: owner.Name, OwnerReferences: []metav1.OwnerReference{owner}}, Status: s,
		}, "strait-gateway")
		must(t, err)
	}
}

// counting returns the configuration of a client that counts the bytes of the responses.
func counting(api *kube.Cluster, received *atomic.Int64) *rest.Config {
	config := api.Admin()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return client.RoundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil {
				response.Body = &countedBody{response.Body, received}
			}
			return response, err
		})
	})
	return config
}

type countedBody struct {
	io.ReadCloser
	received *atomic.Int64
}

// Read implements io.Reader.
func (b *countedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.received.Add(int64(n))
	return n, err
}

//go:build nightly

package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/program"
)

// The Services that a cluster exports, and the bounds.
const (
	manyServices    = 2000
	manyNamespaces  = 20
	endpointsOfEach = 25
	manyChanges     = 200

	firstSync      = time.Minute
	slowestChanges = 2 * time.Second // of 99 %
	gatewayMemory  = 32 << 20        // more than without exports

	writesOfEachChange = 2 // of a ReceivedService and an EndpointSlice
)

// A cluster exports thousands of Services, and another one imports all of them at once:
// controllers, gateways and API servers of both are real.
func TestThousandsOfServicesAreImportedThroughTheTunnel(t *testing.T) {
	p := newPair(t)
	for _, c := range []*cluster{p.a, p.b} {
		c.InstallCRDs(t, fstest.MapFS{"exports.yaml": {Data: mcscrds.ServiceExportCRD}, "imports.yaml": {Data: mcscrds.ServiceImportCRD}})
	}
	_, a := p.join(t)
	p.b.importFrom(t, v1alpha1.ImportNone)
	gateways := []*program.Program{p.a.gateways["b-0"].Program, p.b.gateways["a-0"].Program}
	var memory [2]int
	for i, g := range gateways {
		memory[i] = int(g.PeakMemory(t))
	}
	for i := range manyNamespaces {
		for _, c := range []*cluster{p.a, p.b} {
			must(t, c.Namespace(t.Context(), shopOf(i)))
		}
	}
	concurrently(t, manyServices, p.a.exportNumbered)
	within(t, 5*time.Minute, "the exporting cluster has imported its own Services", func() error { return p.a.allImported(t, 2*manyServices) })

	begun := time.Now()
	p.b.importFrom(t, v1alpha1.ImportExisting)
	within(t, 10*time.Minute, "all Services are imported", func() error { return p.b.allImported(t, manyServices) })
	took := time.Since(begun)
	time.Sleep(20 * time.Second) // until all statuses are written
	before := p.b.writes(t)
	latencies := p.changeEndpoints(t, a)
	time.Sleep(10 * time.Second)
	writes := p.b.writes(t) - before
	slices.Sort(latencies)
	p99 := latencies[len(latencies)*99/100]
	t.Logf("%d Services with %d endpoints: imported after %v; a change arrives after %v (p50), %v (p99); %d writes for %d changes",
		manyServices, manyServices*endpointsOfEach, took.Round(100*time.Millisecond), latencies[len(latencies)/2].Round(time.Millisecond), p99.Round(time.Millisecond), writes, manyChanges)
	if took > firstSync {
		t.Errorf("the first import took %v, want at most %v", took, firstSync)
	}
	if p99 > slowestChanges {
		t.Errorf("99 %% of changes took up to %v, want at most %v", p99, slowestChanges)
	}
	if writes > writesOfEachChange*manyChanges {
		t.Errorf("%d writes for %d changes, want at most %d for each", writes, manyChanges, writesOfEachChange)
	}
	for i, name := range []string{"exports", "imports"} {
		more := int(gateways[i].PeakMemory(t)) - memory[i]
		t.Logf("the gateway that %s used %.1f MiB more at its peak", name, float64(more)/(1<<20))
		if more > gatewayMemory {
			t.Errorf("the gateway that %s used %d MiB more, want at most %d", name, more>>20, gatewayMemory>>20)
		}
	}
}

// allImported returns an error unless all Services are imported, and the cluster has n
// EndpointSlices.
func (c *cluster) allImported(t *testing.T, n int64) error {
	time.Sleep(time.Second) // lists of so many objects are work for the API server
	// A list of one object has the number of all others.
	one := metav1.ListOptions{Limit: 1}
	endpoints, err := c.admin.EndpointSlices("").List(t.Context(), one)
	if err != nil {
		return err
	}
	imports, err := c.admin.ServiceImports("").List(t.Context(), one)
	if err != nil {
		return err
	}
	if e, i := endpoints.RemainingItemCount, imports.RemainingItemCount; e == nil || *e < n-1 || i == nil || *i < manyServices-1 {
		return errors.New("some are missing")
	}
	return nil
}

func shopOf(i int) string { return fmt.Sprintf("shop-%d", i%manyNamespaces) }

// importFrom sets from which namespaces b imports Services of a.
func (c *cluster) importFrom(t *testing.T, which v1alpha1.ImportFrom) {
	t.Helper()
	p := c.peering(t, "a")
	p.Spec.Services.ImportFrom = which
	_, err := c.admin.Peerings().Update(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
}

// exportNumbered creates and exports Service i.
func (c *cluster) exportNumbered(ctx context.Context, i int) error {
	namespace, meta := shopOf(i), metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i)}
	_, err := c.admin.Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	if err == nil {
		_, err = c.admin.EndpointSlices(namespace).Create(ctx, numberedSlice(i), metav1.CreateOptions{})
	}
	if err == nil {
		_, err = c.admin.ServiceExports(namespace).Create(ctx, &mcsv1beta1.ServiceExport{ObjectMeta: meta}, metav1.CreateOptions{})
	}
	return err
}

// numberedSlice returns the EndpointSlice of Service i.
func numberedSlice(i int) *discoveryv1.EndpointSlice {
	name := fmt.Sprintf("s%d", i)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for j := range endpointsOfEach {
		n := i*endpointsOfEach + j
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.0.%d.%d", n/250, 1+n%250)}, Zone: new(fmt.Sprintf("zone-%d", j%3)),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)},
		})
	}
	return slice
}

// concurrently calls do for 0 to n-1, some at the same time.
func concurrently(t *testing.T, n int, do func(context.Context, int) error) {
	t.Helper()
	const workers = 8
	var working sync.WaitGroup
	for worker := range workers {
		working.Go(func() {
			for i := worker; i < n && !t.Failed(); i += workers {
				if err := do(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// changeEndpoints changes one endpoint after the other in a, and returns how long each took
// until it was in an EndpointSlice of b.
func (p *pair) changeEndpoints(t *testing.T, a *v1alpha1.Peering) (latencies []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching, err := p.b.admin.EndpointSlices("").Watch(ctx, metav1.ListOptions{LabelSelector: mcsv1beta1.LabelSourceCluster + "=a"})
	must(t, err)
	defer watching.Stop()
	for n := range manyChanges {
		i := n * 7 % manyServices
		slice := numberedSlice(i)
		address := fmt.Sprintf("10.0.%d.%d", 201+n/250, 1+n%250)
		slice.Endpoints[0].Addresses[0] = address
		wanted := seen(t, a, address)
		begun := time.Now()
		_, err := p.a.admin.EndpointSlices(shopOf(i)).Update(t.Context(), slice, metav1.UpdateOptions{})
		must(t, err)
		for event := range watching.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if ok && slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Addresses[0] == wanted }) {
				break
			}
		}
		latencies = append(latencies, time.Since(begun))
	}
	return latencies
}

var writeLine = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="(?:receivedservices|serviceimports|services|endpointslices)",.*,\w+="(?:POST|PUT|PATCH|APPLY|DELETE)",.*\} (\d+)$`)

// writes returns the number of requests with which imports were written.
func (c *cluster) writes(t *testing.T) (sum int) {
	t.Helper()
	connection, err := rest.HTTPClientFor(c.Admin())
	must(t, err)
	answer, err := connection.Get(c.Admin().Host + "/metrics")
	must(t, err)
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	must(t, err)
	for _, found := range writeLine.FindAllSubmatch(page, -1) {
		n, err := strconv.Atoi(string(found[1]))
		must(t, err)
		sum += n
	}
	if sum < manyServices {
		t.Fatalf("%d writes, and %d Services are imported", sum, manyServices)
	}
	return sum
}

package gateway

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/test/fakekube"
)

// written returns the number of requests that have written ReceivedServices.
func (i *importing) written() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.writes
}

// longPorts returns ports with the longest names and application protocols.
func longPorts(n int) (all []v1alpha1.ServiceRecordPort) {
	application := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + "/" + strings.Repeat("c", 63)
	for i := range n {
		all = append(all, v1alpha1.ServiceRecordPort{Name: fmt.Sprintf("p%d-%s", i, strings.Repeat("x", 40)), Protocol: corev1.ProtocolTCP, AppProtocol: &application, Port: int32(1 + i)})
	}
	return all
}

func stateOf(t *testing.T, policy *importPolicy) *receivedServices {
	t.Helper()
	policy.prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}
	return newReceivedServices(fakekube.New().Client(t), &Options{Peering: "b"}, policy, new(writeBudget), make(map[string]storedService))
}

func offer(t *testing.T, s *receivedServices, r *v1alpha1.ServiceRecord) *refusal {
	t.Helper()
	text, err := json.Marshal(r)
	must(t, err)
	_, _, why := s.decide(control.ServiceRecord{Key: control.ServiceKey{Namespace: r.Namespace, Name: r.Name}, JSON: text})
	return why
}

func TestT10_ARecordIsRefusedThatIsLargeWithoutEndpoints(t *testing.T) {
	t.Parallel()
	policy := &importPolicy{maxServices: 9, maxEndpoints: 50_000, maxBytes: merge.DefaultMaxBytes}
	for name, c := range map[string]struct {
		edit func(*v1alpha1.ServiceRecord)
		says string // empty: it is accepted
	}{
		"100 ports of endpoints": {func(r *v1alpha1.ServiceRecord) { r.Endpoints[0].Ports = longPorts(100) }, ""},
		"as many in 64 sets of ports": {func(r *v1alpha1.ServiceRecord) {
			for len(r.Endpoints) < 64 {
				r.Endpoints = append(r.Endpoints, *r.Endpoints[0].DeepCopy())
				r.Endpoints[len(r.Endpoints)-1].Ports = longPorts(100)
			}
		}, "without its endpoints it has"},
		"100 ports of 5000 endpoints, which are in 50 EndpointSlices": {func(r *v1alpha1.ServiceRecord) {
			r.Endpoints[0].Ports = longPorts(100)
			for len(r.Endpoints[0].Endpoints) < 5000 {
				r.Endpoints[0].Endpoints = append(r.Endpoints[0].Endpoints, r.Endpoints[0].Endpoints[0])
			}
		}, "without its endpoints it has"},
		"more endpoints than a Service exports, in two sets of ports": {func(r *v1alpha1.ServiceRecord) {
			for len(r.Endpoints[0].Endpoints) < 2501 {
				r.Endpoints[0].Endpoints = append(r.Endpoints[0].Endpoints, r.Endpoints[0].Endpoints[0])
			}
			r.Endpoints = append(r.Endpoints, *r.Endpoints[0].DeepCopy())
		}, "it has 5002 endpoints"},
		"annotations": {func(r *v1alpha1.ServiceRecord) { r.Annotations["a"] = strings.Repeat("x", merge.MaxProperties) }, "its labels and annotations have"},
		"as many as the API": {func(r *v1alpha1.ServiceRecord) {
			r.Annotations = map[string]string{"x": strings.Repeat("y", 256<<10-1)}
		}, "its labels and annotations have"},
		"labels": {func(r *v1alpha1.ServiceRecord) {
			delete(r.Labels, "team")
			for n := range 64 {
				r.Labels[fmt.Sprintf("%s.example/%d", strings.Repeat("l", 60), n)] = strings.Repeat("v", 63)
			}
		}, "its labels and annotations have"},
	} {
		r := service(t, "web")
		c.edit(r)
		if why := offer(t, stateOf(t, policy), r); (why == nil) != (c.says == "") || why != nil && !strings.HasPrefix(why.text, c.says) {
			t.Errorf("%s: %+v, want %q", name, why, c.says)
		}
	}
}

func TestEntriesWithoutEndpointsAreDropped(t *testing.T) {
	t.Parallel()
	s := stateOf(t, &importPolicy{maxServices: 9, maxEndpoints: 9, maxBytes: 1 << 20})
	r := service(t, "web")
	for range 60 {
		r.Endpoints = append(r.Endpoints, v1alpha1.ServiceRecordEndpoints{AddressType: discoveryv1.AddressTypeIPv4, Ports: longPorts(100)})
	}
	text, err := json.Marshal(r)
	must(t, err)
	w, _, why := s.decide(control.ServiceRecord{Key: control.ServiceKey{Namespace: "shop", Name: "web"}, JSON: text})
	if why != nil {
		t.Fatalf("%+v", why)
	}
	if n := len(w.Spec.Service.Endpoints); n != 1 {
		t.Errorf("%d entries are stored, want 1", n)
	}
}

func TestT10_TheRecordsOfAPeeringHaveABudgetOfBytes(t *testing.T) {
	t.Parallel()
	policy := &importPolicy{maxServices: 10_000, maxEndpoints: 250_000, maxBytes: merge.DefaultMaxBytes / 8}
	s := stateOf(t, policy)
	r := service(t, "web", func(r *v1alpha1.ServiceRecord) { r.Endpoints[0].Ports = longPorts(100) })
	accepted := 0
	for n := range 200 {
		r.Name = fmt.Sprint("service-", n)
		if why := offer(t, s, r); why == nil {
			accepted++
		} else if !strings.Contains(why.text, "spec.services.maxBytes") {
			t.Fatalf("%+v", why)
		}
	}
	if got := accepted * merge.Size(r); s.bytes != got && s.bytes > policy.maxBytes || accepted < 25 || accepted > 50 {
		t.Errorf("%d Services with %d bytes are accepted, which count as %d", accepted, got, s.bytes)
	}
	r.Name = "service-0"
	s.mu.Lock()
	s.forget(control.ServiceKey{Namespace: "shop", Name: r.Name})
	s.mu.Unlock()
	if why := offer(t, s, r); why != nil {
		t.Errorf("the bytes of a removed Service stay counted: %+v", why)
	}
}

// A far end that changes one Service all the time causes one write per second, even if it
// removes it in between.
func TestT10_OneServiceIsWrittenOncePerSecond(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]bool{"changed": false, "removed and exported": true} {
		synctest.Test(t, func(t *testing.T) {
			i := newImporting(t)
			i.export(t, service(t, "web"))
			i.expect(t, time.Minute, "web", 1, "")
			for n := range 100 {
				if i.export(t, service(t, "web", at(fmt.Sprintf("10.0.2.%d", n)))); remove && n%2 == 1 {
					i.unexport("web")
				}
				time.Sleep(200 * time.Millisecond)
			}
			if n := i.written(); n < 20 || n > 20+rewriteBurst+1 {
				t.Errorf("%s: %d writes in 20 s", name, n)
			}
		})
	}
}

// A Service that changes all the time does not delay the others.
func TestAChangeIsWrittenAtOnceWhileAnotherServiceChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newImporting(t)
		i.export(t, service(t, "db"))
		for n := range 60 {
			i.export(t, service(t, "web", at(fmt.Sprintf("10.0.2.%d", n))))
			time.Sleep(200 * time.Millisecond)
		}
		i.export(t, service(t, "db", func(r *v1alpha1.ServiceRecord) { r.Endpoints[0].Endpoints[0].Ready = false }))
		time.Sleep(rewriteInterval + 300*time.Millisecond)
		o, err := i.admin.ReceivedServices("strait").Get(t.Context(), "db.shop.b", metav1.GetOptions{})
		must(t, err)
		if o.Spec.Service.Endpoints[0].Endpoints[0].Ready {
			t.Error("an endpoint that is not ready is ready for longer than a second")
		}
	})
}

// What the Peering permits is imported at once, as after a restart of the remote cluster.
// Afterwards writes have a rate, which the report states, even if the receiver begins again.
func TestT10_WritesHaveABudgetThatARestartOfReceivingDoesNotRenew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newImporting(t)
		const services = 150
		most := int32(services)
		i.change(func(p *v1alpha1.Peering) { p.Spec.Services.MaxServices = &most })
		all := func(address string) {
			for n := range services {
				r := service(t, fmt.Sprint("service-", n), at(address))
				i.export(t, r)
			}
		}
		all("10.0.1.5")
		time.Sleep(3 * time.Second)
		if report := i.report(); !report.Synced || report.Received != services || i.written() != services || report.Message != "" {
			t.Errorf("%+v after %d requests", report, i.written())
		}
		for n := range 5 {
			all(fmt.Sprintf("10.0.2.%d", n))
			time.Sleep(5 * time.Second)
			i.change(func(p *v1alpha1.Peering) {
				p.Spec.Prefixes = v1alpha1.RemotePrefixes{{CIDR: "10.0.0.0/16"}, {CIDR: v1alpha1.CIDR(fmt.Sprintf("10.%d.0.0/16", 100+n))}}
			})
		}
		if n := i.written() - services; n > 28*writesPerSecond || n < 22*writesPerSecond {
			t.Errorf("%d requests in 25 s, want %d per second", n, writesPerSecond)
		}
		if m := i.report().Message; !strings.HasPrefix(m, "the remote cluster changes its exports faster than they are imported") {
			t.Errorf("the report says %q", m)
		}
	})
}

func TestT10_LargeRecordsAreWrittenAtARateOfBytes(t *testing.T) {
	t.Parallel()
	policy := &importPolicy{maxServices: 2000, maxBytes: 1 << 20}
	var b writeBudget
	begun := time.Unix(1000, 0)
	bytes := 0
	for now := begun; now.Before(begun.Add(time.Minute)); now = now.Add(10 * time.Millisecond) {
		name := fmt.Sprint(now.UnixMilli())
		for b.take(name, 32<<10, policy, now) == 0 {
			bytes += 32 << 10
			name += "x"
		}
	}
	if most := 1<<20 + 60*bytesPerSecond; bytes > most+64<<10 || bytes < most-64<<10 {
		t.Errorf("%d bytes in a minute, want %d", bytes, most)
	}
	if n := len(b.rewrites); n > writesPerSecond*rewriteBurst {
		t.Errorf("%d Services are remembered", n)
	}
}

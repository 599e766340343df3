package controller_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/test/fakekube"
)

// writesTo counts the creates and updates of a resource in namespace shop. After each it calls
// also.
func (f *fixture) writesTo(resource string, also func()) func() int {
	var mu sync.Mutex
	count := 0
	f.cluster.(memory).Late(func(q fakekube.Request) {
		if q.Verb != "create" && q.Verb != "update" || q.Namespace != "shop" || q.Resource != resource || q.Subresource != "" {
			return
		}
		mu.Lock()
		count++
		mu.Unlock()
		also()
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		was := count
		count = 0
		return was
	}
}

// An admission policy that labels all objects of a namespace takes part in no fight: its
// labels stay.
func TestLabelsOfOthersStayOnTheObjectsOfImports(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		admin := f.cluster.Kubernetes()
		const label = `{"metadata":{"labels":{"team.example.com/cost-centre":"42"},"annotations":{"policy.example.com/seen":"true"}}}`
		f.receive("b", record("web", "10.0.0.5"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		found, derived := f.importedObjects("web")
		_, err := admin.CoreV1().Services("shop").Patch(t.Context(), derived[0].Name, types.MergePatchType, []byte(label), metav1.PatchOptions{FieldManager: "policy"})
		must(t, err)
		_, err = admin.DiscoveryV1().EndpointSlices("shop").Patch(t.Context(), found[0].Name, types.MergePatchType, []byte(label), metav1.PatchOptions{FieldManager: "policy"})
		must(t, err)
		_, err = f.ServiceImports("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(label), metav1.PatchOptions{FieldManager: "policy"})
		must(t, err)
		f.pause(10 * time.Second)
		writes := f.writesOf()
		f.pause(10 * time.Minute)
		if got := writes(); len(got) > 0 {
			t.Errorf("%v in ten minutes without a change", got)
		}
		// A change of an endpoint keeps them.
		f.receive("b", record("web", "10.0.0.6"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.6")
		found, derived = f.importedObjects("web")
		i, err := f.ServiceImports("shop").Get(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		for what, m := range map[string]metav1.ObjectMeta{"Service": derived[0].ObjectMeta, "EndpointSlice": found[0].ObjectMeta, "ServiceImport": i.ObjectMeta} {
			if m.Labels["team.example.com/cost-centre"] != "42" || m.Annotations["policy.example.com/seen"] != "true" {
				t.Errorf("the %s has the labels %v and the annotations %v", what, m.Labels, m.Annotations)
			}
		}
	})
}

func TestAnExportedLabelThatIsNoLongerExportedIsRemovedAndThoseOfOthersStay(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		r := record("web", "10.0.0.5")
		r.Labels, r.Annotations = map[string]string{"tier": "front", "zone": "a"}, map[string]string{"example.com/doc": "x"}
		f.serve("web", web())
		f.endpoints("web", "10.0.0.5")
		f.export("web", mcsv1beta1.ServiceExportSpec{ExportedLabels: r.Labels, ExportedAnnotations: r.Annotations})
		until := func(labels string) {
			f.until("the labels", func() string {
				i, err := f.ServiceImports("shop").Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil {
					return err.Error()
				}
				is := fmt.Sprintf("tier=%s zone=%s doc=%s of=%s", i.Labels["tier"], i.Labels["zone"], i.Annotations["example.com/doc"], i.Labels["of"])
				if is != labels {
					return is
				}
				return ""
			})
		}
		until("tier=front zone=a doc=x of=")
		_, err := f.ServiceImports("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"labels":{"of":"another"}}}`), metav1.PatchOptions{FieldManager: "policy"})
		must(t, err)
		_, err = f.ServiceExports("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"exportedLabels":{"zone":null},"exportedAnnotations":null}}`), metav1.PatchOptions{FieldManager: "admin"})
		must(t, err)
		until("tier=front zone= doc= of=another")
	})
}

// Two writers that disagree about a field do not flood the API server: repairs become rarer,
// and are reported. What the exports change is written at once.
func TestAWriterThatDisagreesIsReportedAndNotFought(t *testing.T) {
	for _, c := range []struct {
		name, resource string
		change         func(*testing.T, *fixture)
	}{
		{"a field of the derived Service", "services", func(t *testing.T, f *fixture) {
			_, err := f.cluster.Kubernetes().CoreV1().Services("shop").Patch(t.Context(), services.DerivedName("shop", "web"), types.MergePatchType, []byte(`{"spec":{"sessionAffinity":"ClientIP"}}`), metav1.PatchOptions{FieldManager: "policy"})
			must(t, err)
		}},
		{"endpoints", "endpointslices", func(t *testing.T, f *fixture) {
			found, _ := f.importedObjects("web")
			_, err := f.cluster.Kubernetes().DiscoveryV1().EndpointSlices("shop").Patch(t.Context(), found[0].Name, types.MergePatchType, []byte(`{"endpoints":[{"addresses":["192.0.2.66"],"conditions":{"ready":true}}]}`), metav1.PatchOptions{FieldManager: "policy"})
			must(t, err)
		}},
		{"a deleted EndpointSlice", "endpointslices", func(t *testing.T, f *fixture) {
			must(t, f.cluster.Kubernetes().DiscoveryV1().EndpointSlices("shop").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: services.ImportLabel}))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, f *fixture) {
				f.lead()
				f.joined()
				changing := true
				writes := f.writesTo(c.resource, func() {
					if changing {
						c.change(t, f)
					}
				})
				f.receive("b", record("web", "10.0.0.5"))
				f.pause(10 * time.Minute)
				if got := writes(); got < 3 || got > 15 {
					t.Errorf("%d writes in the first ten minutes", got)
				}
				if !f.logged("another writer changes an object again and again") {
					t.Error("it is not reported")
				}
				f.pause(time.Hour)
				if got := writes(); got > 8 {
					t.Errorf("%d writes in the next hour", got)
				}
				changing = false
				begun := time.Now()
				f.receive("b", record("web", "10.0.0.6"))
				f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.6")
				if took := since(begun); c.resource == "endpointslices" && took > 3*time.Second {
					t.Errorf("a change of an endpoint took %v", took)
				}
			})
		})
	}
}

// A status is of its object. Gateways serve only the ports that the status names.
func TestAnObjectThatIsCreatedAgainHasItsStatusAtOnceAndIsNotContested(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.start(f.cluster.Admin(), "default", "first", func(o *controller.Options) { o.Gateways.WithoutNodes = true })
		f.joinedWithoutNodes()
		for range 8 {
			begun := time.Now()
			f.receive("b", record("web", "10.0.0.5"))
			f.until("the ports of web", func() string {
				if len(f.gatewayPorts("web")) == 0 {
					return "none"
				}
				return ""
			})
			if took := since(begun); took > 2*time.Second {
				t.Errorf("its ports are known after %v", took)
			}
			f.pause(3 * time.Second)
			f.unreceive("b", "web")
			f.untilImported("web", "none")
		}
		if f.logged("another writer changes an object again and again") {
			t.Error("a remote cluster that exports a Service again and again counts as another writer")
		}
	})
}

// Another implementation of the Multi-Cluster Services API sets the same conditions.
func TestConditionsThatAnotherControllerSetsAreNotFought(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.serve("web", web())
		f.endpoints("web", "10.0.0.5")
		var mu sync.Mutex
		writes := 0
		f.cluster.(memory).Late(func(q fakekube.Request) {
			if q.Verb != "update" || q.Resource != "serviceexports" || q.Subresource != "status" {
				return
			}
			mu.Lock()
			writes++
			mu.Unlock()
			_, err := f.ServiceExports("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Valid","status":"False","reason":"NoService","message":"x","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`),
				metav1.PatchOptions{FieldManager: "other"}, "status")
			must(t, err)
		})
		f.export("web", mcsv1beta1.ServiceExportSpec{})
		f.pause(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if writes < 2 || writes > 15 {
			t.Errorf("%d writes of the status in ten minutes", writes)
		}
	})
}

package controller_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/fakekube"
)

// joinedByTwo is joined, with a further Peering c. The pods of c are mapped to 10.72.0.0/16.
func (f *fixture) joinedByTwo() {
	f.Helper()
	f.joined()
	f.peer("c", 1, "10.0.0.0/16=10.72.0.0/16")
	f.untilSeen("c", "10.0.0.0/16>10.72.0.0/16 NoConflict")
	f.link("c-0", true)
}

// derived is the UID and the IP families of the derived Service of an import.
func (f *fixture) derived(name string) string {
	f.Helper()
	_, all := f.importedObjects(name)
	if len(all) != 1 {
		f.Fatalf("%d derived Services", len(all))
	}
	return fmt.Sprint(all[0].UID, all[0].Spec.IPFamilies)
}

func TestAStatedAgeDoesNotMakeARemoteExportOlderThanItIsHere(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		stop := f.lead()
		f.joinedByTwo()
		f.serve("web", web())
		f.endpoints("web", "10.0.0.5")
		f.export("web", mcsv1beta1.ServiceExportSpec{})
		f.pause(2 * time.Second) // times of creation have a resolution of a second
		hostile := record("web", "10.0.0.5")
		hostile.ExportedAt = metav1.Unix(0, 0)
		hostile.Type = v1alpha1.ServiceRecordHeadless
		f.receive("b", hostile)
		const both = "ClusterSetIP web 80/TCP from a,b: a 10.0.0.5, b 10.71.0.5"
		f.untilImported("web", both)
		f.untilExport("web", mcsv1beta1.ServiceExportConditionConflict, "True TypeConflict type: ClusterSetIP of cluster a applies")
		stop() // the age of a remote export is not forgotten
		f.lead()
		f.pause(time.Minute)
		f.untilImported("web", both)

		// An export that is updated keeps its age, and one that ends and begins again does not.
		f.receive("c", record("two", "10.0.0.5"))
		f.pause(2 * time.Second)
		younger := record("two", "10.0.0.5")
		younger.ExportedAt, younger.Type = metav1.Unix(0, 0), v1alpha1.ServiceRecordHeadless
		f.receive("b", younger)
		f.untilImported("two", "Headless web 80/TCP from b,c: b 10.71.0.5, c 10.72.0.5") // c states a later time
		older := record("two", "10.0.0.6")
		older.ExportedAt = metav1.Unix(0, 0)
		f.receive("c", older)
		f.untilImported("two", "ClusterSetIP web 80/TCP from b,c: b 10.71.0.5, c 10.72.0.6")
		f.unreceive("c", "two")
		f.untilImported("two", "Headless web 80/TCP from b: b 10.71.0.5")
		f.receive("c", older)
		f.untilImported("two", "Headless web 80/TCP from b,c: b 10.71.0.5, c 10.72.0.6")
	})
}

func TestANewerRemoteExportDoesNotReplaceTheDerivedService(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joinedByTwo()
		f.network(`{"clusterID": "a", "podCIDRs": ["10.0.0.0/16"], "serviceCIDRs": ["10.96.0.0/16", "fd00:96::/112"]}`)
		first := record("web", "10.0.0.5")
		first.ExportedAt = metav1.Unix(0, 0)
		first.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		f.receive("c", first)
		f.untilImported("web", "ClusterSetIP web 80/TCP from c: c 10.72.0.5")
		f.pause(2 * time.Second)
		was := f.derived("web")
		for name, change := range map[string]func(*v1alpha1.ServiceRecord){
			"one family":     func(r *v1alpha1.ServiceRecord) { r.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} },
			"another family": func(r *v1alpha1.ServiceRecord) { r.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol} },
			"another order": func(r *v1alpha1.ServiceRecord) {
				r.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			},
			"headless": func(r *v1alpha1.ServiceRecord) { r.Type = v1alpha1.ServiceRecordHeadless },
		} {
			newer := record("web", "10.0.0.5")
			newer.ExportedAt = metav1.Unix(0, 0)
			change(&newer)
			f.receive("b", newer)
			f.untilImported("web", "ClusterSetIP web 80/TCP from b,c: b 10.71.0.5, c 10.72.0.5")
			if is := f.derived("web"); is != was {
				t.Errorf("%s: the derived Service became %s, was %s", name, is, was)
			}
			f.unreceive("b", "web")
			f.untilImported("web", "ClusterSetIP web 80/TCP from c: c 10.72.0.5")
		}
	})
}

// refuse makes the API server refuse writes of a resource in namespace shop.
func (f *fixture) refuse(resource, verb string) (stop func()) {
	return f.cluster.(memory).Fail(func(q fakekube.Request) error {
		if q.Resource != resource || q.Verb != verb || q.Subresource != "" || q.Namespace != "shop" {
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: resource}, q.Name, nil)
	})
}

func TestAnImportWhoseObjectsAreRefusedHasTheEndpointsOfAllExports(t *testing.T) {
	for _, refused := range []string{"serviceimports", "services"} {
		t.Run(refused, func(t *testing.T) {
			inMemory(t, func(_ *testing.T, f *fixture) {
				f.lead()
				f.joinedByTwo()
				f.serve("web", web())
				f.endpoints("web", "10.0.0.5")
				f.export("web", mcsv1beta1.ServiceExportSpec{})
				f.receive("b", record("web", "10.0.0.5"))
				f.untilImported("web", "ClusterSetIP web 80/TCP from a,b: a 10.0.0.5, b 10.71.0.5")
				stop := f.refuse(refused, "update")
				more := record("web", "10.0.0.5")
				more.Ports = append(more.Ports, v1alpha1.ServiceRecordPort{Name: "more", Protocol: corev1.ProtocolTCP, Port: 81})
				f.receive("c", more)
				f.endpoints("web", "10.0.0.6")
				f.until("all endpoints are there", func() string {
					slices, _ := f.importedObjects("web")
					return differ(fmt.Sprint(slices), "10.0.0.6", "10.71.0.5", "10.72.0.5")
				})
				stop()
				f.untilImported("web", "ClusterSetIP web 80/TCP more 81/TCP from a,b,c: a 10.0.0.6, b 10.71.0.5, c 10.72.0.5")
			})
		})
	}
}

func TestWhatTheAPIServerRefusesOfAnImportIsLeftOut(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		// A release of Kubernetes without a value refuses to create and to update the Service with it.
		var refused atomic.Bool
		stop := f.cluster.(memory).Fail(func(q fakekube.Request) error {
			if q.Resource == "services" && q.Namespace == "shop" && (q.Verb == "update" || q.Verb == "create" && refused.CompareAndSwap(false, true)) {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, q.Name, nil)
			}
			return nil
		})
		r := record("web", "10.0.0.5")
		r.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameNode)
		f.receive("b", r)
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		is, err := f.ServiceImports("shop").Get(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		if c := meta.FindStatusCondition(is.Status.Conditions, "Ready"); !strings.Contains(c.Message, "the API server refuses what the exports define, so it has only what connections need") {
			t.Error(c.Message)
		}
		stop()
		f.pause(time.Minute)
		f.receive("b", record("web", "10.0.0.6"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.6")
	})
}

func TestLabelsAndAnnotationsOfRemoteExportsAreCarriedWhereThePeeringAllowsThem(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		allow := func(keys ...string) {
			p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{Services: v1alpha1.PeeringServices{AllowedMetadata: keys}}}
			_, err := f.Peerings().Apply(t.Context(), p, "metadata")
			must(t, err)
		}
		until := func(want string) {
			t.Helper()
			f.until("the labels and annotations of the import", func() string {
				is, err := f.ServiceImports("shop").Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil {
					return err.Error()
				}
				delete(is.Labels, "strait.dev/import")
				delete(is.Annotations, "multicluster.kubernetes.io/derived-service")
				delete(is.Annotations, "strait.dev/exported")
				if got := fmt.Sprint(is.Labels, is.Annotations); got != want {
					return fmt.Sprintf("%s, want %s", got, want)
				}
				return ""
			})
		}
		r := record("web", "10.0.0.5")
		r.Labels = map[string]string{"tailscale.com/expose": "true", "tier": "front"}
		r.Annotations = map[string]string{"prometheus.io/scrape": "true", "tier": "front"}
		f.receive("b", r)
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		until("map[] map[]")
		allow("tier")
		until("map[tier:front] map[tier:front]")
		allow("prometheus.io/*")
		until("map[] map[prometheus.io/scrape:true]")
	})
}

package controller_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/test/fakekube"
)

func TestAnExportedServiceIsOfferedToRemoteClustersAndImportedInItsOwn(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.serve("web", web())
		f.endpoints("web", "10.0.0.5", "10.0.0.6")
		f.export("web", mcsv1beta1.ServiceExportSpec{})
		f.untilExport("web", mcsv1beta1.ServiceExportConditionValid, "True Valid")
		f.untilExport("web", mcsv1beta1.ServiceExportConditionReady, "True Exported")
		f.untilExport("web", mcsv1beta1.ServiceExportConditionConflict, "False NoConflicts")
		f.untilImported("web", "ClusterSetIP web 80/TCP from a: a 10.0.0.5, a 10.0.0.6")
		exported, err := f.ExportedServices(gateways).Get(t.Context(), "web.shop", metav1.GetOptions{})
		must(t, err)
		s := exported.Spec
		if got := fmt.Sprintf("%s/%s %s %v %v", s.Namespace, s.Name, s.Type, s.Ports, s.Endpoints); got != "shop/web ClusterSetIP [{web TCP <nil> 80}] [{IPv4 [{web TCP <nil> 8080}] [{10.0.0.5  zone-1 true true false} {10.0.0.6  zone-1 true true false}]}]" {
			t.Error(got)
		}

		f.unexport("web")
		f.untilImported("web", "none")
		f.until("the ExportedService is deleted", func() string {
			if _, err := f.ExportedServices(gateways).Get(t.Context(), "web.shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Sprint(err)
			}
			return ""
		})
	})
}

func TestAReceivedServiceIsImportedWithTranslatedAddresses(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.receive("b", record("web", "10.0.0.5", "10.0.3.6"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5, b 10.71.3.6")
		f.receive("b", record("web", "10.0.0.5", "10.0.3.7"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5, b 10.71.3.7")
		f.serve("web", web())
		f.endpoints("web", "10.0.0.5")
		f.export("web", mcsv1beta1.ServiceExportSpec{})
		f.untilImported("web", "ClusterSetIP web 80/TCP from a,b: a 10.0.0.5, b 10.71.0.5, b 10.71.3.7")
		f.unreceive("b", "web")
		f.untilImported("web", "ClusterSetIP web 80/TCP from a: a 10.0.0.5")
	})
}

func TestEndpointsAreReadyOnlyWhileALinkIsUp(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		stop := f.lead()
		f.joined()
		f.receive("b", record("web", "10.0.0.5"))
		const up, down = "ClusterSetIP web 80/TCP from b: b 10.71.0.5", "ClusterSetIP web 80/TCP from b: b 10.71.0.5 (not ready)"
		f.untilImported("web", up)
		begun := time.Now()
		f.link("b-0", false)
		f.untilImported("web", down)
		if took := since(begun); took > 3*time.Second {
			t.Errorf("the endpoints were ready for %v after the last link was gone", took)
		}
		begun = time.Now()
		f.link("b-0", true)
		f.untilImported("web", up)
		if took := since(begun); took > 3*time.Second {
			t.Errorf("the endpoints were not ready for %v after a link came up", took)
		}

		lost := time.Now()
		f.link("b-0", false)
		f.pause(3 * time.Minute)
		f.untilImported("web", down)
		stop() // a new controller knows when the link was lost
		f.lead()
		f.untilImported("web", down)
		f.untilImported("web", "none")
		if took := since(lost); took < 5*time.Minute-time.Second || took > 5*time.Minute+10*time.Second {
			t.Errorf("the import was there for %v after the last link was gone", took)
		}
		f.untilSummary("b", "0 imported, 1 refused: shop/web: no link to cluster b has been up for 5m0s")
		f.link("b-0", true)
		f.untilImported("web", up)
		f.untilSummary("b", "1 imported, 0 refused: ")
	})
}

// untilSummary waits for what a Peering says about imports.
func (f *fixture) untilSummary(peering, want string) {
	f.Helper()
	f.until("the imports of Peering "+peering, func() string {
		s := f.peering(peering).Status.Services
		if s == nil {
			return "not reported"
		}
		if got := fmt.Sprintf("%d imported, %d refused: %s", s.Imported, s.Refused, s.Message); got != want {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}

func TestTheReceiverStaysWhileItHasALink(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.peer("b", 2, "10.0.0.0/16=10.71.0.0/16")
		until := func(want string) {
			f.until("the receiver", func() string {
				if s := f.peering("b").Status.Services; s == nil || s.Receiver != want {
					return fmt.Sprintf("%+v, want %q", s, want)
				}
				return ""
			})
		}
		until("b-0")
		f.link("b-1", true)
		f.link("b-0", false)
		until("b-1")
		f.link("b-0", true)
		until("b-1")
		f.link("b-1", false)
		until("b-0")
		f.link("b-0", false)
		until("")
	})
}

func TestWhatARemoteClusterMayNotExportIsRefused(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		refuse := func(why string, change func(*v1alpha1.ReceivedService)) {
			t.Helper()
			object := f.receivedService("b", record("web", "10.0.0.5"))
			change(object)
			_, err := f.ReceivedServices(gateways).Apply(t.Context(), object, "strait-gateway")
			must(t, err)
			f.untilSummary("b", "0 imported, 1 refused: "+why)
			if got := f.imported("web"); got != "none" {
				t.Errorf("%s: %s", why, got)
			}
			must(t, f.ReceivedServices(gateways).Delete(t.Context(), object.Name, metav1.DeleteOptions{}))
			f.untilSummary("b", "0 imported, 0 refused: ")
		}
		const foreign = "shop/web: its endpoints have addresses outside of the prefixes of the remote cluster"
		for _, address := range []string{"10.1.0.5", "10.71.0.5", "127.0.0.1", "169.254.169.254", "192.0.2.21", "x"} {
			refuse(foreign, func(r *v1alpha1.ReceivedService) { r.Spec.Service.Endpoints[0].Endpoints[0].Address = address })
		}
		refuse("elsewhere/web: namespace elsewhere does not exist", func(r *v1alpha1.ReceivedService) {
			r.Spec.Service.Namespace, r.Name = "elsewhere", "web.elsewhere.b"
		})
		refuse("shop/web: it belongs to no Peering", func(r *v1alpha1.ReceivedService) { r.OwnerReferences[0].UID = "of-another-peering" })
		refuse("shop/web: it belongs to no Peering", func(r *v1alpha1.ReceivedService) { r.Name = "other.shop.b" })
		refuse(`shop/web: "ICMP" is not a protocol`, func(r *v1alpha1.ReceivedService) { r.Spec.Service.Ports[0].Protocol = "ICMP" })

		mixed := record("web", "10.0.0.5", "10.96.0.1")
		f.receive("b", mixed)
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		f.untilSummary("b", "1 imported, 0 refused: shop/web: 1 of its endpoints have addresses outside of the prefixes of the remote cluster")
	})
}

func TestAPeeringLimitsWhatIsImported(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.lead()
		f.joined()
		permit := func(s v1alpha1.PeeringServices) {
			p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{Services: s}}
			_, err := f.Peerings().Apply(f.Context(), p, "limits")
			must(f.T, err)
		}
		permit(v1alpha1.PeeringServices{MaxServices: new(int32(2)), MaxEndpoints: new(int32(3))})
		for _, name := range []string{"one", "two", "three"} {
			f.receive("b", record(name, "10.0.0.5"))
			f.pause(time.Second) // the oldest fit
		}
		f.untilImported("one", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		f.untilImported("two", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		f.untilSummary("b", "2 imported, 1 refused: shop/three: the Peering permits 2 Services (spec.services.maxServices)")
		f.unreceive("b", "one")
		f.untilImported("three", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		f.receive("b", record("two", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8"))
		f.untilImported("two", "none")
		f.untilSummary("b", "1 imported, 1 refused: shop/two: with its 4 endpoints there would be more than the Peering permits, 3 (spec.services.maxEndpoints)")
		permit(v1alpha1.PeeringServices{MaxServices: new(int32(2)), MaxEndpoints: new(int32(5))})
		f.untilImported("two", "ClusterSetIP web 80/TCP from b: b 10.71.0.5, b 10.71.0.6, b 10.71.0.7, b 10.71.0.8")
		permit(v1alpha1.PeeringServices{ImportFrom: v1alpha1.ImportListed, Namespaces: []string{"elsewhere"}, MaxServices: new(int32(2)), MaxEndpoints: new(int32(5))})
		f.untilImported("two", "none")
		f.untilSummary("b", "0 imported, 2 refused: shop/three: namespace shop is not in spec.services.namespaces of the Peering; shop/two: namespace shop is not in spec.services.namespaces of the Peering")
		permit(v1alpha1.PeeringServices{ImportFrom: v1alpha1.ImportListed, Namespaces: []string{"shop"}, MaxServices: new(int32(2)), MaxEndpoints: new(int32(5))})
		f.untilImported("three", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		permit(v1alpha1.PeeringServices{ImportFrom: v1alpha1.ImportNone, MaxServices: new(int32(2)), MaxEndpoints: new(int32(5))})
		f.untilImported("three", "none")
	})
}

func TestImportsFollowNamespacesAndPeerings(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.receive("b", record("web", "10.0.0.5"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		must(t, f.Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}))
		f.untilSummary("b", "0 imported, 1 refused: shop/web: namespace shop does not exist")
		f.namespace("shop")
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		must(t, f.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
		f.untilImported("web", "none") // the ReceivedService is still there
	})
}

func TestObjectsOfOthersAreNotTouched(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		other := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.Headless, Ports: []mcsv1beta1.ServicePort{}}}
		created, err := f.ServiceImports("shop").Create(t.Context(), other, metav1.CreateOptions{})
		must(t, err)
		f.receive("b", record("web", "10.0.0.5"))
		const why = "ServiceImport shop/web is not of Strait; delete it, or remove the other implementation of the Multi-Cluster Services API"
		f.untilSummary("b", "0 imported, 1 refused: shop/web: "+why)
		f.serve("web", web())
		f.export("web", mcsv1beta1.ServiceExportSpec{})
		f.untilExport("web", mcsv1beta1.ServiceExportConditionReady, "True Exported the Service is offered to all remote clusters; it is not imported in this cluster: "+why)
		f.unexport("web")
		f.unreceive("b", "web")
		f.untilSummary("b", "0 imported, 0 refused: ")
		is, err := f.ServiceImports("shop").Get(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		if is.ResourceVersion != created.ResourceVersion {
			t.Errorf("the ServiceImport of another implementation became %+v", is)
		}

		derived := services.DerivedName("shop", "taken")
		f.serve(derived, web())
		f.receive("b", record("taken", "10.0.0.5"))
		f.until("the condition of the ServiceImport", func() string {
			is, err := f.ServiceImports("shop").Get(t.Context(), "taken", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			c := meta.FindStatusCondition(is.Status.Conditions, "Ready")
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "Pending" || !strings.Contains(c.Message, "Service "+derived+" exists, and Strait did not create it") {
				return fmt.Sprint(c)
			}
			return ""
		})
		if s, err := f.Services("shop").Get(t.Context(), derived, metav1.GetOptions{}); err != nil || len(s.Spec.Selector) == 0 || len(s.Labels) > 0 {
			t.Errorf("the Service of a user became %+v, %v", s, err)
		}
		must(t, f.Services("shop").Delete(t.Context(), derived, metav1.DeleteOptions{}))
		f.untilImported("taken", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
	})
}

func TestWhatIsEditedByHandIsRestored(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.receive("b", record("web", "10.0.0.5"))
		const want = "ClusterSetIP web 80/TCP from b: b 10.71.0.5"
		f.untilImported("web", want)
		slices, all := f.importedObjects("web")
		must(t, f.EndpointSlices("shop").Delete(t.Context(), slices[0].Name, metav1.DeleteOptions{}))
		f.untilImported("web", want)
		slices, _ = f.importedObjects("web")
		slices[0].Endpoints[0].Addresses = []string{"192.0.2.66"}
		_, err := f.EndpointSlices("shop").Update(t.Context(), &slices[0], metav1.UpdateOptions{})
		must(t, err)
		f.untilImported("web", want)
		all[0].Spec.Selector = map[string]string{"app": "stolen"}
		_, err = f.Services("shop").Update(t.Context(), &all[0], metav1.UpdateOptions{})
		must(t, err)
		f.until("the selector is gone", func() string {
			if s, err := f.Services("shop").Get(t.Context(), all[0].Name, metav1.GetOptions{}); err != nil || len(s.Spec.Selector) > 0 {
				return fmt.Sprint(s.Spec.Selector, err)
			}
			return ""
		})
		must(t, f.Services("shop").Delete(t.Context(), all[0].Name, metav1.DeleteOptions{}))
		f.untilImported("web", want)
		must(t, f.ServiceImports("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		f.untilImported("web", want)
	})
}

// The response to the write of an object can arrive after the object was deleted.
func TestAnImportIsRestoredThatIsDeletedWhileItIsWritten(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		var deleted atomic.Bool
		f.cluster.(memory).Late(func(q fakekube.Request) {
			if q.Verb == "update" && q.Resource == "serviceimports" && q.Subresource == "status" && deleted.CompareAndSwap(false, true) {
				must(t, f.ServiceImports("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
				sleep(time.Second / 10) // the controller is told of the deletion first
			}
		})
		f.receive("b", record("web", "10.0.0.5"))
		f.until("the import is deleted", func() string {
			if !deleted.Load() {
				return "it is not"
			}
			return ""
		})
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
	})
}

// writesOf counts the writes of the objects that exports and imports consist of.
func (f *fixture) writesOf() func() map[string]int {
	var mu sync.Mutex
	counts := make(map[string]int)
	f.cluster.(memory).Fail(func(q fakekube.Request) error {
		mu.Lock()
		defer mu.Unlock()
		switch q.Verb {
		case "create", "update", "patch", "delete":
			switch q.Resource {
			case "serviceexports", "serviceimports", "endpointslices", "exportedservices", "peerings":
				counts[q.Resource]++
			case "receivedservices":
				if q.Subresource == "status" {
					counts[q.Resource]++
				}
			case "services":
				if q.Namespace != gateways {
					counts[q.Resource]++
				}
			}
		}
		return nil
	})
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		was := counts
		counts = make(map[string]int)
		return was
	}
}

func TestAChangeOfAnEndpointIsOneWrite(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		stop := f.lead()
		f.joined()
		f.receive("b", record("web", "10.0.0.5", "10.0.0.6"))
		f.serve("own", web())
		f.endpoints("own", "10.0.0.5")
		f.export("own", mcsv1beta1.ServiceExportSpec{})
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5, b 10.71.0.6")
		f.untilImported("own", "ClusterSetIP web 80/TCP from a: a 10.0.0.5")
		f.pause(time.Minute)
		writes := f.writesOf()

		f.receive("b", record("web", "10.0.0.5", "10.0.0.7"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5, b 10.71.0.7")
		f.receive("b", record("web", "10.0.0.7"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.7")
		f.pause(time.Minute)
		if got := fmt.Sprint(writes()); got != "map[endpointslices:2]" {
			t.Errorf("two changes of a received Service: %s", got)
		}
		f.endpoints("own", "10.0.0.6") // one write of the test itself
		f.untilImported("own", "ClusterSetIP web 80/TCP from a: a 10.0.0.6")
		f.pause(time.Minute)
		if got := fmt.Sprint(writes()); got != "map[endpointslices:2 exportedservices:1]" {
			t.Errorf("a change of an exported Service: %s", got)
		}
		stop()
		f.lead()
		f.pause(time.Minute)
		if got := fmt.Sprint(writes()); got != "map[]" {
			t.Errorf("a new controller: %s", got)
		}
	})
}

func TestWithoutTheAPITheControllerWorksAndWaitsForIt(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		server := f.cluster.(memory)
		server.DeleteCRDs("multicluster.x-k8s.io")
		f.lead()
		f.joined()
		f.receive("b", record("web", "10.0.0.5"))
		f.pause(time.Minute)
		if !f.logged("the CRDs of the Multi-Cluster Services API (v1beta1) are not installed") {
			t.Error("no log line says that CRDs are missing")
		}
		server.InstallCRDs("multicluster.x-k8s.io")
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
	})
}

func TestAnUninstalledClusterHasNoImportsAndExports(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.receive("b", record("web", "10.0.0.5"))
		f.serve("web", web())
		f.endpoints("web", "10.0.0.5")
		f.export("web", mcsv1beta1.ServiceExportSpec{})
		f.untilImported("web", "ClusterSetIP web 80/TCP from a,b: a 10.0.0.5, b 10.71.0.5")
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.UninstallAnnotation)
		_, err := f.ClusterNetworks().Patch(t.Context(), "default", types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "test"})
		must(t, err)
		f.untilImported("web", "none")
		f.until("nothing is exported", func() string {
			exported, err := f.ExportedServices(gateways).List(t.Context(), metav1.ListOptions{})
			must(t, err)
			export, err := f.ServiceExports("shop").Get(t.Context(), "web", metav1.GetOptions{})
			must(t, err)
			if len(exported.Items)+len(export.Status.Conditions) > 0 {
				return fmt.Sprintf("%d ExportedServices, conditions %+v", len(exported.Items), export.Status.Conditions)
			}
			return ""
		})
	})
}

func TestWhatCannotBeExportedIsSaid(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.export("web", mcsv1beta1.ServiceExportSpec{})
		f.untilExport("web", mcsv1beta1.ServiceExportConditionValid, "False NoService Service shop/web does not exist")
		f.untilExport("web", mcsv1beta1.ServiceExportConditionReady, "False Pending ")
		f.serve("web", web())
		f.untilExport("web", mcsv1beta1.ServiceExportConditionValid, "True Valid ")
		f.untilImported("web", "ClusterSetIP web 80/TCP from a: ")
		must(t, f.Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		f.untilExport("web", mcsv1beta1.ServiceExportConditionValid, "False NoService ")
		f.untilImported("web", "none")

		f.receive("b", record("other", "10.0.0.5"))
		f.untilImported("other", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		derived := services.DerivedName("shop", "other")
		f.export(derived, mcsv1beta1.ServiceExportSpec{})
		f.untilExport(derived, mcsv1beta1.ServiceExportConditionValid, "False InvalidServiceType Service shop/"+derived+" is derived from a ServiceImport")
	})
}

func TestConflictsNameTheWinnerAndHowManyDiffer(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.lead()
		f.joinedByTwo()
		older := record("web", "10.0.0.5")
		older.ExportedAt = metav1.Unix(1, 0)
		older.Ports[0].Port = 81
		older.Labels = map[string]string{"tier": "back"}
		f.receive("c", older)
		f.receive("b", older)
		f.pause(2 * time.Second) // times of creation have a resolution of a second
		f.serve("web", web())
		f.endpoints("web", "10.0.0.5")
		f.export("web", mcsv1beta1.ServiceExportSpec{ExportedLabels: map[string]string{"tier": "front"}})
		f.untilImported("web", "ClusterSetIP web 81/TCP from a,b,c: b 10.71.0.5, c 10.72.0.5") // a has another number
		f.untilExport("web", mcsv1beta1.ServiceExportConditionConflict, "True PortConflict,LabelsConflict port web: 81/TCP of cluster b applies, the oldest export that has it; 1 of 3 clusters differs: a. exportedLabels: tier=\"back\" of cluster b applies")
		f.unreceive("b", "web")
		f.unreceive("c", "web")
		f.untilImported("web", "ClusterSetIP web 80/TCP from a: a 10.0.0.5")
		f.untilExport("web", mcsv1beta1.ServiceExportConditionConflict, "False NoConflicts")
	})
}

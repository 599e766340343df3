package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
)

func TestT10_APeeringLimitsTheBytesThatAreImported(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.lead()
		f.joined()
		permit := func(bytes int) {
			s := v1alpha1.PeeringServices{MaxServices: new(int32(10)), MaxEndpoints: new(int32(100)), MaxBytes: new(int32(bytes))}
			_, err := f.Peerings().Apply(f.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{Services: s}}, "limits")
			must(f.T, err)
		}
		one := record("one", "10.0.0.5")
		size := merge.Size(&one)
		permit(2*size + 10)
		for _, name := range []string{"one", "two", "six"} {
			f.receive("b", record(name, "10.0.0.5"))
			f.pause(time.Second) // the oldest fit
		}
		f.untilImported("two", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		f.untilImported("six", "none")
		f.untilSummary("b", fmt.Sprintf("2 imported, 1 refused: shop/six: with its %d bytes there would be more than the Peering permits, %d (spec.services.maxBytes)", size, 2*size+10))
		permit(3 * size)
		f.untilImported("six", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
	})
}

// Annotations of as many bytes as an object may have would make the ServiceImport, which has one
// more, invalid. A gateway refuses them; the controller does not rely on that.
func TestT10_LongAnnotationsAreNeitherExportedNorImported(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.lead()
		f.joined()
		long := map[string]string{"a.example/b": strings.Repeat("x", 256<<10-len("a.example/b"))}
		r := record("web", "10.0.0.5")
		r.Annotations = long
		f.receive("b", r)
		f.untilSummary("b", "0 imported, 1 refused: shop/web: it is larger than a record may be")
		r.Annotations = nil
		f.receive("b", r)
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")

		f.serve("own", web())
		f.export("own", mcsv1beta1.ServiceExportSpec{ExportedAnnotations: long})
		f.untilExport("own", mcsv1beta1.ServiceExportConditionReady, "False Failed the Service is not exported: its labels and annotations have 2621")
	})
}

package controller_test

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
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

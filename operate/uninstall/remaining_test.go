package uninstall

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services"
)

func TestImportsAndExportsAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		ctx := t.Context()
		_, err := w.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
		must(t, err)
		labels := map[string]string{services.ImportLabel: "web"}
		_, err = w.ServiceImports("shop").Create(ctx, &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels}}, metav1.CreateOptions{})
		must(t, err)
		_, err = w.ServiceImports("shop").Create(ctx, &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Name: "of-another-product"}}, metav1.CreateOptions{})
		must(t, err)
		_, err = w.Services("shop").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "derived-x", Labels: labels}}, metav1.CreateOptions{})
		must(t, err)
		_, err = w.ExportedServices("strait-gateways").Create(ctx, &v1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Name: "web.shop"}}, metav1.CreateOptions{})
		must(t, err)

		said, ended := w.prepare(w.options)
		w.until(said, "Service shop/derived-x")
		must(t, w.Services("shop").Delete(ctx, "derived-x", metav1.DeleteOptions{})) // as the garbage collector does
		for range said {
		}
		if _, err := ended(); err != nil {
			t.Fatal(err)
		}
		left, err := w.ServiceImports("shop").List(ctx, metav1.ListOptions{})
		must(t, err)
		if len(left.Items) != 1 || left.Items[0].Name != "of-another-product" {
			t.Errorf("ServiceImports: %+v", left.Items)
		}
		exported, err := w.ExportedServices("strait-gateways").List(ctx, metav1.ListOptions{})
		must(t, err)
		if len(exported.Items) > 0 {
			t.Errorf("ExportedServices: %+v", exported.Items)
		}
	})
}

func TestAClusterWithoutTheMultiClusterServicesAPIIsUninstalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.cluster.DeleteCRDs("multicluster.x-k8s.io")
		if _, err := Prepare(t.Context(), w.options); err != nil {
			t.Error(err)
		}
	})
}

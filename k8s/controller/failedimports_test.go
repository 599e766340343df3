package controller_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"strait.dev/strait/k8s/services"
	"strait.dev/strait/test/fakekube"
)

// An import that this cluster cannot write is counted as failed, with the reason, and as
// imported once it is.
func TestAnImportThatCannotBeWrittenIsCountedAsFailed(t *testing.T) {
	for _, resource := range []string{"services", "endpointslices", "serviceimports"} {
		t.Run(resource, func(t *testing.T) {
			inMemory(t, func(_ *testing.T, f *fixture) {
				f.lead()
				f.joined()
				stop := f.cluster.(memory).Server.Fail(func(q fakekube.Request) error {
					if q.Verb == "create" && q.Resource == resource && q.Namespace == "shop" {
						return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "x", errors.New("exceeded quota: objects, requested: 1, used: 5, limited: 5"))
					}
					return nil
				})
				f.receive("b", record("web", "10.0.0.5"))
				f.until("it is counted as failed", func() string {
					s := f.peering("b").Status.Services
					if s == nil || s.Failed != 1 || s.Imported != 0 || s.Refused != 0 || !strings.Contains(s.Message, "exceeded quota") {
						return fmt.Sprintf("%+v", s)
					}
					return ""
				})
				stop()
				f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
				f.untilSummary("b", "1 imported, 0 refused: ")
			})
		})
	}
}

func TestAnImportWhoseServiceIsTakenIsCountedAsFailed(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.serve(services.DerivedName("shop", "web"), web())
		f.receive("b", record("web", "10.0.0.5"))
		f.until("it is counted as failed", func() string {
			s := f.peering("b").Status.Services
			if s == nil || s.Failed != 1 || s.Imported != 0 || !strings.Contains(s.Message, "and Strait did not create it") {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
	})
}

// A Service of IP families that this cluster does not have is refused: no repetition imports it.
func TestAnImportWithoutAnIPFamilyOfTheClusterIsRefused(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		r := record("six")
		r.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
		f.receive("b", r)
		f.until("it is refused", func() string {
			s := f.peering("b").Status.Services
			if s == nil || s.Refused != 1 || s.Imported != 0 || s.Failed != 0 || !strings.Contains(s.Message, "IP families") {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
		if _, err := f.ServiceImports("shop").Get(t.Context(), "six", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

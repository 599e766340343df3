package lender_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"strait.dev/strait/offload/lender"
)

func TestNoMoreIsOfferedThanQuotasPermit(t *testing.T) {
	t.Parallel()
	list := func(pairs ...string) corev1.ResourceList {
		all := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			all[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return all
	}
	space := func(quotas ...corev1.ResourceList) lender.Namespace {
		of := lender.Namespace{Lent: true, Read: true}
		for _, hard := range quotas {
			of.Quotas = append(of.Quotas, &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: hard}})
		}
		return of
	}
	scoped := space(list("pods", "1"))
	scoped.Quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	for name, c := range map[string]struct {
		lent corev1.ResourceList
		of   map[string]lender.Namespace
		want corev1.ResourceList
	}{
		"no quota":                         {list("cpu", "8"), map[string]lender.Namespace{"a": space()}, list("cpu", "8")},
		"a quota limits":                   {list("cpu", "8", "memory", "4Gi"), map[string]lender.Namespace{"a": space(list("requests.cpu", "2"))}, list("cpu", "2", "memory", "4Gi")},
		"the sum of two quotas is more":    {list("cpu", "8"), map[string]lender.Namespace{"a": space(list("cpu", "5")), "b": space(list("cpu", "5"))}, list("cpu", "8")},
		"the least of a namespace's":       {nil, map[string]lender.Namespace{"a": space(list("pods", "9"), list("count/pods", "3"))}, list("pods", "3")},
		"one namespace has no quota":       {nil, map[string]lender.Namespace{"a": space(list("pods", "9")), "b": space()}, nil},
		"a namespace that is not lent":     {nil, map[string]lender.Namespace{"a": {Read: true, Quotas: space(list("pods", "1")).Quotas}, "b": space(list("pods", "7"))}, list("pods", "7")},
		"a quota for some of the pods":     {nil, map[string]lender.Namespace{"a": scoped}, nil},
		"nothing is lent, nothing limited": {nil, nil, nil},
	} {
		got := lender.Offer(c.lent, c.of)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for resource, q := range c.want {
			if is := got[resource]; !apiequality.Semantic.DeepEqual(is, q) {
				t.Errorf("%s: %s of %s, want %s", name, is.String(), resource, q.String())
			}
		}
	}
}

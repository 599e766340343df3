package lender

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quotaNames are the names under which a ResourceQuota limits what pods request.
var quotaNames = map[corev1.ResourceName][]corev1.ResourceName{
	corev1.ResourceCPU:    {corev1.ResourceCPU, corev1.ResourceRequestsCPU},
	corev1.ResourceMemory: {corev1.ResourceMemory, corev1.ResourceRequestsMemory},
	corev1.ResourcePods:   {corev1.ResourcePods, "count/pods"},
}

// Offer returns what the other cluster may use: of each resource the lesser of what is lent and of
// the quotas of all lent namespaces together. A resource that neither limits is not in it.
func Offer(lent corev1.ResourceList, namespaces map[string]Namespace) corev1.ResourceList {
	offer := lent.DeepCopy()
	for name, aliases := range quotaNames {
		sum, limited := resource.Quantity{}, false
		for _, of := range namespaces {
			if !of.Lent || !of.Read {
				continue
			}
			least, ok := leastQuota(of.Quotas, aliases)
			if !ok {
				limited = false
				break // this namespace has no limit
			}
			sum.Add(least)
			limited = true
		}
		if is, ok := offer[name]; limited && (!ok || sum.Cmp(is) < 0) {
			if offer == nil {
				offer = make(corev1.ResourceList)
			}
			offer[name] = sum
		}
	}
	return offer
}

// leastQuota returns the least limit of a resource in the quotas of a namespace. Quotas with a scope
// limit some pods only.
func leastQuota(quotas []*corev1.ResourceQuota, aliases []corev1.ResourceName) (least resource.Quantity, ok bool) {
	for _, quota := range quotas {
		if len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil {
			continue
		}
		for _, alias := range aliases {
			if q, has := quota.Spec.Hard[alias]; has && (!ok || q.Cmp(least) < 0) {
				least, ok = q, true
			}
		}
	}
	return least, ok
}

package translate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// TooLarge returns why a pod with a spec fits on no machine, if largest is the largest one; empty:
// it fits, or that is not known.
func TooLarge(spec *corev1.PodSpec, largest corev1.ResourceList) string {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		most, limited := largest[name]
		if !limited {
			continue
		}
		// Init containers run one after the other, sidecars beside those that follow.
		requests, beside := most.DeepCopy(), most.DeepCopy()
		requests.Set(0)
		beside.Set(0)
		for _, c := range spec.InitContainers {
			q := c.Resources.Requests[name]
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
				beside.Add(q)
				q = beside.DeepCopy()
			} else {
				q = q.DeepCopy()
				q.Add(beside)
			}
			if q.Cmp(requests) > 0 {
				requests = q
			}
		}
		for _, c := range spec.Containers {
			beside.Add(c.Resources.Requests[name])
		}
		if beside.Cmp(requests) > 0 {
			requests = beside
		}
		if requests.Cmp(most) > 0 {
			return fmt.Sprintf("the pod requests %s of %s, and the largest machine of the other cluster has %s; request less", requests.String(), name, most.String())
		}
	}
	return ""
}

package translate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TooLarge returns why a pod with a spec fits on no machine, if largest is the largest one; empty:
// it fits, or that is not known.
func TooLarge(spec *corev1.PodSpec, largest corev1.ResourceList) string {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		most, limited := largest[name]
		if !limited {
			continue
		}
		requests := Requests(spec, name)
		if requests.Cmp(most) > 0 {
			return fmt.Sprintf("the pod requests %s of %s, and the largest machine of the other cluster has %s; request less", requests.String(), name, most.String())
		}
	}
	return ""
}

// Requests returns what the containers of a pod request of a resource. Init containers run one
// after the other, sidecars beside those that follow.
func Requests(spec *corev1.PodSpec, name corev1.ResourceName) (most resource.Quantity) {
	var beside resource.Quantity
	for _, c := range spec.InitContainers {
		q := c.Resources.Requests[name].DeepCopy()
		q.Add(beside)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			beside = q.DeepCopy()
		}
		if q.Cmp(most) > 0 {
			most = q
		}
	}
	for _, c := range spec.Containers {
		beside.Add(c.Resources.Requests[name])
	}
	if beside.Cmp(most) > 0 {
		return beside
	}
	return most
}

package translate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
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

// NotLent returns a resource that a spec names and that is not lent, like a device; empty: there is
// none. CPU, memory and ephemeral storage are not named in what is lent if they have no limit.
func NotLent(spec *corev1.PodSpec, lent corev1.ResourceList) (foreign corev1.ResourceName) {
	of := []corev1.ResourceRequirements{ptr.Deref(spec.Resources, corev1.ResourceRequirements{})}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		of = append(of, c.Resources)
	}
	for _, r := range of {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			for name := range list {
				switch _, ok := lent[name]; {
				case ok, name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage:
				case foreign == "", name < foreign: // always the same one
					foreign = name
				}
			}
		}
	}
	return foreign
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

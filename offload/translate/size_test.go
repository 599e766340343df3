package translate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"strait.dev/strait/offload/translate"
)

func TestAPodThatFitsOnNoMachineIsTooLarge(t *testing.T) {
	t.Parallel()
	container := func(cpu string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	sidecar := func(cpu string) corev1.Container {
		c := container(cpu)
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		return c
	}
	largest := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	for name, c := range map[string]struct {
		spec  corev1.PodSpec
		large bool
	}{
		"it requests nothing":              {corev1.PodSpec{Containers: []corev1.Container{{}}}, false},
		"its containers fit together":      {corev1.PodSpec{Containers: []corev1.Container{container("2"), container("2")}}, false},
		"they do not":                      {corev1.PodSpec{Containers: []corev1.Container{container("2"), container("2001m")}}, true},
		"init containers run one by one":   {corev1.PodSpec{InitContainers: []corev1.Container{container("3"), container("3")}, Containers: []corev1.Container{container("1")}}, false},
		"one of them does not fit":         {corev1.PodSpec{InitContainers: []corev1.Container{container("5")}}, true},
		"a sidecar runs beside containers": {corev1.PodSpec{InitContainers: []corev1.Container{sidecar("2")}, Containers: []corev1.Container{container("3")}}, true},
		"and beside later init containers": {corev1.PodSpec{InitContainers: []corev1.Container{sidecar("2"), container("3")}}, true},
		"but not beside earlier ones":      {corev1.PodSpec{InitContainers: []corev1.Container{container("3"), sidecar("2")}}, false},
	} {
		if why := translate.TooLarge(&c.spec, largest); (why != "") != c.large {
			t.Errorf("%s: %q", name, why)
		}
		if why := translate.TooLarge(&c.spec, nil); why != "" {
			t.Errorf("%s, the largest machine is not known: %q", name, why)
		}
	}
}

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

func TestADeviceThatIsNotLentIsFound(t *testing.T) {
	t.Parallel()
	list := func(names ...corev1.ResourceName) corev1.ResourceList {
		all := make(corev1.ResourceList)
		for _, name := range names {
			all[name] = resource.MustParse("1")
		}
		return all
	}
	containers := func(r corev1.ResourceRequirements) []corev1.Container { return []corev1.Container{{}, {Resources: r}} }
	lent := list(corev1.ResourceCPU, "example.com/lent")
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want corev1.ResourceName
	}{
		"nothing":          {corev1.PodSpec{Containers: containers(corev1.ResourceRequirements{})}, ""},
		"ordinary ones":    {corev1.PodSpec{Containers: containers(corev1.ResourceRequirements{Requests: list(corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage)})}, ""},
		"one that is lent": {corev1.PodSpec{Containers: containers(corev1.ResourceRequirements{Limits: list("example.com/lent")})}, ""},
		"a request":        {corev1.PodSpec{Containers: containers(corev1.ResourceRequirements{Requests: list("example.com/lent", "example.com/gpu")})}, "example.com/gpu"},
		"a limit":          {corev1.PodSpec{InitContainers: containers(corev1.ResourceRequirements{Limits: list("example.com/gpu", "hugepages-2Mi")})}, "example.com/gpu"},
		"the pod's own":    {corev1.PodSpec{Resources: &corev1.ResourceRequirements{Limits: list("hugepages-2Mi")}}, "hugepages-2Mi"},
	} {
		if got := translate.NotLent(&c.spec, lent); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

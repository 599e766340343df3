package translate

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A new field of the API fails this test until it has a verdict. At run
// time it is refused.
func TestEveryFieldOfTheAPIHasAVerdict(t *testing.T) {
	t.Parallel()
	for of, verdicts := range map[reflect.Type]map[string]verdict{
		reflect.TypeFor[corev1.PodSpec]():            specFields,
		reflect.TypeFor[corev1.Container]():          containerFields,
		reflect.TypeFor[corev1.SecurityContext]():    securityFields,
		reflect.TypeFor[corev1.PodSecurityContext](): podSecurityFields,
		reflect.TypeFor[corev1.EnvVarSource]():       envSourceFields,
		reflect.TypeFor[corev1.EnvFromSource]():      envFromFields,
	} {
		for i := range of.NumField() {
			if _, known := verdicts[of.Field(i).Name]; !known {
				t.Errorf("%v.%s has no verdict", of, of.Field(i).Name)
			}
		}
		for name := range verdicts {
			if _, is := of.FieldByName(name); !is {
				t.Errorf("%v has no field %s", of, name)
			}
		}
	}
}

package translate_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

func TestReferencesAreThoseOfTheWholePod(t *testing.T) {
	t.Parallel()
	yes := new(true)
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	spec := &corev1.PodSpec{
		InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("all")}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("all"), Optional: yes}},
		}}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("some"), Optional: yes}}},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("key")}}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "D", Value: "literal"},
		}}},
		Volumes: []corev1.Volume{
			{Name: "m", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("some")}}},
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "file", Optional: yes}}},
			{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("projected")}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: named("key"), Optional: yes}},
			}}}},
			{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("kube-root-ca.crt")}},
			}}}},
		},
		ImagePullSecrets: []corev1.LocalObjectReference{named("pull")},
	}
	want := []translate.Reference{
		{Kind: "ConfigMap", Name: "all"}, {Kind: "ConfigMap", Name: "projected"}, {Kind: "ConfigMap", Name: "some"},
		{Kind: "Secret", Name: "all", Optional: true}, {Kind: "Secret", Name: "file", Optional: true},
		{Kind: "Secret", Name: "key"}, {Kind: "Secret", Name: "pull", Optional: true},
	}
	if got := translate.PodReferences(&corev1.Pod{Spec: *spec}); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := translate.References(spec); len(got) != len(want)+1 {
		t.Errorf("the provider overlooks a reference: %+v", got)
	}
	spec.Volumes = spec.Volumes[:3]
	if err := translate.Judge(&corev1.PodTemplateSpec{Spec: *spec}); err != nil {
		t.Errorf("the references are refused: %v", err)
	}
}

func TestEqualObjectsHaveEqualContents(t *testing.T) {
	t.Parallel()
	hash := func(c *protocol.Content) string {
		t.Helper()
		text, hash, err := protocol.EncodeContent(c)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := protocol.DecodeContent(text, hash)
		if err != nil {
			t.Fatal(err)
		}
		if _, again, err := protocol.EncodeContent(decoded); err != nil || again != hash {
			t.Errorf("decoded and encoded, it has another hash, %v", err)
		}
		return hash
	}
	is := &corev1.ConfigMap{Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": nil}}
	copied := translate.ConfigMap("a", "shop", "m", &protocol.ConfigMap{Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {}}})
	if hash(translate.ConfigMapContent(is)) != hash(translate.ConfigMapContent(copied)) {
		t.Error("a ConfigMap and its copy differ")
	}
	if hash(translate.ConfigMapContent(&corev1.ConfigMap{})) == hash(translate.ConfigMapContent(is)) {
		t.Error("different ConfigMaps do not differ")
	}
	if _, err := translate.SecretContent(&corev1.Secret{Type: corev1.SecretTypeServiceAccountToken}); err == nil {
		t.Error("the token of a service account is carried over")
	}
	if err := translate.JudgeContent(protocol.KindConfigMap, &protocol.Content{Secret: &protocol.Secret{}}); err == nil {
		t.Error("the content of a Secret is accepted for a ConfigMap")
	}
}

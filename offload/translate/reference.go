package translate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"strait.dev/strait/offload/protocol"
)

// Reference is a ConfigMap or Secret, in the namespace of a pod, to which the pod refers.
type Reference struct {
	Kind     string // as in the protocol
	Name     string
	Optional bool // the pod starts without it, too
}

// PodReferences returns what a pod of the consumer refers to: References, without what belongs to
// the token that admission adds.
func PodReferences(pod *corev1.Pod) []Reference {
	spec := pod.Spec.DeepCopy()
	withoutToken(spec)
	return References(spec)
}

// References returns what a spec refers to, sorted by kind and name. An object that is optional in
// one place and not in another is not optional.
func References(spec *corev1.PodSpec) (all []Reference) {
	optional := make(map[Reference]bool)
	refer := func(kind, name string, mayBeAbsent *bool) {
		if name == "" {
			return // there is no such reference, or it is optional and names nothing
		}
		of := Reference{Kind: kind, Name: name}
		was, known := optional[of]
		optional[of] = ptr.Deref(mayBeAbsent, false) && (was || !known)
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, from := range c.EnvFrom {
			m, s := ptr.Deref(from.ConfigMapRef, corev1.ConfigMapEnvSource{}), ptr.Deref(from.SecretRef, corev1.SecretEnvSource{})
			refer(protocol.KindConfigMap, m.Name, m.Optional)
			refer(protocol.KindSecret, s.Name, s.Optional)
		}
		for _, e := range c.Env {
			from := ptr.Deref(e.ValueFrom, corev1.EnvVarSource{})
			m, s := ptr.Deref(from.ConfigMapKeyRef, corev1.ConfigMapKeySelector{}), ptr.Deref(from.SecretKeyRef, corev1.SecretKeySelector{})
			refer(protocol.KindConfigMap, m.Name, m.Optional)
			refer(protocol.KindSecret, s.Name, s.Optional)
		}
	}
	for _, v := range spec.Volumes {
		m, s := ptr.Deref(v.ConfigMap, corev1.ConfigMapVolumeSource{}), ptr.Deref(v.Secret, corev1.SecretVolumeSource{})
		refer(protocol.KindConfigMap, m.Name, m.Optional)
		refer(protocol.KindSecret, s.SecretName, s.Optional)
		for _, source := range ptr.Deref(v.Projected, corev1.ProjectedVolumeSource{}).Sources {
			m, s := ptr.Deref(source.ConfigMap, corev1.ConfigMapProjection{}), ptr.Deref(source.Secret, corev1.SecretProjection{})
			refer(protocol.KindConfigMap, m.Name, m.Optional)
			refer(protocol.KindSecret, s.Name, s.Optional)
		}
	}
	for _, r := range spec.ImagePullSecrets {
		refer(protocol.KindSecret, r.Name, new(true)) // a kubelet pulls without one that is absent
	}
	for of, is := range optional {
		of.Optional = is
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b Reference) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return all
}

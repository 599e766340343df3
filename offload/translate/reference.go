package translate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
			return // of an optional reference that names nothing
		}
		of := Reference{Kind: kind, Name: name}
		was, known := optional[of]
		optional[of] = mayBeAbsent != nil && *mayBeAbsent && (was || !known)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, from := range containers[i].EnvFrom {
				if r := from.ConfigMapRef; r != nil {
					refer(protocol.KindConfigMap, r.Name, r.Optional)
				}
				if r := from.SecretRef; r != nil {
					refer(protocol.KindSecret, r.Name, r.Optional)
				}
			}
			for _, e := range containers[i].Env {
				if e.ValueFrom == nil {
					continue
				}
				if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
					refer(protocol.KindConfigMap, r.Name, r.Optional)
				}
				if r := e.ValueFrom.SecretKeyRef; r != nil {
					refer(protocol.KindSecret, r.Name, r.Optional)
				}
			}
		}
	}
	for _, v := range spec.Volumes {
		if r := v.ConfigMap; r != nil {
			refer(protocol.KindConfigMap, r.Name, r.Optional)
		}
		if r := v.Secret; r != nil {
			refer(protocol.KindSecret, r.SecretName, r.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if r := source.ConfigMap; r != nil {
				refer(protocol.KindConfigMap, r.Name, r.Optional)
			}
			if r := source.Secret; r != nil {
				refer(protocol.KindSecret, r.Name, r.Optional)
			}
		}
	}
	yes := true
	for _, r := range spec.ImagePullSecrets {
		refer(protocol.KindSecret, r.Name, &yes) // a kubelet pulls without one that is absent
	}
	for of, is := range optional {
		of.Optional = is
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b Reference) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return all
}

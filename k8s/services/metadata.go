package services

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/services/merge"
)

// Other controllers and admission policies set labels, annotations and owners of their own on
// the objects of imports. They are kept: removing them would change the object again and again.

// exportedAnnotation of a ServiceImport has the keys of the labels and annotations that exports
// have set on it, as JSON, so that those are removed which no export sets any more.
const exportedAnnotation = "strait.dev/exported"

// exportedKeys is the value of exportedAnnotation. The lists are sorted.
type exportedKeys struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

// importMetadata returns the labels and annotations of a ServiceImport: those of the exports,
// and those of others. nil: it does not exist.
func importMetadata(is *mcsv1beta1.ServiceImport, merged merge.Import) (labels, annotations map[string]string) {
	var was exportedKeys
	if is != nil {
		if json.Unmarshal([]byte(is.Annotations[exportedAnnotation]), &was) == nil {
			labels, annotations = maps.Clone(is.Labels), maps.Clone(is.Annotations)
		} // otherwise a release wrote it that kept nothing of others
	}
	labels, annotations = withOwn(labels, merged.Labels, was.Labels...), withOwn(annotations, merged.Annotations, was.Annotations...)
	keys, err := json.Marshal(exportedKeys{slices.Sorted(maps.Keys(merged.Labels)), slices.Sorted(maps.Keys(merged.Annotations))})
	if err != nil {
		panic(err) // strings can be encoded as JSON
	}
	annotations[exportedAnnotation] = string(keys)
	return labels, annotations
}

// withOwn returns labels or annotations of an object with own ones, and without those of the
// keys gone that are not among them.
func withOwn(is, own map[string]string, gone ...string) map[string]string {
	all := make(map[string]string, len(is)+len(own))
	maps.Copy(all, is)
	for _, key := range gone {
		delete(all, key)
	}
	maps.Copy(all, own)
	return all
}

// withOwner returns the owners of an object with own, in place of an earlier object of that
// name.
func withOwner(is []metav1.OwnerReference, own metav1.OwnerReference) []metav1.OwnerReference {
	if slices.Contains(is, own) {
		return is
	}
	all := slices.DeleteFunc(slices.Clone(is), func(o metav1.OwnerReference) bool {
		return o.APIVersion == own.APIVersion && o.Kind == own.Kind && o.Name == own.Name
	})
	return append(all, own)
}

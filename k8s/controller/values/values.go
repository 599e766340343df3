// Package values parses the fields of objects that an installation sets, such as values of the
// chart.
package values

import (
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
)

// ParseTemplate parses the fields of its gateways' pods that an installation sets, as YAML
// of a PodTemplateSpec: annotations, tolerations, node selectors, affinities, a priority
// class, pull secrets; for the container gateway also an image, resources and environment;
// and other containers. Strait's own fields take precedence. An error names the field.
func ParseTemplate(text []byte) (*corev1.PodTemplateSpec, error) {
	template := new(corev1.PodTemplateSpec)
	_, err := parseStrict(text, template)
	if err != nil {
		return nil, fmt.Errorf("not a pod template: %w; write metadata and spec as in the template of a StatefulSet", err)
	}
	names := make(map[string]bool)
	for i, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		if c.Name == "" {
			return nil, fmt.Errorf("container %d of the pod template has no name; Strait's container is named %s", i, install.Gateway)
		}
		if names[c.Name] {
			return nil, fmt.Errorf("two containers of the template are named %s; rename one", c.Name)
		}
		names[c.Name] = true
	}
	return template, nil
}

// parseStrict parses YAML into a pointer to a structure and rejects unknown and duplicate
// fields. It returns only the fields that the text contains.
func parseStrict(text []byte, into any) (map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, into); err != nil { // names a field of the wrong type
		return nil, err
	}
	fields := make(map[string]any)
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	// This names unknown fields.
	again := reflect.New(reflect.TypeOf(into).Elem()).Interface()
	return fields, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, again, true)
}

// ParseNetwork parses the fields of a ClusterNetwork's spec that an installation sets, as
// YAML; empty text is valid. An error names the field. The API server validates the values.
func ParseNetwork(text []byte) (map[string]any, error) {
	fields, err := parseStrict(text, new(v1alpha1.ClusterNetworkSpec))
	if err != nil {
		return nil, fmt.Errorf("not the spec of a ClusterNetwork: %w; see kubectl explain clusternetworks.spec", err)
	}
	if fields == nil { // the text is null
		fields = make(map[string]any)
	}
	return fields, nil
}

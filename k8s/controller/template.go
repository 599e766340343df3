package controller

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// ParseTemplate reads what an installation wants of its gateways' pods, as YAML of a
// PodTemplateSpec: annotations, tolerations, node selectors, affinities, a priority class,
// pull secrets; of the container gateway also an image, resources and environment; and
// other containers. Strait's own fields are put over it. An error names the field.
func ParseTemplate(text []byte) (*corev1.PodTemplateSpec, error) {
	template := new(corev1.PodTemplateSpec)
	_, err := parseStrict(text, template)
	if err != nil {
		return nil, fmt.Errorf("not a template of pods: %w; write metadata and spec as in the template of a StatefulSet", err)
	}
	names := make(map[string]bool)
	for i, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		if c.Name == "" {
			return nil, fmt.Errorf("container %d of the template has no name; that of Strait is named %s", i, gatewayContainer)
		}
		if names[c.Name] {
			return nil, fmt.Errorf("two containers of the template are named %s; rename one", c.Name)
		}
		names[c.Name] = true
	}
	return template, nil
}

// parseStrict reads YAML into a pointer to a structure, without a field that there is not and
// without one twice. It returns what the text says of fields, and no more.
func parseStrict(text []byte, into any) (map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, into); err != nil { // says of which field the type is wrong
		return nil, err
	}
	fields := make(map[string]any)
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	// This says where an unknown field is.
	again := reflect.New(reflect.TypeOf(into).Elem()).Interface()
	return fields, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, again, true)
}

// Check says what is missing.
func (g Gateways) Check() error {
	switch {
	case g.Namespace == "":
		return errors.New("gateways have no namespace; name one with --gateway-namespace")
	case g.ServiceAccount == "":
		return errors.New("gateways have no service account; name one with --gateway-service-account")
	case g.Image == "" && !g.templateHasImage():
		return errors.New("gateways have no image; name one with --gateway-image, or in the template")
	}
	return nil
}

func (g Gateways) templateHasImage() bool {
	return g.Template != nil && slices.ContainsFunc(g.Template.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == gatewayContainer && c.Image != ""
	})
}

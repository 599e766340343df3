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
			return nil, fmt.Errorf("container %d of the pod template has no name; Strait's container is named %s", i, gatewayContainer)
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

// Check returns an error that names a missing option.
func (g Gateways) Check() error {
	switch {
	case g.Namespace == "":
		return errors.New("the namespace of the gateways is missing; set --gateway-namespace")
	case g.ServiceAccount == "":
		return errors.New("the service account of the gateways is missing; set --gateway-service-account")
	case g.Image == "" && !g.templateHasImage():
		return errors.New("the image of the gateways is missing; set --gateway-image, or an image in the pod template")
	}
	return nil
}

func (g Gateways) templateHasImage() bool {
	return g.Template != nil && slices.ContainsFunc(g.Template.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == gatewayContainer && c.Image != ""
	})
}

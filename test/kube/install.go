package kube

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

var customResourceDefinitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// InstallCRDs applies the CustomResourceDefinitions in the YAML files of a directory, one
// per file, and waits until the API server serves their resources. It may be called again,
// also with other versions of them.
func (c *Cluster) InstallCRDs(t testing.TB, folder fs.FS) {
	t.Helper()
	files, err := fs.Glob(folder, "*.yaml")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no CustomResourceDefinition to install: the directory has no *.yaml")
	}
	client, err := dynamic.NewForConfig(c.Admin())
	must(t, err)
	var definitions []*unstructured.Unstructured
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		must(t, err)
		definition := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(text, &definition.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		applied, err := client.Resource(customResourceDefinitions).Apply(t.Context(), definition.GetName(), definition,
			metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		definitions = append(definitions, applied)
	}
	c.awaitServed(t, client, definitions)
}

// AwaitCRDs waits until the API server serves the resources of all its
// CustomResourceDefinitions. One that is deleted earlier may stay for 5 minutes: the API
// server fails to list its instances and does not retry before its caches are
// resynchronized.
func (c *Cluster) AwaitCRDs(t testing.TB) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Admin())
	must(t, err)
	list, err := client.Resource(customResourceDefinitions).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	var definitions []*unstructured.Unstructured
	for i := range list.Items {
		definitions = append(definitions, &list.Items[i])
	}
	c.awaitServed(t, client, definitions)
}

// InstallPolicies applies the objects of YAML documents of admissionregistration.k8s.io. The
// API server enforces them some time later.
func (c *Cluster) InstallPolicies(t testing.TB, documents []byte) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Admin())
	must(t, err)
	for _, text := range bytes.Split(documents, []byte("\n---\n")) {
		policy := &unstructured.Unstructured{}
		must(t, yaml.UnmarshalStrict(text, &policy.Object))
		resource := policy.GroupVersionKind().GroupVersion().WithResource(policyResources[policy.GetKind()])
		_, err := client.Resource(resource).Apply(t.Context(), policy.GetName(), policy, metav1.ApplyOptions{FieldManager: "test", Force: true})
		must(t, err)
	}
}

var policyResources = map[string]string{
	"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}

func (c *Cluster) awaitServed(t testing.TB, client dynamic.Interface, definitions []*unstructured.Unstructured) {
	t.Helper()
	for _, definition := range definitions {
		until(t, c.server, definition.GetName()+" is served", func(ctx context.Context) error {
			return served(ctx, client, definition.GetName())
		})
	}
}

// served returns an error until all versions of a definition are served.
func served(ctx context.Context, client dynamic.Interface, name string) error {
	definition, err := client.Resource(customResourceDefinitions).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	resource := schema.GroupVersionResource{}
	resource.Group, _, _ = unstructured.NestedString(definition.Object, "spec", "group")
	resource.Resource, _, _ = unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		version := version.(map[string]any)
		if serve, _ := version["served"].(bool); !serve {
			continue
		}
		resource.Version, _ = version["name"].(string)
		if _, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return fmt.Errorf("%s: %w; its conditions: %v", resource, err, definition.Object["status"])
		}
	}
	return nil
}

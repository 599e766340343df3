//go:build apiserver

package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/test/kube"
)

// foreign are resource types of the Prometheus operator. Other tests check their content.
const foreign = "PodMonitor,PrometheusRule"

// Every field of every object, and of the examples on the chart's page, is known to a real
// API server and has the right type.
func TestEveryObjectConformsToTheSchema(t *testing.T) {
	t.Parallel()
	conform := kube.Program(t, "kubeconform")
	cluster := kube.Shared(t)
	cluster.InstallCRDs(t, crds.Files)
	var schemas string
	kube.Until(t, "the API server publishes Strait's schemas", func() string {
		schemas = writeSchemas(t, cluster)
		for _, kind := range []string{"addressclaim", "addressmapping", "clusternetwork", "nodeattachment", "peering"} {
			if _, err := os.Stat(filepath.Join(schemas, "strait.dev_v1alpha1_"+kind+".json")); err != nil {
				return err.Error() // it publishes the schemas of CRDs one by one
			}
		}
		return ""
	})
	check := func(text string) (string, error) {
		command := exec.CommandContext(t.Context(), conform, "-strict", "-skip", foreign,
			"-schema-location", filepath.Join(schemas, "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json"))
		command.Stdin = strings.NewReader(text)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	for name, args := range renders {
		text, err := template(t, args...)
		must(t, err)
		if out, err := check(text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if out, err := check(examples(t)); err != nil {
		t.Errorf("the examples: %v\n%s", err, out)
	}
	for _, wrong := range []string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replica: 1, selector: {}, template: {}}}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, nom: b}}",
		"{apiVersion: strait.dev/v1alpha1, kind: Peering, metadata: {name: b}, spec: {clusterId: b}}",
		"{apiVersion: strait.dev/v1alpha1, kind: Pearing, metadata: {name: b}}",
	} {
		if _, err := check(wrong); err == nil {
			t.Errorf("accepted: %s", wrong)
		}
	}
}

// examples returns the examples in the chart's annotations, as YAML documents.
func examples(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "Chart.yaml"))
	must(t, err)
	var chart struct {
		Annotations map[string]string `json:"annotations"`
	}
	must(t, yaml.Unmarshal(text, &chart))
	var all []any
	must(t, yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/crdsExamples"]), &all))
	var documents []string
	for _, one := range all {
		documents = append(documents, asYAML(t, one))
	}
	if len(documents) == 0 {
		t.Fatal("no examples")
	}
	return strings.Join(documents, "---\n")
}

// writeSchemas writes a file per resource type of the API server, from its published
// schemas, and returns their directory. Unlisted fields are rejected.
func writeSchemas(t *testing.T, cluster *kube.Cluster) (dir string) {
	t.Helper()
	dir = t.TempDir()
	paths, err := cluster.Kubernetes().Discovery().OpenAPIV3().Paths()
	must(t, err)
	for path, of := range paths {
		if path != "api/v1" && !strings.HasPrefix(path, "apis/") {
			continue
		}
		text, err := of.Schema("application/json")
		must(t, err)
		var document struct {
			Components struct {
				Schemas map[string]map[string]any `json:"schemas"`
			} `json:"components"`
		}
		must(t, json.Unmarshal(text, &document))
		for _, schema := range document.Components.Schemas {
			closeSchema(schema)
		}
		for name, schema := range document.Components.Schemas {
			kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
			for _, one := range kinds {
				kind := one.(map[string]any)
				group, version := kind["group"].(string), kind["version"].(string)
				if group == "" {
					group = version // as in kubeconform
				}
				file, err := json.Marshal(map[string]any{"$ref": "#/components/schemas/" + name, "components": document.Components})
				must(t, err)
				must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s_%s_%s.json", group, version, strings.ToLower(kind["kind"].(string)))), file, 0o644))
			}
		}
	}
	return dir
}

// closeSchema rejects fields that are not in the schema.
func closeSchema(schema map[string]any) {
	properties, ok := schema["properties"].(map[string]any)
	if ok && schema["additionalProperties"] == nil && schema["x-kubernetes-preserve-unknown-fields"] != true {
		schema["additionalProperties"] = false
	}
	for _, one := range properties {
		closeSchema(one.(map[string]any))
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if of, ok := schema[inner].(map[string]any); ok {
			closeSchema(of)
		}
	}
}

package chart

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/crds"
)

// Every object in the schema lists its fields: any other is a mistake.
func TestSchemaHasExactlyTheValues(t *testing.T) {
	schema := readSchema(t)
	closed(t, "", schema)
	text, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	must(t, err)
	var values map[string]any
	must(t, yaml.UnmarshalStrict(text, &values))
	known(t, "", schema["properties"].(map[string]any), values)
}

// open are objects of Kubernetes' types, which the API server checks.
var open = []string{
	"global", "strings", "quantities", "objects.items", "environment.items.valueFrom", "topologySpreadConstraints.items.labelSelector",
	"affinity.nodeAffinity", "affinity.podAffinity", "affinity.podAntiAffinity",
	"networkPolicy.metricsFrom.items.podSelector", "networkPolicy.metricsFrom.items.namespaceSelector", "networkPolicy.metricsFrom.items.ipBlock",
}

func closed(t *testing.T, path string, schema map[string]any) {
	if schema["type"] == "object" && schema["additionalProperties"] != false && !slices.Contains(open, strings.TrimPrefix(path, ".")) {
		t.Errorf("%s of the schema accepts any field", path)
	}
	for _, group := range []string{"properties", "definitions"} {
		of, _ := schema[group].(map[string]any)
		for name, one := range of {
			closed(t, path+"."+name, one.(map[string]any))
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		closed(t, path+".items", items)
	}
}

// known checks that the schema has exactly the values with a default. A value whose schema
// is a definition is checked as a whole.
func known(t *testing.T, path string, properties map[string]any, values map[string]any) {
	for name := range values {
		if properties[name] == nil {
			t.Errorf("%s%s is in values.yaml but not in the schema", path, name)
		}
	}
	for name, one := range properties {
		value, ok := values[name]
		if !ok && path+name != "global" {
			t.Errorf("%s%s is in the schema but not in values.yaml", path, name)
		}
		inner, isObject := one.(map[string]any)["properties"].(map[string]any)
		if under, ok := value.(map[string]any); ok && isObject && path+name != "clusterNetwork" {
			known(t, path+name+".", inner, under)
		}
	}
}

func readSchema(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "values.schema.json"))
	must(t, err)
	var schema map[string]any
	must(t, json.Unmarshal(text, &schema))
	return schema
}

// clusterNetwork matches the line of clusterNetwork in the schema.
var clusterNetwork = regexp.MustCompile(`(?m)^    "clusterNetwork": .*,$`)

func TestSchemaOfTheClusterNetworkMatchesItsCRD(t *testing.T) {
	text, err := crds.Files.ReadFile("strait.dev_clusternetworks.yaml")
	must(t, err)
	definition := objects(t, string(text))[0]
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	must(t, err)
	spec, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
	must(t, err)
	fields, err := json.Marshal(plain(spec))
	must(t, err)
	path := filepath.Join(folder, "values.schema.json")
	was, err := os.ReadFile(path)
	must(t, err)
	want := clusterNetwork.ReplaceAllLiteral(was, []byte(`    "clusterNetwork": `+string(fields)+","))
	if *update {
		must(t, os.WriteFile(path, want, 0o644))
	} else if !bytes.Equal(was, want) || !clusterNetwork.Match(was) {
		t.Error("clusterNetwork in values.schema.json differs from its CRD; run the test with -update")
	}
}

// Validation rules that have a form in JSON schema.
var (
	matches = regexp.MustCompile(`^self\.matches\('(.*)'\)$`)
	zeroOr  = regexp.MustCompile(`^self == 0 \|\| self >= (\d+) && self <= (\d+)$`)
)

// cidr matches a CIDR of IPv4, or what could be one of IPv6; the API server checks the rest.
const cidr = `^(((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])/(3[0-2]|[12]?[0-9])` +
	`|[0-9a-fA-F]*:[0-9a-fA-F:.]*/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$`

// plain returns a schema of a CRD in plain JSON schema. Of its validation rules it keeps
// those that have a form there.
func plain(schema map[string]any) map[string]any {
	kept := make(map[string]any)
	for _, name := range []string{"type", "maxLength", "maxItems", "minItems", "enum", "pattern", "minimum", "maximum"} {
		if value, ok := schema[name]; ok {
			kept[name] = value
		}
	}
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, one := range rules {
		rule := one.(map[string]any)["rule"].(string)
		if pattern := matches.FindStringSubmatch(rule); pattern != nil {
			kept["pattern"] = pattern[1]
		}
		if strings.HasPrefix(rule, "isCIDR(self)") {
			kept["pattern"] = cidr
		}
		if bounds := zeroOr.FindStringSubmatch(rule); bounds != nil {
			kept["anyOf"] = []any{map[string]any{"const": 0}, map[string]any{"minimum": json.Number(bounds[1]), "maximum": json.Number(bounds[2])}}
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		kept["items"] = plain(items)
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		of := make(map[string]any)
		for name, one := range properties {
			of[name] = plain(one.(map[string]any))
		}
		kept["properties"], kept["additionalProperties"] = of, false
	}
	return kept
}

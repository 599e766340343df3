package chart

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/rbac"
)

var update = flag.Bool("update", false, "update the golden files, the schema and the table of values")

// folder is the directory of the chart.
const folder = "../../charts/strait"

func TestFilesOfTheChartMatchTheCode(t *testing.T) {
	for program, want := range map[string][]byte{
		"controller": rbac.Controller, "gateway": rbac.Gateway, "node": rbac.Node, "uninstall": rbac.Uninstall, "verify": rbac.Verify, "admission": rbac.Admission,
	} {
		same(t, filepath.Join(folder, "files/rbac", program+".yaml"), want)
	}
	definitions, err := crds.Files.ReadDir(".")
	must(t, err)
	for _, file := range definitions {
		want, err := crds.Files.ReadFile(file.Name())
		must(t, err)
		same(t, filepath.Join(folder, "files/crds", file.Name()), want)
	}
	for file, want := range map[string][]byte{"serviceexports": mcscrds.ServiceExportCRD, "serviceimports": mcscrds.ServiceImportCRD} {
		same(t, filepath.Join(folder, "files/multicluster/multicluster.x-k8s.io_"+file+".yaml"), want)
	}
	copies, err := os.ReadDir(filepath.Join(folder, "files/crds"))
	must(t, err)
	if len(copies) != len(definitions) {
		t.Errorf("%d CRDs in the chart, %d in the code; run: go generate ./k8s/...", len(copies), len(definitions))
	}
}

// Artifact Hub shows the custom resources that the annotation of the chart lists.
func TestTheChartListsItsCustomResources(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "Chart.yaml"))
	must(t, err)
	var chart struct{ Annotations map[string]string }
	must(t, yaml.Unmarshal(text, &chart))
	var listed []struct{ Kind, Version, Name, DisplayName, Description string }
	must(t, yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/crds"]), &listed))
	definitions, err := crds.Files.ReadDir(".")
	must(t, err)
	for _, file := range definitions {
		text, err := crds.Files.ReadFile(file.Name())
		must(t, err)
		definition := objects(t, string(text))[0]
		kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		found := 0
		for _, l := range listed {
			if l.Kind == kind && l.Name == definition.GetName() && l.Version == "v1alpha1" && l.DisplayName != "" && l.Description != "" {
				found++
			}
		}
		if found != 1 {
			t.Errorf("artifacthub.io/crds lists %s %d times", definition.GetName(), found)
		}
	}
	if len(listed) != len(definitions) {
		t.Errorf("artifacthub.io/crds lists %d custom resources, the chart has %d", len(listed), len(definitions))
	}
}

func same(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from the code; run: go generate ./k8s/...", path)
	}
}

func objects(t testing.TB, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for from := documents.NewYAMLToJSONDecoder(strings.NewReader(text)); ; {
		object := &unstructured.Unstructured{}
		err := from.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

// find returns the object with that kind and name.
func find(t testing.TB, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range all {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asYAML formats anything as YAML, to compare it.
func asYAML(t *testing.T, anything any) string {
	t.Helper()
	out, err := yaml.Marshal(anything)
	must(t, err)
	return string(out)
}

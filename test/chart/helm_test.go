package chart

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"strait.dev/strait/test/kube"
)

var update = flag.Bool("update", false, "write the golden files, the schema and the table of values anew")

func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }

const (
	folder  = "../../charts/strait"
	release = "strait-system" // the namespace of the release
)

// helm runs helm with no configuration of this machine. The error has what it printed.
func helm(t testing.TB, environment []string, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	command := exec.CommandContext(t.Context(), kube.Program(t, "helm"), args...)
	command.Env = append([]string{
		"PATH=/nonexistent", "HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home,
	}, environment...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return out.String(), errors.New(err.Error() + ": " + problems.String() + out.String())
	}
	return out.String(), nil
}

// template renders the chart with the release name strait.
func template(t testing.TB, args ...string) (string, error) {
	t.Helper()
	return helm(t, nil, append([]string{"template", "strait", folder, "--namespace", release}, args...)...)
}

// render is all objects of the chart, hooks among them.
func render(t testing.TB, args ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := template(t, args...)
	must(t, err)
	return objects(t, text)
}

func objects(t testing.TB, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for from := yaml.NewYAMLToJSONDecoder(strings.NewReader(text)); ; {
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

// find is the object of that kind and name.
func find(t testing.TB, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range all {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

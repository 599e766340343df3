//go:build apiserver

package chart

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"strait.dev/strait/test/kube"
)

func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }

// release is the namespace of the release.
const release = "strait-system"

// helm runs helm without this machine's configuration. The error contains its output.
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

// render returns all objects of the chart, including hooks.
func render(t testing.TB, args ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := template(t, args...)
	must(t, err)
	return objects(t, text)
}

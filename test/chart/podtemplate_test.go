//go:build apiserver

package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	versionField    = regexp.MustCompile(`(?m)^version: .*$`)
	appVersionField = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

// renderVersion renders the chart with other versions, as a tool that packages every commit
// does. The image is the same.
func renderVersion(t *testing.T, version, appVersion string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "strait")
	must(t, os.CopyFS(dir, os.DirFS(folder)))
	file := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(file)
	must(t, err)
	text = versionField.ReplaceAll(text, []byte("version: "+version))
	text = appVersionField.ReplaceAll(text, []byte("appVersion: "+appVersion))
	must(t, os.WriteFile(file, text, 0o644))
	out, err := helm(t, nil, append([]string{"template", "strait", dir, "--namespace", release, "--set", "image.tag=v1"}, args...)...)
	must(t, err)
	return objects(t, out)
}

func TestAnotherVersionOfTheChartRestartsNoPod(t *testing.T) {
	t.Parallel()
	for name, args := range renders {
		was, is := renderVersion(t, "0.1.0+1a2b3c4d5e6f", "0.1.0", args...), renderVersion(t, "0.1.0+6f5e4d3c2b1a", "0.1.1", args...)
		before := pods(t, was)
		if len(before) < 4 {
			t.Fatalf("%s: %d pods", name, len(before))
		}
		for of, pod := range pods(t, is) {
			if !equality.Semantic.DeepEqual(pod, before[of]) {
				t.Errorf("%s: the pod template of %s differs:\n%s\n%s", name, of, asYAML(t, pod), asYAML(t, before[of]))
			}
			for label := range pod.Labels {
				if label == "helm.sh/chart" || label == "app.kubernetes.io/version" {
					t.Errorf("%s: the pods of %s have the label %s", name, of, label)
				}
			}
		}
		config := func(all []*unstructured.Unstructured) string {
			return asYAML(t, find(t, all, "ConfigMap", "strait-controller").Object["data"])
		}
		if config(was) != config(is) {
			t.Errorf("%s: the pod template of gateways differs", name)
		}
	}
}

func TestControllersRestartWhenTheirFilesChange(t *testing.T) {
	t.Parallel()
	const annotation = "checksum/config"
	was, is := pods(t, render(t))["strait-controller"], pods(t, render(t, "--set", "gateway.labels.a=b"))["strait-controller"]
	if was.Annotations[annotation] == "" || was.Annotations[annotation] == is.Annotations[annotation] {
		t.Errorf("%s is %q for both", annotation, is.Annotations[annotation])
	}
}

func TestEveryVersionIsAValidLabel(t *testing.T) {
	t.Parallel()
	long := "0.1.0-rc.1+" + strings.Repeat("0123456789abcdef-", 5)
	for _, version := range []string{"0.1.0+sha", long + "x", strings.TrimSuffix(long, "f-")} {
		for _, object := range renderVersion(t, version, version) {
			for label, value := range object.GetLabels() {
				if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
					t.Errorf("version %s: %s %s has %s=%s: %q", version, object.GetKind(), object.GetName(), label, value, problems)
				}
			}
		}
	}
}

// In a namespace with a ResourceQuota for limits, Kubernetes creates no pod without limits: a
// Job of Helm would never run, and helm uninstall would fail.
func TestPodsOfHooksHaveTheResourcesOfTheValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		args         []string
		cpu, memory  string // limits of the Jobs
		requestedCPU string
	}{
		{"default", nil, "0", "512Mi", "50m"},
		{"those of the controller", []string{"--set", "controller.resources.limits.cpu=500m", "--set", "controller.resources.requests.cpu=70m"}, "500m", "512Mi", "70m"},
		{"their own", []string{"--set", "controller.resources.limits.cpu=2", "--set", "jobs.resources.limits.cpu=250m", "--set", "jobs.resources.limits.memory=128Mi"}, "250m", "128Mi", "0"},
	} {
		all := pods(t, render(t, c.args...))
		for _, job := range []string{"strait-uninstall", "strait-verify"} {
			is := all[job].Spec.Containers[0].Resources
			if is.Limits.Cpu().String() != c.cpu || is.Limits.Memory().String() != c.memory || is.Requests.Cpu().String() != c.requestedCPU {
				t.Errorf("%s: %s has %+v, want limits %s and %s, a request of %s", c.name, job, is, c.cpu, c.memory, c.requestedCPU)
			}
		}
	}
	// With limits of all components, every container has them.
	const limits = "resources.limits.cpu=500m"
	for name, pod := range pods(t, render(t, "--set", "controller."+limits, "--set", "gateway."+limits, "--set", "node."+limits)) {
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			if c.Resources.Limits.Cpu().IsZero() {
				t.Errorf("container %s of %s has no limit of CPU", c.Name, name)
			}
		}
	}
}

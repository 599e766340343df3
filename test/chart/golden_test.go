//go:build apiserver

package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/rbac"
)

// renders are three installations: with default values, with everything, and with the
// minimum.
var renders = map[string][]string{
	"default": nil,
	"full":    {"--values", "testdata/full.yaml"},
	"minimal": {"--values", "testdata/minimal.yaml"},
}

func TestHelmLintPasses(t *testing.T) {
	t.Parallel()
	for name, args := range renders {
		if out, err := helm(t, nil, append([]string{"lint", "--strict", folder}, args...)...); err != nil {
			t.Errorf("%s: %v%s", name, err, out)
		}
	}
}

// copied are the resource types whose content comes from files with separate tests.
var copied = []string{"CustomResourceDefinition", "ClusterRole", "Role", "PrometheusRule"}

func TestChartRendersTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, args := range renders {
		text, err := template(t, args...)
		must(t, err)
		var got bytes.Buffer
		for document := range strings.SplitSeq(text, "\n---\n") {
			some := objects(t, document)
			if len(some) == 0 || slices.Contains(copied, some[0].GetKind()) || strings.HasPrefix(some[0].GetName(), "strait-dashboard-") {
				continue
			}
			got.WriteString("---\n" + strings.TrimPrefix(strings.TrimSpace(document), "---\n") + "\n")
		}
		if regexp.MustCompile(`(?m)[ \t]+$`).Match(got.Bytes()) {
			t.Errorf("%s: lines have trailing whitespace", name)
		}
		golden := filepath.Join("testdata", name+".golden.yaml")
		if *update {
			must(t, os.WriteFile(golden, got.Bytes(), 0o644))
		}
		want, err := os.ReadFile(golden)
		must(t, err)
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs from %s; review each difference and run the test with -update. Got\n%s", name, golden, got.Bytes())
		}
	}
}

// The permissions of the chart's roles, and their subjects, are exactly those with which
// the tests of the programs ran.
func TestT5_TheChartGrantsWhatTheCodeSays(t *testing.T) {
	t.Parallel()
	all := render(t)
	for program, namespace := range map[string]string{
		"controller": release, "gateway": "strait-gateways", "node": "strait-nodes", "uninstall": release, "verify": release,
	} {
		text, err := os.ReadFile(filepath.Join(folder, "files/rbac", program+".yaml"))
		must(t, err)
		for _, want := range objects(t, string(text)) {
			in := want.GetNamespace()
			if in == "" && want.GetKind() == "Role" {
				in = namespace
			}
			found := 0
			for _, object := range all {
				if object.GetName() != want.GetName() || object.GetNamespace() != in {
					continue
				}
				switch object.GetKind() {
				case want.GetKind():
					found++
					if got, want := asYAML(t, object.Object["rules"]), asYAML(t, want.Object["rules"]); got != want {
						t.Errorf("%s %s in %q grants\n%s, not\n%s", object.GetKind(), object.GetName(), in, got, want)
					}
				case want.GetKind() + "Binding":
					found++
					wanted := asYAML(t, []any{
						map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": want.GetKind(), "name": want.GetName()},
						[]any{map[string]any{"kind": "ServiceAccount", "name": "strait-" + program, "namespace": namespace}},
					})
					if got := asYAML(t, []any{object.Object["roleRef"], object.Object["subjects"]}); got != wanted {
						t.Errorf("%s %s in %q binds\n%s, not\n%s", object.GetKind(), object.GetName(), in, got, wanted)
					}
				}
			}
			if found != 2 {
				t.Errorf("%s %s in %q: %d objects, not it and its binding", want.GetKind(), want.GetName(), in, found)
			}
		}
	}
	var roles, rules int
	for _, object := range all {
		if object.GetKind() == "ClusterRole" || object.GetKind() == "Role" {
			roles++
		}
	}
	for _, documents := range [][]byte{rbac.Controller, rbac.Gateway, rbac.Node, rbac.Uninstall, rbac.Verify} {
		rules += len(objects(t, string(documents)))
	}
	if roles != rules {
		t.Errorf("the chart has %d roles, the code %d", roles, rules)
	}
}

func TestAlertsAndDashboardsAreUnmodified(t *testing.T) {
	t.Parallel()
	all := render(t, renders["full"]...)
	rules, err := filepath.Glob(filepath.Join(folder, "rules/*.yaml"))
	must(t, err)
	for _, path := range rules {
		text, err := os.ReadFile(path)
		must(t, err)
		var want any
		must(t, yaml.Unmarshal(text, &want))
		rule := find(t, all, "PrometheusRule", strings.TrimSuffix(filepath.Base(path), ".yaml"))
		if asYAML(t, rule.Object["spec"]) != asYAML(t, want) {
			t.Errorf("the alerts of %s differ", path)
		}
	}
	dashboards, err := filepath.Glob(filepath.Join(folder, "dashboards/*.json"))
	must(t, err)
	for _, path := range dashboards {
		want, err := os.ReadFile(path)
		must(t, err)
		name := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".json"), "strait-")
		object := find(t, all, "ConfigMap", "strait-dashboard-"+name)
		if got := object.Object["data"].(map[string]any)[filepath.Base(path)]; got != string(want) {
			t.Errorf("the dashboard of %s differs", path)
		}
	}
	if len(rules) == 0 || len(dashboards) == 0 {
		t.Errorf("%d files of alerts, %d dashboards", len(rules), len(dashboards))
	}
}

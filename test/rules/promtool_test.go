//go:build apiserver

package rules

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"strait.dev/strait/test/kube"
)

// promtool runs promtool and returns all its output.
func promtool(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), kube.Program(t, "promtool"), arguments...).CombinedOutput()
	return string(out), err
}

func TestPrometheusAcceptsTheRules(t *testing.T) {
	if out, err := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rulesFile); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAlertsFireAsExpected(t *testing.T) {
	if out, err := promtool(t, "test", "rules", testsFile); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The annotations of a firing alert contain every name and number.
func TestAnnotationsAreComplete(t *testing.T) {
	var s suite
	read(t, testsFile, &s)
	var err error
	if s.RuleFiles[0], err = filepath.Abs(rulesFile); err != nil {
		t.Fatal(err)
	}
	fired := 0
	for i, one := range s.Tests {
		for _, e := range one.Expressions {
			if len(e.Samples) == 0 {
				continue
			}
			name, _, _ := strings.Cut(one.Name, ",")
			wrong := alertTest{Alert: name, EvalTime: e.EvalTime}
			wrong.Expected = append(wrong.Expected, struct {
				Labels map[string]string `yaml:"exp_labels"`
			}{map[string]string{"no_series": "has this"}})
			s.Tests[i].Alerts = append(s.Tests[i].Alerts, wrong)
			fired += len(e.Samples)
		}
		s.Tests[i].Expressions = nil
	}
	text, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "annotations.test.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := promtool(t, "test", "rules", file)
	if err == nil {
		t.Fatalf("an absent label was found:\n%s", out)
	}
	if got := strings.Count(out, "summary="); got != fired {
		t.Errorf("%d of %d alerts fired:\n%s", got, fired, out)
	}
	for _, bad := range []string{"error expanding", "<no value>", "%!", "  .", " ,", "gateway  ", "Peering  ", "node  "} {
		for line := range strings.Lines(out) {
			if text := strings.TrimLeft(line, " "); strings.Contains(text, bad) {
				t.Errorf("%q in %s", bad, text)
			}
		}
	}
}

// Prometheus parses the expressions of dashboards: as recording rules, of which it checks
// nothing else.
func TestPrometheusReadsTheExpressionsOfDashboards(t *testing.T) {
	var rules []map[string]string
	for name, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				rules = append(rules, map[string]string{
					"record": fmt.Sprintf("%s:%d:%s", strings.TrimSuffix(name, ".json"), p.ID, q.RefID),
					"expr":   strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"),
				})
			}
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "check", "rules", file); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

package rules

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"strait.dev/strait/internal/health"
	"strait.dev/strait/test/metricspage"
)

const (
	rulesFile = "../../charts/strait/rules/strait.yaml"
	testsFile = "alerts.test.yaml"
)

// rule is a rule of a rule file.
type rule struct {
	Alert, Record, Expr string
	For                 string
	Labels, Annotations map[string]string
}

// rulesIn returns all rules of the file.
func rulesIn(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	read(t, rulesFile, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

// alerts returns the alerting rules.
func alerts(t *testing.T) []rule {
	return slices.DeleteFunc(rulesIn(t), func(r rule) bool { return r.Alert == "" })
}

// read parses a YAML file, strictly.
func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

var (
	named    = regexp.MustCompile(`\b(?:strait|go|process)[_:][a-z0-9_:]+`)
	grouping = regexp.MustCompile(`\b(?:by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)`)
	selector = regexp.MustCompile(`\{[^}]*\}`)
)

// metricsIn returns the names of metrics in an expression: what remains without labels.
func metricsIn(expr string) []string {
	expr = selector.ReplaceAllString(grouping.ReplaceAllString(expr, ""), "")
	return named.FindAllString(expr, -1)
}

// unserved returns the metrics in an expression that no program serves, according to
// docs/reference/metrics.md, which tests of the programs check. recorded are names of recording
// rules.
func unserved(t *testing.T, expr string, recorded ...string) (unknown []string) {
	t.Helper()
	known := slices.Clone(recorded)
	for _, m := range metricspage.Documented(t, "") {
		if m.Type == "histogram" {
			known = append(known, m.Name+"_bucket", m.Name+"_sum", m.Name+"_count")
		} else {
			known = append(known, m.Name)
		}
	}
	for line := range strings.Lines(metricspage.Text(health.NewRegistry())) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ = strings.Cut(name, " ")
			known = append(known, name)
		}
	}
	for _, name := range metricsIn(expr) {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

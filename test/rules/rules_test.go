package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// suite is the file of tests, in promtool's format.
type suite struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval string   `yaml:"evaluation_interval"`
	Tests              []test
}

type test struct {
	Name        string           `yaml:",omitempty"`
	Interval    string           `yaml:",omitempty"`
	InputSeries []series         `yaml:"input_series"`
	Expressions []expressionTest `yaml:"promql_expr_test,omitempty"`
	Alerts      []alertTest      `yaml:"alert_rule_test,omitempty"`
}

type series struct{ Series, Values string }

type expressionTest struct {
	Expr     string
	EvalTime string `yaml:"eval_time"`
	Samples  []struct {
		Labels string
		Value  float64
	} `yaml:"exp_samples"`
}

// alertTest expects an alert with labels that no alert has, so that promtool prints the
// actual ones.
type alertTest struct {
	Alert    string `yaml:"alertname"`
	EvalTime string `yaml:"eval_time"`
	Expected []struct {
		Labels map[string]string `yaml:"exp_labels"`
	} `yaml:"exp_alerts"`
}

func TestEveryAlertHasTestsOfFiringAndNotFiring(t *testing.T) {
	var s suite
	read(t, testsFile, &s)
	for _, a := range alerts(t) {
		var fires, silent bool
		for _, one := range s.Tests {
			for _, e := range one.Expressions {
				if e.Expr == fmt.Sprintf("ALERTS{alertname=%q,alertstate=\"firing\"}", a.Alert) {
					fires, silent = fires || len(e.Samples) > 0, silent || len(e.Samples) == 0
				}
			}
		}
		if !fires || !silent {
			t.Errorf("%s: a test that it fires: %v; that it does not: %v; add what is missing to %s", a.Alert, fires, silent, testsFile)
		}
	}
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	var recorded []string
	for _, r := range rulesIn(t) {
		if unknown := unserved(t, r.Expr, recorded...); len(unknown) > 0 {
			t.Errorf("%s%s uses %q, which no program serves", r.Alert, r.Record, unknown)
		}
		if r.Record != "" {
			recorded = append(recorded, r.Record)
		}
	}
}

const runbooks = "../../docs/runbooks/"

var link = regexp.MustCompile(`\]\(([^):]+)\)`)

func TestEveryAlertHasARunbookAndEveryRunbookAnAlert(t *testing.T) {
	readme, err := os.ReadFile(runbooks + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"README.md"}
	for _, a := range alerts(t) {
		if a.Labels["severity"] != "critical" && a.Labels["severity"] != "warning" {
			t.Errorf("%s: severity %q; use critical or warning", a.Alert, a.Labels["severity"])
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no summary or description", a.Alert)
		}
		page := a.Alert + ".md"
		pages = append(pages, page)
		if want := "https://strait.dev/docs/runbooks/" + page; a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %s, want %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if row := fmt.Sprintf("| [%s](%s) | %s |", a.Alert, page, a.Labels["severity"]); !strings.Contains(string(readme), row) {
			t.Errorf("docs/runbooks/README.md has no row that begins with %s", row)
		}
		text, err := os.ReadFile(runbooks + page)
		if err != nil {
			t.Error(err)
			continue
		}
		from := 0
		for _, heading := range []string{"# " + a.Alert + "\n", "\n## Meaning\n", "\n## Impact\n", "\n## Diagnosis\n", "\n## Fix\n"} {
			at := strings.Index(string(text[from:]), heading)
			if at < 0 {
				t.Errorf("%s has no %q at the expected position", page, strings.TrimSpace(heading))
				break
			}
			from += at
		}
	}
	files, err := os.ReadDir(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(pages, f.Name()) {
			t.Errorf("docs/runbooks/%s belongs to no alert; delete it", f.Name())
		}
	}
}

// Links between runbooks lead to existing pages.
func TestLinksBetweenRunbooksWork(t *testing.T) {
	files, err := filepath.Glob(runbooks + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			page, _, _ := strings.Cut(found[1], "#")
			if _, err := os.Stat(filepath.Join(runbooks, page)); err != nil {
				t.Errorf("%s: %v", filepath.Base(name), err)
			}
		}
	}
}

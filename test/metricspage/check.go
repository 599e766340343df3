package metricspage

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// Metric is one metric on the page.
type Metric struct {
	Name, Type string
	Labels     []string // sorted
}

var (
	row    = regexp.MustCompile("^\\| `(strait_[a-z0-9_]+)` \\| (counter|gauge|histogram) \\| ([a-z, ]*)\\|")
	header = regexp.MustCompile(`^# TYPE (strait_\S+) (\S+)`)
	sample = regexp.MustCompile(`^(strait_[a-z0-9_]+)(?:\{(.*)\})? \S+$`)
	label  = regexp.MustCompile(`([a-z_]+)="`)
)

// Page returns the content of docs/reference/metrics.md.
func Page(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()                       // that of the test's package; a binary built with -trimpath does not know its source
	for err == nil && dir != filepath.Dir(dir) { // else there is no module
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	text, err := os.ReadFile(filepath.Join(dir, "docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Documented returns the metrics in a section of the page, or in all of it if the heading
// is empty.
func Documented(t testing.TB, heading string) (all []Metric) {
	t.Helper()
	inside := heading == ""
	for line := range strings.Lines(Page(t)) {
		if section, ok := strings.CutPrefix(line, "## "); ok && heading != "" {
			inside = strings.TrimSpace(section) == heading
		}
		if cells := row.FindStringSubmatch(line); inside && cells != nil {
			m := Metric{Name: cells[1], Type: cells[2]}
			if text := strings.TrimSpace(cells[3]); text != "" {
				m.Labels = strings.Split(text, ", ")
				slices.Sort(m.Labels)
			}
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		t.Fatalf("docs/reference/metrics.md has no metric in section %q", heading)
	}
	return all
}

// Text returns the output of a program with these metrics.
func Text(of prometheus.Gatherer) string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(of, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Check compares a section of the page with the metrics of a program: names, types and
// labels. absent are metrics that the program does not have in this test. It also runs
// Prometheus' linter on the names.
func Check(t testing.TB, heading, served string, absent ...string) {
	t.Helper()
	types, labels := map[string]string{}, map[string]map[string]bool{}
	for line := range strings.Lines(served) {
		line = strings.TrimSpace(line)
		if of := header.FindStringSubmatch(line); of != nil {
			types[of[1]], labels[of[1]] = of[2], map[string]bool{}
		} else if of := sample.FindStringSubmatch(line); of != nil {
			name := of[1]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base, ok := strings.CutSuffix(name, suffix); ok && types[base] == "histogram" {
					name = base
				}
			}
			for _, l := range label.FindAllStringSubmatch(of[2], -1) {
				if l[1] != "le" {
					labels[name][l[1]] = true
				}
			}
		}
	}
	documented := map[string]bool{}
	for _, m := range Documented(t, heading) {
		documented[m.Name] = true
		var has []string
		for l := range labels[m.Name] {
			has = append(has, l)
		}
		slices.Sort(has)
		switch {
		case slices.Contains(absent, m.Name) && types[m.Name] == "":
		case types[m.Name] == "":
			t.Errorf("%s is documented under %q and not served", m.Name, heading)
		case types[m.Name] != m.Type || !slices.Equal(has, m.Labels):
			t.Errorf("%s is documented as a %s with labels %q, and is a %s with %q", m.Name, m.Type, m.Labels, types[m.Name], has)
		}
	}
	for name := range types {
		if !documented[name] {
			t.Errorf("%s is served and not documented in docs/reference/metrics.md under %q", name, heading)
		}
	}
	problems, err := promlint.New(strings.NewReader(served)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "strait_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

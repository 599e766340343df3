package rules

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dashboard is the checked part of a dashboard.
type dashboard struct {
	UID, Title, Description string
	SchemaVersion           int
	Templating              struct{ List []variable }
	Panels                  []panel
}

type variable struct {
	Name, Type, Definition string
	Datasource             source
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct {
		RefID, Expr, LegendFormat string
		Datasource                source
	}
}

type source struct{ Type, UID string }

// chosen is the datasource selected by the viewer.
var chosen = source{"prometheus", "${datasource}"}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("../../charts/strait/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	all := map[string]dashboard{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[filepath.Base(name)] = d
	}
	return all
}

func TestDashboardsAreComplete(t *testing.T) {
	uids := map[string]string{}
	for name, d := range dashboards(t) {
		if other := uids[d.UID]; other != "" || d.UID == "" || d.Title == "" || d.Description == "" || d.SchemaVersion < 41 {
			t.Errorf("%s: uid %q (also of %q), title %q, description %q, schema %d", name, d.UID, other, d.Title, d.Description, d.SchemaVersion)
		}
		uids[d.UID] = name
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: panel %q has the id %d of another panel", name, p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: panel %q overlaps %q or exceeds the page", name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.Datasource != chosen {
				t.Errorf("%s: panel %q: description %q, %d queries, datasource %+v", name, p.Title, p.Description, len(p.Targets), p.Datasource)
			}
			for _, q := range p.Targets {
				if q.Datasource != chosen {
					t.Errorf("%s: panel %q queries %+v", name, p.Title, q.Datasource)
				}
			}
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" && v.Datasource != chosen {
				t.Errorf("%s: variable %s queries %+v", name, v.Name, v.Datasource)
			}
		}
	}
}

func TestDashboardsUseMetricsAndVariablesThatExist(t *testing.T) {
	used := regexp.MustCompile(`\$\{?(\w+)`)
	for name, d := range dashboards(t) {
		defined := map[string]bool{"__rate_interval": true, "__all": true}
		check := func(what, expr string) {
			t.Helper()
			for _, v := range used.FindAllStringSubmatch(expr, -1) {
				if !defined[v[1]] {
					t.Errorf("%s: %s uses $%s, which is not defined before it", name, what, v[1])
				}
			}
			if unknown := unserved(t, expr); len(unknown) > 0 {
				t.Errorf("%s: %s uses %q, which no program serves", name, what, unknown)
			}
		}
		for _, v := range d.Templating.List {
			check("variable "+v.Name, strings.TrimPrefix(v.Definition, "label_values"))
			defined[v.Name] = true
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				check("panel "+p.Title, q.Expr)
			}
		}
	}
}

// Every legend uses labels of the result, as grouped by the query.
func TestLegendsNameLabelsOfTheAnswer(t *testing.T) {
	placeholder := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for name, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				for _, label := range placeholder.FindAllStringSubmatch(q.LegendFormat, -1) {
					if !regexp.MustCompile(`(by|group_left) \([^)]*\b` + label[1] + `\b`).MatchString(q.Expr) {
						t.Errorf("%s: panel %q: the legend has {{%s}}, but the result of %s does not", name, p.Title, label[1], q.Expr)
					}
				}
			}
		}
	}
}

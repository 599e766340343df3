package main

import (
	"strings"
	"testing"
)

// oneRow is a list with one row, held by a test of the core and one of a lab.
func oneRow(r row, names ...string) *list {
	var tests []test
	for _, name := range names {
		t := test{pkg: module + "/core", name: name, ids: idsOf(name)}
		if strings.HasSuffix(name, "Lab") {
			t.pkg, t.target = module+"/test/lab", "lab"
		}
		tests = append(tests, t)
	}
	return join([]section{{title: "One", rows: []row{r}}}, tests)
}

func TestTheStateOfARowIsThatOfItsTests(t *testing.T) {
	const core, lab = module + "/core.TestG1_Core", module + "/test/lab.TestG1_Lab"
	row := row{id: "G1", clause: "c", source: "s"}
	excused := row
	excused.waived = "no reason"
	for _, c := range []struct {
		name          string
		list          *list
		results       results
		state, remark string
		good          bool
	}{
		{"no test", oneRow(row), nil, missing, "", false},
		{"waived", oneRow(excused), nil, waived, "no reason", true},
		{"passed", oneRow(row, "TestG1_Core"), results{core: {"pass", ""}}, passed, "", true},
		{"passed, and a lab that was not run", oneRow(row, "TestG1_Core", "TestG1_Lab"), results{core: {"pass", ""}}, passed, "more in make lab", true},
		{"passed, but not in the lab", oneRow(row, "TestG1_Core", "TestG1_Lab"), results{core: {"pass", ""}, lab: {"fail", ""}}, failed, "test/lab.TestG1_Lab", false},
		{"a lab that was not run", oneRow(row, "TestG1_Lab"), nil, inLabs, "make lab", true},
		{"a lab that was", oneRow(row, "TestG1_Lab"), results{lab: {"pass", ""}}, passed, "", true},
		{"without any result", oneRow(row, "TestG1_Core"), nil, failed, "core.TestG1_Core", false},
		{"skipped", oneRow(row, "TestG1_Core"), results{core: {"skip", "needs root"}}, skipped, "needs root", true},
	} {
		state, remark := c.list.status(c.list.sections[0].rows[0], c.results)
		if state != c.state || remark != c.remark {
			t.Errorf("%s: %q, %q, want %q, %q", c.name, state, remark, c.state, c.remark)
		}
		var out strings.Builder
		if good := c.list.print(&out, c.results); good != c.good {
			t.Errorf("%s: well is %t, want %t:\n%s", c.name, good, c.good, out.String())
		}
		if !strings.Contains(out.String(), c.state) || !strings.Contains(out.String(), "\n1 rows: ") {
			t.Errorf("%s: printed\n%s", c.name, out.String())
		}
	}
}

func TestResultsAreReadFromGoTest(t *testing.T) {
	r := make(results)
	err := r.read(strings.NewReader(`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: needs root\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p","Test":"TestB"}
no event
{"Action":"fail","Package":"p"}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]outcome{
		"p.TestA": {"skip", "a_test.go:3: needs root"}, "p.TestB": {"fail", ""}, "p": {"fail", ""},
	} {
		if r[name] != want {
			t.Errorf("%s: %+v, want %+v", name, r[name], want)
		}
	}
	if err := r.built(map[string]bool{"p": true}); err != nil {
		t.Error(err)
	}
	if err := r.built(map[string]bool{"q": true}); err == nil || !strings.Contains(err.Error(), "run: go vet q") {
		t.Errorf("a package without results: %v", err)
	}
}

func TestResultsAreReadFromATally(t *testing.T) {
	r, err := readTally(strings.NewReader("skip\tp.TestA\tneeds root\npass\tp.TestA\t\nskip\tp.TestA\tagain\nfail\tp.TestB\t\npass\tp.TestB\t\nodd line\n"))
	if err != nil || r["p.TestA"] != (outcome{"pass", ""}) || r["p.TestB"].result != "fail" || len(r) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestThePageSaysHowARowIsHeld(t *testing.T) {
	l := oneRow(row{id: "G1", clause: "dropped", source: "RFC 8926"}, "TestG1_Core", "TestG1_Lab")
	if want := "| G1 | dropped | RFC 8926 | `core.TestG1_Core`<br>`test/lab.TestG1_Lab` (`make lab`) |\n"; !strings.HasSuffix(l.markdown(), want) {
		t.Errorf("got  %s\nwant %s", l.markdown(), want)
	}
}

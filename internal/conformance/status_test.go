package main

import (
	"strings"
	"testing"

	"strait.dev/strait/internal/testlog"
)

// oneRow returns a list with one row, held by a core test and a lab test.
func oneRow(r row, names ...string) *list {
	var tests []test
	for _, name := range names {
		t := test{pkg: module + "/core", name: name, ids: idsOf(name), target: coreTarget}
		if strings.HasSuffix(name, "Lab") {
			t.pkg, t.target = module+"/test/lab", "lab"
		}
		tests = append(tests, t)
	}
	return join([]section{{title: "One", rows: []row{r}}}, tests)
}

func TestStateOfARowIsThatOfItsTests(t *testing.T) {
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
		{"passed", oneRow(row, "TestG1_Core"), results{core: {Outcome: testlog.Pass}}, passed, "", true},
		{"passed, and a lab that was not run", oneRow(row, "TestG1_Core", "TestG1_Lab"), results{core: {Outcome: testlog.Pass}}, passed, "more in make lab", true},
		{"passed, but not in the lab", oneRow(row, "TestG1_Core", "TestG1_Lab"), results{core: {Outcome: testlog.Pass}, lab: {Outcome: testlog.Fail}}, failed, "test/lab.TestG1_Lab", false},
		{"a lab that was not run", oneRow(row, "TestG1_Lab"), nil, notRun, "make lab", true},
		{"a lab that was", oneRow(row, "TestG1_Lab"), results{lab: {Outcome: testlog.Pass}}, passed, "", true},
		{"a core that was not run", oneRow(row, "TestG1_Core"), nil, notRun, "make test", true},
		{"flaky", oneRow(row, "TestG1_Core"), results{core: {Outcome: testlog.Flaky}}, passed, "", true},
		{"skipped", oneRow(row, "TestG1_Core"), results{core: {Outcome: testlog.Skip, Reason: "needs root"}}, skipped, "needs root", true},
	} {
		state, remark := c.list.status(c.list.sections[0].rows[0], c.results)
		if state != c.state || remark != c.remark {
			t.Errorf("%s: %q, %q, want %q, %q", c.name, state, remark, c.state, c.remark)
		}
		var out strings.Builder
		if good := c.list.print(&out, c.results); good != c.good {
			t.Errorf("%s: success is %t, want %t:\n%s", c.name, good, c.good, out.String())
		}
		if !strings.Contains(out.String(), c.state) || !strings.Contains(out.String(), "\n1 rows: ") {
			t.Errorf("%s: printed\n%s", c.name, out.String())
		}
	}
}

func TestPageListsTheTestsOfARow(t *testing.T) {
	l := oneRow(row{id: "G1", clause: "dropped", source: "RFC 8926"}, "TestG1_Core", "TestG1_Lab")
	if want := "| G1 | dropped | RFC 8926 | `core.TestG1_Core`<br>`test/lab.TestG1_Lab` (`make lab`) |\n"; !strings.HasSuffix(l.markdown(), want) {
		t.Errorf("got  %s\nwant %s", l.markdown(), want)
	}
}

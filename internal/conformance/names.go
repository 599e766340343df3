package main

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const module = "strait.dev/strait"

// test is a test whose name states the rows that it holds.
type test struct {
	pkg    string // import path
	name   string
	file   string // without its directory
	ids    []string
	target string // the make target that runs it
}

// String is the short name of the test.
func (t test) String() string { return strings.TrimPrefix(t.pkg, module+"/") + "." + t.name }

// fullName is its name in the results.
func (t test) fullName() string { return t.pkg + "." + t.name }

// id matches a part of a test's name that names a row; requirement matches one after
// another requirement of the same RFC.
var (
	id          = regexp.MustCompile(`^([GITF]\d+|Netns\d+|RFC\d+[A-Za-z0-9]*|Overhead)$`)
	requirement = regexp.MustCompile(`^REQ\d+$`)
)

// idsOf returns the IDs at the start of a test's name. The last part is the description,
// never an ID.
func idsOf(name string) (ids []string) {
	name, ok := strings.CutPrefix(name, "Test")
	if !ok {
		return nil
	}
	for {
		part, rest, more := strings.Cut(name, "_")
		if of, _, ok := strings.Cut(last(ids), "REQ"); ok && requirement.MatchString(part) {
			part = of + part
		}
		if !more || !id.MatchString(part) {
			return ids
		}
		ids = append(ids, part)
		name = rest
	}
}

func last(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return ids[len(ids)-1]
}

// columns returns the types of address translation in a test's name, or else in the name of
// its file.
func (t test) columns() (all []string) {
	for _, name := range []string{t.name, t.file} {
		for column, word := range columns {
			if strings.Contains(strings.ToLower(name), word) {
				all = append(all, column)
			}
		}
		if all != nil {
			return all
		}
	}
	return nil
}

// findTests reads the names of the tests below root. Nothing is built, so it works while a
// package does not compile.
func findTests(root fs.FS) (tests []test, err error) {
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base == "testdata" || base == "bin" || strings.HasPrefix(base, ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, "_test.go"):
			return nil
		}
		found, err := testsOf(root, name)
		tests = append(tests, found...)
		return err
	})
	slices.SortFunc(tests, func(a, b test) int { return strings.Compare(a.fullName(), b.fullName()) })
	return tests, err
}

// testsOf returns the tests of one file that name rows.
func testsOf(root fs.FS, name string) (tests []test, err error) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	target := targetOf(file)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		if ids := idsOf(f.Name.Name); ids != nil {
			tests = append(tests, test{module + "/" + path.Dir(name), f.Name.Name, path.Base(name), ids, target})
		}
	}
	return tests, nil
}

// targets are the make targets that run tests with build tags, most frequent target first.
// coreTarget runs files without any of these tags.
var targets = []struct{ tag, target string }{
	{"apiserver", "test-k8s"}, {"lab", "lab"}, {"e2e", "e2e"}, {"nightly", "nightly"},
}

const coreTarget = "test"

// targetOf returns the make target that runs the tests of a file.
func targetOf(file *ast.File) string {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			expression, err := constraint.Parse(comment.Text)
			if err != nil || comment.Pos() > file.Package {
				continue
			}
			for _, t := range targets {
				if expression.Eval(func(tag string) bool { return tag == t.tag }) && !expression.Eval(func(string) bool { return false }) {
					return t.target
				}
			}
		}
	}
	return coreTarget
}

// list is the checklist with the tests that hold it.
type list struct {
	sections []section
	tests    map[key][]test
	faults   []string // names of tests that do not fit the rows
}

// key identifies a row.
type key struct{ id, column string }

func (r row) key() key { return key{r.id, r.column} }

// checklist combines the rows with the tests below root.
func checklist(root fs.FS) (*list, error) {
	tests, err := findTests(root)
	if err != nil {
		return nil, err
	}
	reasons, err := waivers(root)
	if err != nil {
		return nil, err
	}
	return join(waive(sections, reasons), tests), nil
}

func join(sections []section, tests []test) *list {
	l := &list{sections: sections, tests: make(map[key][]test)}
	rows := make(map[string][]row)
	for _, s := range sections {
		for _, r := range s.rows {
			rows[r.id] = append(rows[r.id], r)
		}
	}
	for _, t := range tests {
		for _, id := range t.ids {
			l.place(t, id, rows)
		}
	}
	return l
}

// place adds a test to the row of one of its IDs.
func (l *list) place(t test, id string, rows map[string][]row) {
	of := rows[id]
	switch {
	case len(of) == 0 && isRFC(id) && !isPart(id, rows):
		// A test may name any RFC. This one has no row.
	case len(of) == 0:
		l.faults = append(l.faults, fmt.Sprintf("%s: no row %s", t, id))
	case of[0].column == "":
		l.tests[key{id, ""}] = append(l.tests[key{id, ""}], t)
	case len(t.columns()) == 0:
		l.faults = append(l.faults, fmt.Sprintf("%s: row %s exists for prefix maps and for masquerade; use Prefix or Masquerade in the name of the test or of its file", t, id))
	default:
		for _, column := range t.columns() {
			l.tests[key{id, column}] = append(l.tests[key{id, column}], t)
		}
	}
}

func isRFC(id string) bool { return strings.HasPrefix(id, "RFC") }

// isPart reports whether there is a row of the same RFC: then this ID was meant to be a
// row.
func isPart(id string, rows map[string][]row) bool {
	for other := range rows {
		if isRFC(other) && rfc(other) == rfc(id) {
			return true
		}
	}
	return false
}

// rfc is the number in an ID like RFC4787REQ9.
func rfc(id string) int {
	digits := strings.TrimPrefix(id, "RFC")
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, _ := strconv.Atoi(digits)
	return n
}

package conformance

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "docs/evidence/conformance.md"

// row is a row of the page. One of address translation names the type that it is about.
type row struct{ id, of string }

// words identify the types of address translation in the name of a test, or else of its file.
var words = map[string]string{"masquerade": "masquerad", "prefix maps": "prefix"}

var (
	cells       = regexp.MustCompile(`(?m)^\| (` + id + `)(?:, ([a-z ]+))? \| ([^|]+) \| ([^|]+) \|(?: ([^|]+) \|)?$`)
	test        = regexp.MustCompile(`(?m)^func Test((?:[A-Za-z0-9]+_)+)[A-Za-z0-9]+\(`)
	requirement = regexp.MustCompile(`^REQ\d+$`)
	whole       = regexp.MustCompile(`^(?:` + id + `)$`)
	number      = regexp.MustCompile(`^RFC\d+`)
)

const id = `[GITF]\d+|Netns\d+|RFC\d+[A-Za-z0-9]*|Overhead`

// ids returns the IDs of rows at the beginning of the name of a test, of which the last part is a
// description. A requirement may follow another one of the same RFC: RFC5508REQ4_REQ5_.
func ids(parts string) (all []string) {
	rfc := ""
	for part := range strings.SplitSeq(strings.TrimSuffix(parts, "_"), "_") {
		if requirement.MatchString(part) && rfc != "" {
			part = rfc + part
		}
		if !whole.MatchString(part) {
			return all
		}
		rfc = number.FindString(part)
		all = append(all, part)
	}
	return all
}

// types returns the types of address translation that a test is about.
func types(name, file string) (all []string) {
	for _, in := range []string{name, file} {
		for of, word := range words {
			if strings.Contains(strings.ToLower(in), word) {
				all = append(all, of)
			}
		}
		if all != nil {
			return all
		}
	}
	return nil
}

// holders returns the tests of each row that the files below root hold, and errors in their names.
// It builds nothing, so that it works for all build tags.
func holders(root fs.FS, rows []row) (tests map[row][]string, faults []string, err error) {
	tests = make(map[row][]string)
	err = fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
			return err
		}
		text, err := fs.ReadFile(root, file)
		for _, found := range test.FindAllStringSubmatch(string(text), -1) {
			name := path.Dir(file) + "." + strings.TrimSuffix(strings.TrimPrefix(found[0], "func "), "(")
			for _, id := range ids(found[1]) {
				is := func(r row) bool {
					return r.id == id && (r.of == "" || slices.Contains(types(found[0], path.Base(file)), r.of))
				}
				of := 0
				for _, r := range rows {
					if is(r) {
						tests[r] = append(tests[r], name)
						of++
					}
				}
				// A test may name any RFC without rows.
				if of == 0 && (number.FindString(id) == "" || slices.ContainsFunc(rows, func(r row) bool { return number.FindString(r.id) == number.FindString(id) })) {
					faults = append(faults, name+": the page has no row "+id+"; if it has two, use Prefix or Masquerade in the name of the test or of its file")
				}
			}
		}
		return err
	})
	return tests, faults, err
}

func TestEachRowHasATestAndEachIDARow(t *testing.T) {
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	var rows, untested []row
	for _, c := range cells.FindAllStringSubmatch(string(text), -1) {
		r := row{c[1], c[2]}
		if slices.Contains(rows, r) || r.of != "" && words[r.of] == "" {
			t.Errorf("row %v is there twice, or of an unknown type", r)
		}
		rows = append(rows, r)
		if c[5] != "" {
			untested = append(untested, r)
		}
	}
	if lines := strings.Count(string(text), "\n| ") - strings.Count(string(text), "\n| row |"); lines != len(rows) {
		t.Errorf("%d of %d rows can be read", len(rows), lines)
	}
	tests, faults, err := holders(os.DirFS("../.."), rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	for _, r := range rows {
		if (len(tests[r]) > 0) == slices.Contains(untested, r) {
			t.Errorf("row %v: tests %q; begin the name of one with Test%s_, or say why there is none", r, tests[r], r.id)
		}
		t.Logf("%s %s\n\t%s", r.id, r.of, strings.Join(tests[r], "\n\t"))
	}
}

func TestIDsAreReadFromTheBeginningOfAName(t *testing.T) {
	for parts, want := range map[string]string{
		"G8_": "G8", "G8_T1_": "G8 T1", "RFC5508REQ4_REQ5_I5_": "RFC5508REQ4 RFC5508REQ5 I5", "REQ4_": "", "G8_REQ4_": "G8", "Netns23_": "Netns23",
		"Overhead_": "Overhead", "G8IsOne_": "", "WhatG8_G8_": "", "IPv4_": "",
	} {
		if got := strings.Join(ids(parts), " "); got != want {
			t.Errorf("%s: %q, want %q", parts, got, want)
		}
	}
}

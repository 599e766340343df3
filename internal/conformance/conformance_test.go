package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "write docs/evidence/conformance.md")

const pagePath = "../../docs/evidence/conformance.md"

func current(t *testing.T) *list {
	t.Helper()
	l, err := checklist(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEveryRowIsHeldOrWaived(t *testing.T) {
	for _, r := range current(t).missingRows() {
		t.Errorf("%s: no test name starts with Test%s_; write one, or waive the row with a reason", r.name(), r.id)
	}
}

func TestEveryTestWithARowIDHasItsRow(t *testing.T) {
	l := current(t)
	for _, fault := range l.faults {
		t.Error(fault)
	}
}

func TestThePageIsCurrent(t *testing.T) {
	l := current(t)
	want := l.markdown()
	if *update {
		if err := os.WriteFile(pagePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(pagePath); err != nil || string(got) != want {
		t.Errorf("docs/evidence/conformance.md is out of date (%v); run: make conformance", err)
	}
}

func TestRowsAreUnique(t *testing.T) {
	said := make(map[key]bool)
	for _, s := range sections {
		for _, r := range s.rows {
			if said[r.key()] {
				t.Errorf("%s is listed twice", r.name())
			}
			said[r.key()] = true
			if r.clause == "" || r.source == "" || !id.MatchString(r.id) {
				t.Errorf("%+v has an empty field or an invalid ID", r)
			}
		}
	}
}

func TestIDsAreReadFromTheBeginningOfAName(t *testing.T) {
	for name, want := range map[string][]string{
		"TestG8_OnlyItsNode":                      {"G8"},
		"TestG8_T1_OnlyItsNode":                   {"G8", "T1"},
		"TestRFC4787REQ14_PrefixMapsPassAnyOrder": {"RFC4787REQ14"},
		"TestRFC5508REQ4_REQ5_I5_PrefixMaps":      {"RFC5508REQ4", "RFC5508REQ5", "I5"},
		"TestREQ4_OfNoRFC":                        nil,
		"TestG8_REQ4_OfNoRFC":                     {"G8"},
		"TestNetns23_LowOrder":                    {"Netns23"},
		"TestOverhead_OfWireGuard":                {"Overhead"},
		"TestG8":                                  nil, // no description
		"TestG8IsOne":                             nil,
		"TestWhatG8_Says":                         nil,
		"TestIPv4_Only":                           nil,
		"FuzzG8_Decode":                           nil,
	} {
		if got := idsOf(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestTestsAndTargetsAreFound(t *testing.T) {
	t.Parallel()
	tests, err := findTests(fstest.MapFS{
		"geneve/a_test.go":          {Data: []byte("package geneve\nfunc TestG1_Dropped() {}\nfunc TestPlain() {}\nfunc (x) TestG2_Method() {}\n")},
		"geneve/b.go":               {Data: []byte("package geneve\nfunc TestG3_NoTestFile() {}\n")},
		"geneve/c_test.go":          {Data: []byte("//go:build !windows\n\npackage geneve\nfunc TestG4_Core() {}\n")},
		"geneve/testdata/c_test.go": {Data: []byte("broken")},
		"k8s/claims/a_test.go":      {Data: []byte("//go:build apiserver\n\npackage claims\nfunc TestT19_Race() {}\n")},
		"test/lab/a_test.go":        {Data: []byte("//go:build lab || nightly\n\npackage lab\nfunc TestI2_Traceroute() {}\n")},
		"test/lab/b_test.go":        {Data: []byte("//go:build nightly\n\npackage lab\nfunc TestI3_Long() {}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, found := range tests {
		got = append(got, fmt.Sprintf("%s %v %s", found, found.ids, found.target))
	}
	want := []string{"geneve.TestG1_Dropped [G1] test", "geneve.TestG4_Core [G4] test", "k8s/claims.TestT19_Race [T19] test-k8s",
		"test/lab.TestI2_Traceroute [I2] lab", "test/lab.TestI3_Long [I3] nightly"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestNamesWithoutARowAreFaults(t *testing.T) {
	rows := []section{{rows: slices.Concat([]row{{id: "G1"}, {id: "RFC7348Flag"}}, both(row{id: "RFC4787REQ9"}))}}
	for name, want := range map[string]string{
		"TestG1_Dropped":                      "",
		"TestG99_Dropped":                     "no row G99",
		"TestRFC7348_Flag":                    "no row RFC7348",
		"TestRFC9293_NoRowOfThatRFC":          "",
		"TestRFC4787REQ9_Hairpin":             "use Prefix or Masquerade in the name of the test",
		"TestRFC4787REQ9_PrefixMapsHairpin":   "",
		"TestRFC4787REQ9_MasqueradedHairpins": "",
	} {
		l := join(rows, []test{{pkg: module + "/x", name: name, file: "x_test.go", ids: idsOf(name)}})
		if got := strings.Join(l.faults, " "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestScenariosAreWaivedByTheLab(t *testing.T) {
	rows := []section{{rows: []row{scenario("11", "c"), scenario("12", "c")}}}
	reasons, err := waivers(fstest.MapFS{waiversPath: {Data: []byte("package lab\nvar netnsWaived = map[int]string{12: \"no \" + \"interface\"}\nvar other = map[int]string{11: \"open\"}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	got := waive(rows, reasons)[0].rows
	if got[0].waived != "" || got[1].waived != "no interface" || rows[0].rows[1].waived != "" {
		t.Errorf("%+v, from %+v", got, rows)
	}
	if _, err := waivers(fstest.MapFS{waiversPath: {Data: []byte("package lab\n")}}); err == nil {
		t.Error("a missing map is not an error")
	}
}

func TestColumnsAreDistinguished(t *testing.T) {
	rows := []section{{rows: both(row{id: "RFC4787REQ9", clause: "c", source: "s"})}}
	for _, c := range []struct{ name, file, missing string }{
		{"TestRFC4787REQ9_PrefixMapsHairpin", "a_test.go", "masquerade"},
		{"TestRFC4787REQ9_PrefixMapsHairpin", "masquerade_test.go", "masquerade"}, // the test's name takes precedence
		{"TestRFC4787REQ9_Hairpin", "masquerade_test.go", "prefix maps"},
		{"TestRFC4787REQ9_MasqueradedHairpin", "a_test.go", "prefix maps"},
		{"TestRFC4787REQ9_HairpinOfPrefixMapsAndMasquerade", "a_test.go", ""},
	} {
		var missing []string
		for _, r := range join(rows, []test{{pkg: module + "/nat", name: c.name, file: c.file, ids: idsOf(c.name)}}).missingRows() {
			missing = append(missing, r.column)
		}
		if got := strings.Join(missing, " "); got != c.missing {
			t.Errorf("%s in %s: %q is missing, want %q", c.name, c.file, got, c.missing)
		}
	}
}

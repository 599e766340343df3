package rig

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// planOf returns the names of what a run with these options would measure.
func planOf(o Options) (names []string) {
	for _, t := range (&Rig{Options: o}).plan(quickLengths) {
		names = append(names, string(t.mode)+"/"+t.name)
	}
	return names
}

func TestOptionalTestsRunOnlyOnRequest(t *testing.T) {
	t.Parallel()
	matching := func(pattern string) func(string) bool { return regexp.MustCompile(pattern).MatchString }
	const usual, optional = "nogro/tcp/streams=1/direction=a-to-b", "nogro/new-flows"
	for _, c := range []struct {
		name               string
		options            Options
		isUsual, isFurther bool
	}{
		{"no option", Options{}, true, false},
		{"--all", Options{All: true}, true, true},
		{"a part that has both", Options{Run: matching("^nogro")}, true, false},
		{"a part that has both, and --all", Options{Run: matching("^nogro"), All: true}, true, true},
		{"an optional test by name", Options{Run: matching("new-flows")}, false, true},
		{"no such test", Options{Run: matching("no such test")}, false, false},
	} {
		got := planOf(c.options)
		if slices.Contains(got, usual) != c.isUsual || slices.Contains(got, optional) != c.isFurther {
			t.Errorf("%s: measures %v", c.name, got)
		}
	}
	if got := planOf(Options{Only: []string{nameStraitManyPeers}}); !slices.Equal(got, []string{"nogro/memory/idle-peerings"}) {
		t.Errorf("a subject of optional tests only: measures %v", got)
	}
}

func TestListMarksOptionalTests(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	if err := List(&list); err != nil {
		t.Fatal(err)
	}
	marked := make(map[string]bool)
	for line := range strings.Lines(list.String()) {
		fields := strings.Fields(line)
		marked[fields[0]] = fields[1] == "--all"
	}
	for name, want := range map[string]bool{
		"nogro/tcp/streams=1/direction=a-to-b": false, "nogro/tcp/streams=32/direction=b-to-a": true,
		"wire/tcp/streams=32/direction=a-to-b": true, "nogro/udp/size=imix/drop-rates": true, "nogro/memory/idle-peerings": true,
	} {
		if got, listed := marked[name]; !listed || got != want {
			t.Errorf("%s: listed %v, marked %v, want %v", name, listed, got, want)
		}
	}
}

func TestIMIXHasItsSizes(t *testing.T) {
	t.Parallel()
	count := make(map[int]int)
	for _, f := range frameSizes {
		if f.name != "imix" {
			continue
		}
		for _, payload := range payloadsOf(f.sizes) {
			count[payload+28]++
		}
	}
	if len(count) != 3 || count[64] != 7 || count[570] != 4 || count[1400] != 1 {
		t.Errorf("packets by size: %v, want 7 of 64, 4 of 570, 1 of 1400 bytes", count)
	}
}

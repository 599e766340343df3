package resident

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// fileMemory returns the resident memory that files provide, in KiB.
func fileMemory(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "RssFile: %d kB", &kib); err == nil {
			return kib
		}
	}
	t.Fatalf("no RssFile in\n%s", status)
	return 0
}

func TestTheStartOfAProgramIsNotResidentForLong(t *testing.T) {
	before := fileMemory(t)
	if err := trim(); err != nil {
		t.Fatal(err)
	}
	if after := fileMemory(t); after >= before {
		t.Errorf("%d KiB of files are resident, %d before", after, before)
	}
}

// Pages that were written, or may be written, would lose their contents.
func TestOnlyWhatEqualsTheFileIsTrimmed(t *testing.T) {
	t.Parallel()
	smaps := func(permissions, file, anonymous string) string {
		return "00400000-00c00000 " + permissions + " 00001000 fe:00 131 " + file + "\nSize:   8192 kB\nRss:    4096 kB\n" +
			"Anonymous:      " + anonymous + " kB\nVmFlags: rd mr mw me\n"
	}
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"code":                 {smaps("r-xp", "/strait", "0"), true},
		"constants":            {smaps("r--p", "/strait", "0"), true},
		"a deleted program":    {smaps("r-xp", "/strait (deleted)", "0"), false},
		"variables":            {smaps("rw-p", "/strait", "0"), false},
		"relocated constants":  {smaps("r--p", "/strait", "4"), false},
		"a shared mapping":     {smaps("r--s", "/strait", "0"), false},
		"another file":         {smaps("r-xp", "/lib/strait", "0"), false},
		"no file":              {smaps("r--p", "", "0"), false},
		"an unknown range":     {strings.Replace(smaps("r-xp", "/strait", "0"), "00400000-", "-", 1), false},
		"nothing":              {"", false},
		"one after the other":  {smaps("rw-p", "/strait", "0") + smaps("r-xp", "/strait", "0"), true},
		"the other way around": {smaps("r-xp", "/strait", "4") + smaps("rw-p", "/strait", "0"), false},
	} {
		var want []mapping
		if c.want {
			want = []mapping{{0x400000, 0xc00000}}
		}
		if got := unchanged([]byte(c.text), "/strait"); !slices.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
}

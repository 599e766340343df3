package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEachResultIsShownAndTallied(t *testing.T) {
	for _, c := range []struct {
		name, events, shown, tally string
		status                     int
	}{
		{
			name: "a passed package is one line",
			events: `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: said in passing\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p","Elapsed":0.1}
`,
			shown: "ok  \tp\t0.1s\n",
			tally: "pass\tp.TestA\t\n",
		},
		{
			name: "a skipped test says why",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: needs root: use sudo\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
`,
			shown: "--- SKIP: p.TestA: needs root: use sudo\n",
			tally: "skip\tp.TestA\tneeds root: use sudo\n",
		},
		{
			name: "a failed test shows all it said, and its package is not a second failure",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`,
			shown:  "    a_test.go:3: got 1, want 2\n",
			tally:  "fail\tp.TestA\t\n",
			status: 1,
		},
		{
			name: "a package that does not build is a failure",
			events: `{"ImportPath":"p","Action":"build-output","Output":"p.go:1: syntax error\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`,
			shown:  "p.go:1: syntax error\nFAIL\tp [build failed]\n",
			tally:  "fail\tp\t\n",
			status: 1,
		},
		{
			name: "a test that never ended is a failure",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"kernel panic\n"}
`,
			shown:  "kernel panic\n--- FAIL: p.TestA: did not end\n",
			tally:  "fail\tp.TestA\t\n",
			status: 1,
		},
		{
			name:   "a lab that was left out is skipped",
			events: "booting\nguest lab left out: no emulator; install one\n",
			shown:  "booting\nguest lab left out: no emulator; install one\n",
			tally:  "skip\tguest lab\tno emulator; install one\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tally")
			var shown strings.Builder
			status := run([]string{"-tally", path}, strings.NewReader(c.events), &shown)
			tally, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if shown.String() != c.shown || string(tally) != c.tally || status != c.status {
				t.Errorf("got status %d, tally %q, shown\n%s\nwant status %d, tally %q, shown\n%s",
					status, tally, shown.String(), c.status, c.tally, c.shown)
			}
		})
	}
}

package main

import (
	"runtime"
	"strings"
	"testing"
)

func TestACommandOfAnotherPlatformSaysSoInOneLine(t *testing.T) {
	for _, args := range []string{"far", "far --config gateway.yaml --check", "far -c gateway.yaml", "far route 10.71.2.9 --from=10.0.1.5", "far --remove --yes"} {
		root := newRoot()
		c := linuxOnly("far", "Run something")
		markUsage(c)
		root.AddCommand(c)
		var out, errs strings.Builder
		root.SetOut(&out)
		root.SetErr(&errs)
		code := execute(root, strings.Fields(args))
		if want := "strait: strait far needs Linux, not " + runtime.GOOS + ": run it in a container\n"; code != exitFailed || out.Len() > 0 || errs.String() != want {
			t.Errorf("strait %s ends with %d, prints %q and says %q", args, code, out.String(), errs.String())
		}
	}
	root := newRoot()
	root.AddCommand(linuxOnly("far", "Run something"))
	var out strings.Builder
	root.SetOut(&out)
	if code := execute(root, []string{"far", "--help"}); code != exitOK || !strings.Contains(out.String(), "Run something (needs Linux)") {
		t.Errorf("--help ends with %d and prints %s", code, out.String())
	}
}

package main

import (
	"slices"
	"strings"
	"testing"
)

func TestHelpNamesUnknownCommands(t *testing.T) {
	for _, args := range []string{"help foo", "help dns foo", "help status foo"} {
		out, stderr, code := output("", strings.Fields(args)...)
		if code != exitUsage || out != "" || !strings.Contains(stderr, `unknown command "foo"`) {
			t.Errorf("strait %s ends with %d and says %q, %q", args, code, out, stderr)
		}
	}
	for _, args := range []string{"help dns check", "help status", "help"} {
		help, _, code := output("", strings.Fields(args)...)
		want, _, _ := output("", append(strings.Fields(args)[1:], "--help")...)
		if code != exitOK || help != want {
			t.Errorf("strait %s ends with %d and prints\n%s\nwant\n%s", args, code, help, want)
		}
	}
	if got := completed(t, "help", "dns", ""); !slices.Equal(got, []string{"check", "configure", "remove"}) {
		t.Errorf("after strait help dns there is offered %q", got)
	}
}

func TestAGroupWithoutItsSubcommandIsAUsageError(t *testing.T) {
	for args, want := range map[string]string{
		"dns":  "choose strait dns check, strait dns configure or strait dns remove",
		"cidr": "choose strait cidr plan",
	} {
		if _, stderr, code := output("", args); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("strait %s ends with %d and says %q, want %q in it", args, code, stderr, want)
		}
	}
}

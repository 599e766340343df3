//go:build linux

package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"strait.dev/strait/internal/demo"
)

func TestDemoThatFailsEndsWithAnErrorThatNamesTheStep(t *testing.T) {
	r := &demo.Report{Steps: []demo.Step{{Name: "link", Result: demo.Passed}, {Name: "traceroute", Result: demo.Failed}}}
	err := verdict(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "traceroute") || !strings.Contains(err.Error(), "strait demo --debug") {
		t.Errorf("the verdict is: %v", err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := verdict(ctx, r); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("the verdict on an interrupted run is: %v", err)
	}
	if err := verdict(t.Context(), &demo.Report{Passed: true}); err != nil {
		t.Errorf("the verdict on a run that passed is: %v", err)
	}
}

func TestDemoExitCodes(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing")) // a demo that cannot start
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"demo"}, exitFailed},
		{[]string{"demo", "-o", "json"}, exitFailed},
		{[]string{"demo", "-o", "xml"}, exitUsage},
		{[]string{"demo", "extra"}, exitUsage},
		{[]string{"demo", "--help"}, exitOK},
	} {
		if code := execute(newRoot(), c.args); code != c.code {
			t.Errorf("strait %s exits %d, want %d", strings.Join(c.args, " "), code, c.code)
		}
	}
}

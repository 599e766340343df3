package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"strait.dev/strait/operate/findings"
)

func TestUninstallNamesTheHelmCommand(t *testing.T) {
	for _, args := range [][]string{{"uninstall"}, {"uninstall", "--prepare", "--check"}} {
		_, stderr, code := output("", args...)
		if code != exitUsage || !strings.Contains(stderr, "helm uninstall strait --namespace strait-system") || !strings.Contains(stderr, "--check") {
			t.Errorf("%v ends with %d: %s", args, code, stderr)
		}
	}
}

// Checks of an unreachable cluster are findings, with the exit code of errors.
func TestChecksOfAnUnreachableClusterAreFindings(t *testing.T) {
	away := httptest.NewServer(nil)
	away.Close()
	access(t, map[string]string{"a": away.URL})
	for _, args := range [][]string{{"preflight"}, {"uninstall", "--check", "--no-pods"}} {
		args = append(args, "--context=a", "-o", "json")
		out, stderr, code := output("", args...)
		var all []findings.Finding
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out, stderr)
		}
		if code != exitFailed || len(all) == 0 || all[0].Code != "STRAIT-C001" || all[0].Remedy == "" || all[0].Page == "" {
			t.Errorf("%v ends with %d and %+v", args, code, all)
		}
	}
}

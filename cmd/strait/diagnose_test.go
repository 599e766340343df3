package main

import (
	"encoding/json"
	"strings"
	"testing"

	"strait.dev/strait/operate/diagnose"
)

func TestADiagnosisOfAClusterThatIsAwaySaysSoFirst(t *testing.T) {
	access(t, map[string]string{"a": objects(t, readyObjects).URL, "b": "http://127.0.0.1:1"})
	out, stderr, code := output("", "diagnose", "--context", "a", "--remote-context", "b", "--no-pods")
	if code != exitFailed || !strings.HasPrefix(out, "1. access to the API server (STRAIT-C001)\n") ||
		!strings.Contains(out, "     context b: the API server cannot be reached") || !strings.Contains(stderr, "begin with the first cause") {
		t.Errorf("it ends with %d and says\n%s%s", code, out, stderr)
	}
	out, _, code = output("", "diagnose", "--context", "a", "--remote-context", "b", "--no-pods", "-o", "json")
	var r diagnose.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitFailed || r.Schema != diagnose.Schema || r.Well || !r.Checks.NoPods || r.Causes[0].Code != "STRAIT-C001" {
		t.Errorf("it ends with %d and says %+v: %v", code, r, err)
	}
}

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
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

// The peering is not ready when the command begins.
func TestADiagnosisLooksAgainAtWhatHasJustChanged(t *testing.T) {
	ready := objects(t, readyObjects).Config.Handler
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/peerings") && asked.Add(1) <= 2 {
			was := httptest.NewRecorder()
			ready.ServeHTTP(was, r)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.ReplaceAll(was.Body.String(), `"status":"True"`, `"status":"False"`))
			return
		}
		ready.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	access(t, map[string]string{"a": server.URL})
	out, _, _ := output("", "diagnose", "--context", "a", "--no-pods")
	if strings.Contains(out, "of strait status is not reached") || !strings.Contains(out, "looked at 1 peerings") {
		t.Errorf("it says\n%s", out)
	}
}

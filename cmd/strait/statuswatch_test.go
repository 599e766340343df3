package main

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"strait.dev/strait/operate/operator"
)

func reportOf(remote string, ready bool) *operator.Report {
	return &operator.Report{ClusterID: "a", Peerings: []operator.PeeringReport{{
		Name: "b", Ready: ready, Missing: "no link is up", Links: []operator.Link{{Local: "a-0", Remote: remote, Up: ready}},
	}}}
}

var errAway = errors.New("context a: the API server cannot be reached")

func watched(t *testing.T, w *statusWatch, to *bytes.Buffer, r *operator.Report, err error) string {
	t.Helper()
	to.Reset()
	if err := w.see(r, err); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `).ReplaceAllString(to.String(), "")
}

func TestAWatchPrintsALineForEachChange(t *testing.T) {
	var to bytes.Buffer
	w := &statusWatch{to: &to, output: "table"}
	for _, step := range []struct {
		report *operator.Report
		err    error
		want   string
	}{
		{reportOf("b-0", true), nil, "Peering b: ready\nPeering b: link a-0 to b-0 is up\n"},
		{reportOf("b-0", true), nil, ""},
		{nil, errAway, "context a: the API server cannot be reached\n"},
		{nil, errAway, ""},
		{reportOf("b-0", false), nil, "the API server answers again\nPeering b: not ready: no link is up\nPeering b: link a-0 to b-0 is down\n"},
	} {
		if got := watched(t, w, &to, step.report, step.err); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}

func TestAWatchPrintsADocumentForEachChange(t *testing.T) {
	for format, begin := range map[string]string{"json": "{\n", "yaml": "---\n"} {
		var to bytes.Buffer
		w := &statusWatch{to: &to, output: format}
		for i, step := range []struct {
			report *operator.Report
			err    error
			prints bool
		}{{reportOf("b-0", true), nil, true}, {reportOf("b-0", true), nil, false}, {nil, errAway, false}, {reportOf("b-0", false), nil, true}} {
			if got := watched(t, w, &to, step.report, step.err); strings.HasPrefix(got, begin) != step.prints || !step.prints && got != "" {
				t.Errorf("%s, step %d: %q", format, i, got)
			}
		}
	}
}

func TestAWatchDrawsTheTableOverTheLast(t *testing.T) {
	var to bytes.Buffer
	w := &statusWatch{to: escaping(&to), output: "table", terminal: &to}
	first := watched(t, w, &to, reportOf("b-0\x1b[2J", true), nil)
	if !strings.HasPrefix(first, "\x1b[?7l\x1b[H") || !strings.HasSuffix(first, "\x1b[J\x1b[?7h") || !strings.Contains(first, "Peering b: ready\x1b[K\n") {
		t.Errorf("drawn: %q", first)
	}
	if strings.Contains(first, "\x1b[2J") {
		t.Error("a sequence of the remote cluster reaches the terminal")
	}
	// What was last known stays while the API server is away.
	if away := watched(t, w, &to, nil, errAway); !strings.Contains(away, errAway.Error()) || !strings.Contains(away, "Peering b: ready") {
		t.Errorf("drawn: %q", away)
	}
	if got := strings.Join(fitting([]string{"1", "2", "3", "4", "5"}, 4), ","); got != "1,2,… and 3 lines more" {
		t.Errorf("four lines show %s", got)
	}
}

func TestAWatchNeitherWaitsNorPrintsAPeering(t *testing.T) {
	for _, other := range []string{"--wait", "--for-remote"} {
		if _, stderr, code := output("", "status", "--watch", other); code != exitUsage || !strings.Contains(stderr, "--watch goes neither with --wait nor with --for-remote") {
			t.Errorf("%s: it ends with %d and says %s", other, code, stderr)
		}
	}
	if _, stderr, _ := output("", "status", "b", "--for-remote", "--wait", "--kubeconfig", "/nowhere"); strings.Contains(stderr, "--wait") {
		t.Errorf("--for-remote does not wait: %s", stderr)
	}
}

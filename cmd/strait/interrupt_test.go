//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

func TestAnInterruptedCommandSaysSo(t *testing.T) {
	away := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGINT) // as Ctrl-C, while the command waits for the answer
		<-r.Context().Done()
	}))
	defer away.Close()
	access(t, map[string]string{"away": away.URL})
	for _, args := range []string{"status --context away", "status --context away --wait", "services --context away"} {
		if _, stderr, code := output("", strings.Fields(args)...); code != exitInterrupted || stderr != "strait: interrupted\n" {
			t.Errorf("strait %s ends with %d and says %q", args, code, stderr)
		}
	}
}

func TestTestsAreListedInEveryFormatWithoutACluster(t *testing.T) {
	access(t, nil)
	for _, args := range []string{"bench --list", "bench --peering b --list"} {
		table, stderr, code := output("", strings.Fields(args)...)
		if code != exitOK || table == "" || strings.Contains(table, "=-") {
			t.Errorf("strait %s ends with %d and prints %s%s", args, code, table, stderr)
		}
		text, _, code := output("", append(strings.Fields(args), "-o", "json")...)
		var names []string
		if err := json.Unmarshal([]byte(text), &names); err != nil || code != exitOK || strings.Join(names, "\n")+"\n" != table {
			t.Errorf("strait %s -o json ends with %d, %v: %s", args, code, err, text)
		}
	}
}

package main

import (
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// commandsOfClusters are command lines that send requests to the API server of context away,
// or --remote-context away. They are valid in all else.
var commandsOfClusters = []string{
	"accept --context away --file b.invite",
	"bench --peering b --context away --remote-context a",
	"bench --peering b --context a --remote-context away",
	"capture --context away --file packets",
	"cidr plan --context away --remote 10.0.0.0/16",
	"cidr plan --context a --remote-context away",
	"dns check --context away",
	"dns check --context away --no-pods",
	"dns configure --context away --yes",
	"dns configure --context away --dry-run",
	"dns remove --context away --yes",
	"export shop/cart --context away",
	"export shop/cart --context away --wait=10m",
	"export shop/cart --context a --remote-context away",
	"gather --context away --file bundle",
	"invite b --context away",
	"peer --context away --remote-context a",
	"peer --context a --remote-context away",
	"preflight --context away",
	"preflight --context away --no-pods",
	"resolve 10.71.2.9 --context away",
	"resolve 10.71.2.9 --context away --of b",
	"rotate-keys b --context away",
	"services --context away",
	"services --context a --remote-context away",
	"status --context away",
	"status --context away --wait=10m",
	"status --context away --for-remote",
	"trace default/web 10.71.2.9:80 --context away",
	"trace default/web cart.shop.svc.clusterset.local:80 --context away",
	"unexport shop/cart --yes --context away",
	"uninstall --check --context away",
	"uninstall --check --no-pods --context away",
	"uninstall --prepare --yes --context away",
	"unpeer b --yes --context away",
	"unpeer b --yes --context a --remote-context away",
	"version --context away",
	"version --context a --remote-context away -o json",
	"verify --context away",
	"verify --context away --short",
	"verify --context a --remote-context away",
	"verify --context a --remote-context away --disrupt --yes",
}

const unreachableError = "context away: the API server cannot be reached; check that the context is the right one and that kubectl reaches it: "

// unreachableIn checks that every command reports an API server that cannot be reached, in
// the same words, and without a retry.
func unreachableIn(t *testing.T, why string, flags ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("b.invite", []byte(inviteUntil(t, time.Now().Add(time.Hour))), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range commandsOfClusters {
		t.Run(line, func(t *testing.T) {
			out, stderr, code := output("", append(strings.Fields(line), flags...)...)
			if all := out + stderr; code != exitFailed || !strings.Contains(all, unreachableError) || !strings.Contains(all, why) {
				t.Errorf("ends with %d and says\n%s\nwant %q and %q", code, all, unreachableError, why)
			}
			for _, wrong := range []string{"dns configure", "Upgrade", "Get \"", "Post \"", "retry", "run the command again"} {
				if strings.Contains(out+stderr, wrong) {
					t.Errorf("says %q, which is no remedy:\n%s%s", wrong, out, stderr)
				}
			}
		})
	}
	if left, _ := filepath.Glob("packets*"); len(left) > 0 {
		t.Errorf("made %q", left)
	}
}

func TestEveryCommandReportsAnUnreachableAPIServerAtOnce(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	access(t, map[string]string{"a": objects(t, readyObjects).URL, "away": closed.URL})
	unreachableIn(t, "connection refused")
}

func TestEveryCommandReportsASilentAPIServerWithinTheRequestTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and answers none
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	access(t, map[string]string{"a": objects(t, readyObjects).URL, "away": "http://" + l.Addr().String()})
	unreachableIn(t, "no answer after 100ms", "--request-timeout=100ms")
}

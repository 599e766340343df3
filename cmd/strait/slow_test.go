//go:build nightly

package main

import (
	"net"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"strait.dev/strait/test/ports"
)

// silent is an address where connections are taken and nothing is ever answered.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

func TestAnUnresponsiveAPIServerIsReportedAfterTenSeconds(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", kubeconfig(t, map[string]*rest.Config{"silent": {Host: silent(t)}}))
	fail(t, "",
		mistake{"no answer", "status --context silent", exitFailed, []string{"context silent: the API server cannot be reached; check that the context is the right one", "no answer after 10s"}})
}

func TestACallWaitsForAServer(t *testing.T) {
	began := time.Now()
	_, stderr, code := output("", "agent", "call", "http://"+ports.Address(t), "--for", "300ms")
	if took := time.Since(began); code != exitFailed || took < 200*time.Millisecond {
		t.Errorf("ends with %d after %v and says %q", code, took, stderr)
	}
}

//go:build linux

package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/test/ports"
)

func TestTheHelloServerReturnsTheClientsAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serveHello(ctx, listener, 0) }()
	out, stderr, code := output("", "agent", "call", "http://"+listener.Addr().String()+"/")
	if code != exitOK || !strings.HasPrefix(out, "hello from ") || !strings.Contains(out, " at "+listener.Addr().String()+"; you are 127.0.0.1:") {
		t.Errorf("ends with %d and prints %q, %q", code, out, stderr)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the server ends with %v", err)
	}
}

// Clients know of the end of a server some time after it.
func TestTheHelloServerAnswersAMomentLonger(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serveHello(ctx, listener, time.Hour) }()
	stop()
	if out, stderr, code := output("", "agent", "call", "http://"+listener.Addr().String()+"/"); code != exitOK {
		t.Errorf("ends with %d and prints %q, %q", code, out, stderr)
	}
	_ = listener.Close()
	<-done
}

func TestACallReportsTheStatusOfTheServer(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	_, stderr, code := output("", "agent", "call", refusing.URL)
	if code != exitFailed || !strings.Contains(stderr, "answers 404 Not Found") {
		t.Errorf("ends with %d and says %q", code, stderr)
	}
	_, stderr, code = output("", "agent", "call", "http://"+ports.Address(t), "--for", "1s")
	if code != exitFailed || !strings.Contains(stderr, "refused") {
		t.Errorf("ends with %d and says %q", code, stderr)
	}
}

//go:build apiserver || nightly

package offload_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"          //nolint:staticcheck // its successor would be one more direct dependency
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"     //nolint:staticcheck // as above
	"k8s.io/apimachinery/pkg/util/httpstream/wsstream" //nolint:staticcheck // as above
	"k8s.io/client-go/tools/remotecommand"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/identity"
)

// farKubelet is the kubelet of the provider's only machine: it has one line of each log, and its
// commands repeat their input.
type farKubelet struct {
	mu    sync.Mutex
	asked []string
}

func (k *farKubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.asked = append(k.asked, r.Method+" "+r.URL.RequestURI())
	k.mu.Unlock()
	switch path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); {
	case path == "containerLogs" && r.FormValue("previous") == "true":
		http.Error(w, "previous terminated container not found", http.StatusBadRequest)
	case path == "containerLogs":
		io.WriteString(w, "first line\n")
		if r.FormValue("follow") == "true" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	case path == "exec":
		k.exec(w, r)
	default:
		http.NotFound(w, r)
	}
}

// exec repeats the input on the output, and tells the command.
func (k *farKubelet) exec(w http.ResponseWriter, r *http.Request) {
	if wsstream.IsWebSocketRequest(r) {
		const in, out, failure = 0, 1, 3
		conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v4.channel.k8s.io": {Binary: true,
			Channels: []wsstream.ChannelType{in: wsstream.IgnoreChannel, out: wsstream.WriteChannel, 2: wsstream.IgnoreChannel, failure: wsstream.WriteChannel}}})
		if _, channels, err := conn.Open(w, r); err == nil {
			fmt.Fprintf(channels[out], "%v", r.URL.Query()["command"])
			io.WriteString(channels[failure], `{"metadata":{},"status":"Success"}`)
			conn.Close()
		}
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error { streams <- s; return nil })
	if conn == nil {
		return
	}
	defer conn.Close()
	by := make(map[string]httpstream.Stream)
	for len(by) < 3 {
		select {
		case s := <-streams:
			by[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	fmt.Fprintf(by[corev1.StreamTypeStdout], "%v: ", r.URL.Query()["command"])
	_, _ = io.Copy(by[corev1.StreamTypeStdout], by[corev1.StreamTypeStdin])
	io.WriteString(by[corev1.StreamTypeError], `{"metadata":{},"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`)
}

// startKubelet makes a machine of the provider with a kubelet.
func (p *pair) startKubelet(t *testing.T) *farKubelet {
	t.Helper()
	serving, err := identity.Generate("node-1")
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	k := new(farKubelet)
	server := &http.Server{Handler: k, TLSConfig: &tls.Config{Certificates: []tls.Certificate{serving}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { server.Close() })
	node, err := p.b.Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
	must(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(listener.Addr().(*net.TCPAddr).Port)
	_, err = p.b.Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	must(t, err)
	return k
}

// talks reads the log of a pod and runs a command in it through both API servers and both agents,
// with the rights that the commands grant; and shows that its own pods cannot.
func (p *pair) talks(t *testing.T) {
	t.Helper()
	far := p.startKubelet(t)
	p.pod(t, "talks", nil)
	p.awaitTwin(t, "talks", "")
	must(t, p.of[1].Kubernetes().CoreV1().Pods("shop").Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "talks"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}, metav1.CreateOptions{}))
	twin, missing := get(t.Context(), p.b, "talks")
	if missing != "" {
		t.Fatal(missing)
	}
	p.starts(t, twin)
	await(t, "the log of the pod", func(ctx context.Context) string {
		log, err := p.a.Logs(ctx, "shop", "talks", "web", corev1.PodLogOptions{TailLines: new(int64(5))})
		if err != nil {
			return err.Error()
		}
		defer log.Close()
		text, err := io.ReadAll(log)
		if err != nil || string(text) != "first line\n" {
			return fmt.Sprintf("%q, %v", text, err)
		}
		return ""
	})
	if _, err := p.a.Logs(t.Context(), "shop", "talks", "web", corev1.PodLogOptions{Previous: true}); err == nil || !strings.Contains(err.Error(), "previous terminated container not found") {
		t.Errorf("the log of a container that did not run before: %v", err)
	}
	var out bytes.Buffer
	err := p.a.Exec(t.Context(), client.ExecOptions{Namespace: "shop", Pod: "talks", Container: "web", Command: []string{"cat", "-"}, Stdin: strings.NewReader("in\n"), Stdout: &out})
	var exit *client.ExitError
	if out.String() != "[cat -]: in\n" || !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("the command prints %q, %v", out.String(), err)
	}
	p.execsByWebSocket(t)
	log, err := p.a.Logs(t.Context(), "shop", "talks", "web", corev1.PodLogOptions{Follow: true})
	must(t, err)
	first := make([]byte, 11)
	_, err = io.ReadFull(log, first)
	must(t, err)
	log.Close()
	want := []string{
		"GET /containerLogs/shop/talks/web?tailLines=5", "GET /containerLogs/shop/talks/web?previous=true",
		"POST /exec/shop/talks/web?command=cat&command=-&input=1&output=1",
		"GET /exec/shop/talks/web?command=id&output=1", "GET /containerLogs/shop/talks/web?follow=true",
	}
	far.mu.Lock()
	if !slices.Equal(slices.Compact(far.asked), want) {
		t.Errorf("the kubelet is asked for %q, want %q", far.asked, want)
	}
	far.mu.Unlock()
	p.forbids(t)
	now := int64(0)
	must(t, p.a.Pods("shop").Delete(t.Context(), "talks", metav1.DeleteOptions{}))
	await(t, "the twin ends", func(ctx context.Context) string {
		is, missing := get(ctx, p.b, "talks")
		if missing != "" {
			return ""
		}
		if is.DeletionTimestamp == nil {
			return "it is not deleted"
		}
		return fmt.Sprint(p.b.Pods("shop").Delete(ctx, "talks", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	})
}

// execsByWebSocket runs a command as clients do that speak an older protocol than kubectl: the API
// server passes a WebSocket on as it is.
func (p *pair) execsByWebSocket(t *testing.T) {
	t.Helper()
	at := p.a.PodURL("shop", "talks", "exec")
	at.RawQuery = url.Values{"container": {"web"}, "command": {"id"}, "stdout": {"true"}}.Encode()
	executor, err := remotecommand.NewWebSocketExecutorForProtocols(p.of[0].Admin(), http.MethodGet, at.String(), "v4.channel.k8s.io")
	must(t, err)
	var out bytes.Buffer
	if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err != nil || out.String() != "[id]" {
		t.Errorf("over WebSocket the command prints %q, %v", out.String(), err)
	}
}

// forbids calls the kubelet port as a pod of the cluster could.
func (p *pair) forbids(t *testing.T) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, TLSHandshakeTimeout: 10 * time.Second}
	defer transport.CloseIdleConnections()
	for _, c := range []struct {
		who, token string
		want       int
	}{{"no one", "", 401}, {"an invalid token", "x.y.z", 401}, {"the borrower's own account", p.asA.BearerToken, 403}} {
		for _, path := range []string{"/healthz", "/containerLogs/shop/talks/web", "/exec/shop/talks/web?command=sh", "/portForward/shop/talks"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.port+path, nil)
			must(t, err)
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			answer, err := transport.RoundTrip(r)
			must(t, err)
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != c.want {
				t.Errorf("%s with %s: %s, %s", path, c.who, answer.Status, text)
			}
		}
	}
}

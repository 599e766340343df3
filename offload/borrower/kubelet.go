package borrower

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/streams"
	"strait.dev/strait/offload/translate"
)

// Port is the default kubelet port of virtual nodes. It is that of other kubelets, for which
// firewalls between a control plane and its nodes are open.
const Port = 10250

// streamPatience is how long the lender and its API server may take to begin a stream.
const streamPatience = 30 * time.Second

func (b *borrower) kubelet() *http.Server {
	return streams.Server(http.HandlerFunc(b.serve), &tls.Config{
		Certificates: []tls.Certificate{b.serving}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.RequestClientCert, // callers verifies it: a client may have a token instead
	})
}

func (b *borrower) port() int32 {
	if a, ok := b.Listener.Addr().(*net.TCPAddr); ok {
		return int32(a.Port) //nolint:gosec // it is a port
	}
	return 0
}

func (b *borrower) serve(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 { // it will be refused, and one that does not arrive would keep the connection
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(streams.Handshake))
	}
	to, known := parse(r.URL)
	verb := "create" // also to get exec: it runs a command
	if r.Method == http.MethodGet && (to.stream == protocol.Log || to.health) {
		verb = "get"
	}
	within, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	user, refused := b.callers.admit(within, r, verb)
	if refused != nil {
		w.Header().Set("Connection", "close")
		http.Error(w, refused.text, refused.code)
		return
	}
	switch {
	case !known:
		answer(w, http.StatusNotFound, fmt.Errorf("the virtual node %s has no such path; it serves logs, exec, attach and port-forward", b.node.Name))
	case r.Method != http.MethodGet && (r.Method != http.MethodPost || to.health || to.stream == protocol.Log):
		answer(w, http.StatusMethodNotAllowed, fmt.Errorf("method %s is not supported here", r.Method))
	case to.health:
		_, _ = io.WriteString(w, "ok")
	default:
		b.stream(w, r, to, user)
	}
}

func (b *borrower) stream(w http.ResponseWriter, r *http.Request, to target, user string) {
	session := b.link.current()
	if session == nil || !b.pods.HasSynced() {
		answer(w, http.StatusServiceUnavailable, fmt.Errorf("the cluster of Peering %s does not answer", b.Peering))
		return
	}
	pod, ok := b.pods.Get(to.namespace + "/" + to.pod) // only those of the node
	if !ok {
		answer(w, http.StatusNotFound, fmt.Errorf("node %s has no pod %s/%s", b.node.Name, to.namespace, to.pod))
		return
	}
	log := b.log.With("stream", to.stream, "namespace", pod.Namespace, "pod", pod.Name)
	if to.stream != protocol.PortForward {
		if !translate.HasContainer(&pod.Spec, to.container) {
			answer(w, http.StatusNotFound, fmt.Errorf("pod %s/%s has no container %q", to.namespace, to.pod, to.container))
			return
		}
		log = log.With("container", to.container)
	}
	log.Info("a pod is used", "by", user)
	from := &url.URL{Scheme: "https", Host: "lender", Path: protocol.StreamPath(string(pod.UID), to.stream), RawQuery: query(to, r.URL.Query()).Encode()}
	b.streams.Serve(session, w, r, to.stream, from)
}

type target struct {
	stream                    string
	namespace, pod, container string
	health                    bool
}

// paths are the streams by the first element of their path.
var paths = map[string]string{"containerLogs": protocol.Log, "exec": protocol.Exec, "attach": protocol.Attach, "portForward": protocol.PortForward}

// parse returns what a URL asks for. Names of objects need no escapes, so a path has none.
func parse(u *url.URL) (to target, ok bool) {
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if len(parts) == 1 && parts[0] == "healthz" {
		return target{health: true}, true
	}
	stream, ok := paths[parts[0]]
	size := 4
	if stream == protocol.PortForward {
		size = 3
	}
	if !ok || len(parts) != size || slices.ContainsFunc(parts, func(s string) bool { return s == "" || s == "." || s == ".." || strings.ContainsRune(s, '%') }) {
		return target{}, false
	}
	to = target{stream: stream, namespace: parts[1], pod: parts[2]}
	if stream != protocol.PortForward {
		to.container = parts[3]
	}
	return to, true
}

// query returns the parameters of a stream with the names that the Kubernetes API has. Some of a
// kubelet's names are others.
func query(to target, kubelet url.Values) url.Values {
	named := make(url.Values, len(kubelet))
	for name, values := range kubelet {
		switch name {
		case "input", "output", "error":
			named[map[string]string{"input": "stdin", "output": "stdout", "error": "stderr"}[name]] = values
		case "port":
			named["ports"] = strings.Split(strings.Join(values, ","), ",")
		case "stdin", "stdout", "stderr", "ports", "container":
		default:
			named[name] = values
		}
	}
	if to.container != "" {
		named.Set("container", to.container)
	}
	return protocol.Parameters(to.stream, named)
}

// answer answers with an error in plain text, as kubelets do: kubectl shows it.
func answer(w http.ResponseWriter, code int, err error) { http.Error(w, err.Error(), code) }

package daemon

import (
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strait.dev/strait/internal/localsocket"
)

// socketPath is short: the path of a unix socket has at most 107 bytes.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "strait")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "strait.sock")
}

// withRoute adds a route for the length of a test.
func withRoute(t *testing.T, pattern string, handle func(*Daemon, http.ResponseWriter, *http.Request)) {
	t.Helper()
	t.Cleanup(func() { delete(localRoutes, pattern) })
	localRoutes[pattern] = handle
}

func echo(_ *Daemon, w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }

func call(t *testing.T, socket, path, body string) (string, error) {
	t.Helper()
	answer, err := localsocket.Call(t.Context(), socket, path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer answer.Close()
	text, err := io.ReadAll(answer)
	return string(text), err
}

func TestT13_TheSocketIsForTheGatewaysOwnUserAlone(t *testing.T) {
	withRoute(t, "POST /echo", echo)
	path := socketPath(t)
	s := openSocket(path, func() *Daemon { return new(Daemon) }, slog.New(slog.DiscardHandler))
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got, err := call(t, path, "/echo", "hello"); got != "hello" {
		t.Errorf("answers %q, %v", got, err)
	}
	s.close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays behind: %v", err)
	}
	if _, err := call(t, path, "/echo", ""); err == nil || !strings.Contains(err.Error(), "no gateway listens on "+path) {
		t.Errorf("without a gateway: %v", err)
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	withRoute(t, "POST /echo", echo)
	path := socketPath(t)
	for _, stale := range []string{path, path + ".new"} { // of a gateway that was killed
		l, err := net.Listen("unix", stale)
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		l.Close()
	}
	if _, err := call(t, path, "/echo", ""); err == nil || !strings.Contains(err.Error(), "no gateway listens") {
		t.Errorf("a stale socket: %v", err)
	}
	s := openSocket(path, func() *Daemon { return new(Daemon) }, slog.New(slog.DiscardHandler))
	defer s.close()
	if got, err := call(t, path, "/echo", "hello"); got != "hello" {
		t.Errorf("answers %q, %v", got, err)
	}
}

func TestAGatewayThatEndsLeavesTheSocketOfItsSuccessor(t *testing.T) {
	withRoute(t, "POST /echo", echo)
	path, running := socketPath(t), func() *Daemon { return new(Daemon) }
	old := openSocket(path, running, slog.New(slog.DiscardHandler))
	next := openSocket(path, running, slog.New(slog.DiscardHandler))
	defer next.close()
	old.close()
	if got, err := call(t, path, "/echo", "hello"); got != "hello" {
		t.Errorf("answers %q, %v", got, err)
	}
}

func TestAGatewayStartsWithoutItsSocket(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.socket = filepath.Join(filepath.Dir(b.path), "nowhere", "strait.sock")
	b.start(t)
	if !strings.Contains(b.log.String(), "cannot open the local socket") || !strings.Contains(b.log.String(), "the directory must exist") {
		t.Errorf("does not say so:\n%s", b.log.String())
	}
}

func TestTheSocketNeverReplacesAnotherKindOfFile(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	writeFile(t, path, "precious")
	if l, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "choose another path") {
		t.Errorf("%v, %v", l, err)
	}
	if content, _ := os.ReadFile(path); string(content) != "precious" {
		t.Errorf("the file has become %q", content)
	}
}

func TestTheSocketSaysWhatCannotBeAsked(t *testing.T) {
	withRoute(t, "POST /echo", echo)
	path := socketPath(t)
	s := openSocket(path, func() *Daemon { return nil }, slog.New(slog.DiscardHandler))
	defer s.close()
	if _, err := call(t, path, "/echo", ""); err == nil || !strings.Contains(err.Error(), "no configuration yet") {
		t.Errorf("before the gateway runs: %v", err)
	}
	if _, err := call(t, path, "/later", ""); err == nil || !strings.Contains(err.Error(), "the gateway's own version") {
		t.Errorf("a path that it does not know: %v", err)
	}
}

func TestRequestsEndWithTheSocket(t *testing.T) {
	begun, ended := make(chan bool), make(chan bool, 1)
	withRoute(t, "POST /wait", func(_ *Daemon, _ http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
		ended <- true
	})
	path := socketPath(t)
	s := openSocket(path, func() *Daemon { return new(Daemon) }, slog.New(slog.DiscardHandler))
	answered := make(chan error, 1)
	go func() {
		_, err := call(t, path, "/wait", "")
		answered <- err
	}()
	<-begun
	s.close()
	<-ended
	<-answered
}

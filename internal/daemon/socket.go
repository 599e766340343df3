package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// localRoute is something that the running gateway answers on its local socket.
type localRoute struct {
	pattern string // as http.ServeMux has it
	// handle gets the gateway as it runs now. The request's context ends with the
	// client or with the gateway.
	handle func(*Daemon, http.ResponseWriter, *http.Request)
}

// localRoutes are all of them.
var localRoutes = []localRoute{
	{"POST /capture", serveCapture},
	{"POST " + tracePath, serveTrace},
}

// socket is the local side of a process: HTTP on a unix socket, for whoever may run
// programs as the gateway's own user next to it, and nobody else.
type socket struct {
	path string
	made fs.FileInfo // the file, to know it again
	http *http.Server
	stop context.CancelFunc // ends requests
	done chan struct{}
}

const (
	// socketMode lets nobody but the gateway's own user connect.
	socketMode = 0o600
	// socketPatience is how long requests may take to see that the gateway ends.
	socketPatience = time.Second
)

// openSocket listens at a path. What cannot listen is no reason to do without a gateway:
// it is logged, and the socket is nil, as it is without a path.
func openSocket(path string, gateway func() *Daemon, log *slog.Logger) *socket {
	if path == "" {
		return nil
	}
	listener, err := listenUnix(path)
	if err != nil {
		log.Warn("no local socket: strait capture and strait trace cannot look at this gateway", "error", err)
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &socket{path: path, stop: stop, done: make(chan struct{})}
	s.made, _ = os.Lstat(path) // nil is the same file as none
	s.http = &http.Server{
		Handler:           localMux(gateway),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // http.ErrServerClosed: the only way it ends
	}()
	return s
}

// localMux has all routes, for the gateway that runs when a request comes.
func localMux(gateway func() *Daemon) *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range localRoutes {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			d := gateway()
			if d == nil {
				http.Error(w, "the gateway has no configuration in force yet: try again when it is ready", http.StatusServiceUnavailable)
				return
			}
			route.handle(d, w, r)
		})
	}
	return mux
}

// listenUnix makes a socket that nobody else can connect to, not even for a moment, in
// the place of one that is there already: of a gateway that was killed, or of one that
// this one replaces.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("--socket %s: something else is there; remove it, or choose another path", path)
	}
	// A socket's mode before it has a name is that of the file which it becomes.
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), socketMode) }), err)
	}}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := private.Listen(context.Background(), "unix", next)
	if err != nil {
		return nil, fmt.Errorf("--socket %s: %w; the folder must be there and writable, and the path shorter than 100 bytes", path, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it has another name then
	if err := os.Rename(next, path); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(next))
	}
	return l, nil
}

// close ends all requests, and removes the file unless it is another gateway's by now.
func (s *socket) close() {
	if s == nil {
		return
	}
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), socketPatience)
	defer cancel()
	_ = s.http.Shutdown(ctx)
	s.http.Close()
	<-s.done
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.made) {
		_ = os.Remove(s.path) // what stays is replaced by the next gateway
	}
}

// CallSocket posts to a path of a gateway's local socket and returns what it answers,
// which the caller closes. Errors say what the gateway says, or why it cannot be asked.
func CallSocket(ctx context.Context, socket, path string, body io.Reader) (io.ReadCloser, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway"+path, body)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the gateway's socket %s: permission denied; run this as the gateway's own user", socket)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no gateway listens on %s; start one with --socket %s, or name the socket of one that runs", socket, socket)
	case err != nil:
		return nil, fmt.Errorf("the gateway's socket %s: %w", socket, err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		if answer.StatusCode == http.StatusNotFound {
			text = []byte("it knows nothing of " + path + "; use the strait of the gateway's own version")
		}
		return nil, fmt.Errorf("gateway: %s", strings.TrimSpace(string(text)))
	}
	return answer.Body, nil
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"strait.dev/strait/internal/localsocket"
)

// socket is the local interface of a process: HTTP on a unix socket, for processes that run as the gateway's own user.
type socket struct {
	path string
	made fs.FileInfo // the file, to recognise it later
	http *http.Server
	stop context.CancelFunc // ends requests
	done chan struct{}
}

const (
	// socketMode allows only the gateway's own user to connect.
	socketMode = 0o600
	// socketPatience is how long requests may take to finish when the gateway ends.
	socketPatience = time.Second
)

// openSocket listens at a path. A failure does not prevent the gateway from running: it is logged, and the socket is nil, as it
// is without a path.
func openSocket(path string, gateway func() *Daemon, log *slog.Logger) *socket {
	if path == "" {
		return nil
	}
	listener, err := listenUnix(path)
	if err != nil {
		log.Warn("cannot open the local socket; strait capture and strait trace are not available", "error", err)
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &socket{path: path, stop: stop, done: make(chan struct{})}
	s.made, _ = os.Lstat(path) // nil equals no file
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
		_ = s.http.Serve(listener) // always http.ErrServerClosed
	}()
	return s
}

// localRoutes are the requests that the running gateway serves on its local socket, by their patterns for http.ServeMux. The
// context of a request ends with the client or with the gateway.
var localRoutes = map[string]func(*Daemon, http.ResponseWriter, *http.Request){
	"POST " + localsocket.CapturePath: serveCapture,
	"POST " + localsocket.TracePath:   serveTrace,
}

// localMux returns the handler of all routes, for the gateway that runs when a request arrives.
func localMux(gateway func() *Daemon) *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, serve := range localRoutes {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			d := gateway()
			if d == nil {
				http.Error(w, "the gateway has no configuration yet; retry when it is ready", http.StatusServiceUnavailable)
				return
			}
			serve(d, w, r)
		})
	}
	return mux
}

// listenUnix creates a socket that no other user can connect to at any time. It replaces an existing socket: of a gateway that was
// killed, or of one that this gateway replaces.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("--socket %s: the file exists and is not a socket; remove it, or choose another path", path)
	}
	// The mode of a socket before it is bound is that of the resulting file.
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), socketMode) }), err)
	}}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := private.Listen(context.Background(), "unix", next)
	if err != nil {
		return nil, fmt.Errorf("--socket %s: %w; the directory must exist and be writable, and the path be shorter than 100 bytes", path, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it was renamed
	if err := os.Rename(next, path); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(next))
	}
	return l, nil
}

// close ends all requests, and removes the file unless another gateway has replaced it.
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
		_ = os.Remove(s.path) // a file left over is replaced by the next gateway
	}
}

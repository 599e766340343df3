package streams

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"strait.dev/strait/offload/protocol"
)

// maxConnections is the maximum number of connections, also of clients that are not authenticated
// yet: any pod can open one, which lasts until its handshake times out. It is four times the number of
// streams.
const maxConnections = 256

const (
	// Handshake is how long a client may take for the handshake of TLS, and for the header of a request.
	Handshake = 5 * time.Second

	idle = 2 * time.Minute // of a connection
)

// Server returns a server of an agent, over HTTP/1.1, which can upgrade a connection.
func Server(handler http.Handler, secure *tls.Config) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: handler, TLSConfig: secure, Protocols: protocols,
		ReadHeaderTimeout: Handshake, IdleTimeout: idle, MaxHeaderBytes: protocol.MaxRequest,
		ErrorLog: log.New(io.Discard, "", 0), // any pod could fill it
	}
}

// Limit returns a listener that accepts a limited number of connections at once.
func Limit(l net.Listener) net.Listener { return &limited{Listener: l, most: maxConnections} }

// limited is a listener that closes connections beyond a limit when they arrive. Established ones
// go on.
type limited struct {
	net.Listener
	open atomic.Int32
	most int32
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &counted{Conn: conn, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		conn.Close()
	}
}

type counted struct {
	net.Conn
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

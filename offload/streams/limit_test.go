package streams

import (
	"errors"
	"io"
	"net"
	"testing"
)

// arriving is a listener of connections that the test makes.
type arriving chan net.Conn

func (a arriving) Accept() (net.Conn, error) {
	conn, ok := <-a
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (a arriving) Close() error { return nil }

func (a arriving) Addr() net.Addr { return &net.TCPAddr{} }

func TestConnectionsBeyondTheLimitAreClosed(t *testing.T) {
	t.Parallel()
	arriving := make(arriving, 3)
	l := &limited{Listener: arriving, most: 2}
	var clients, accepted []net.Conn
	connect := func() {
		near, far := net.Pipe()
		clients = append(clients, near)
		arriving <- far
	}
	accept := func() {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, conn)
	}
	connect()
	connect()
	accept()
	accept()
	connect() // too many
	rejected := make(chan error)
	go func() {
		_, err := clients[2].Read(make([]byte, 1))
		accepted[0].Close()
		accepted[0].Close() // counts once
		connect()
		connect() // too many again
		rejected <- err
	}()
	accept()
	if err := <-rejected; !errors.Is(err, io.EOF) {
		t.Errorf("the third connection ends with %v", err)
	}
	close(arriving)
	if conn, err := l.Accept(); err == nil {
		t.Errorf("%v is accepted while %d connections are open", conn, l.open.Load())
	}
}

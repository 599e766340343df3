package kube

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// port is a TCP port of 127.0.0.1 that is reserved for one server, even while that does not
// run: a socket is bound to it and never listens. The server must bind it with SO_REUSEPORT
// as well.
type port struct {
	number     int
	descriptor int
}

// reservePort reserves a free port.
func reservePort() (*port, error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p := &port{descriptor: s}
	if err := p.bind(); err != nil {
		p.release()
		return nil, fmt.Errorf("reserve a port of 127.0.0.1: %w", err)
	}
	return p, nil
}

func (p *port) bind() error {
	if err := unix.SetsockoptInt(p.descriptor, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	if err := unix.Bind(p.descriptor, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	name, err := unix.Getsockname(p.descriptor)
	if err != nil {
		return err
	}
	p.number = name.(*unix.SockaddrInet4).Port
	return nil
}

func (p *port) release() { _ = unix.Close(p.descriptor) }

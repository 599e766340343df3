//go:build linux

package traffic

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// writeSize is the size of one write, bytes.
const writeSize = 128 << 10

type streams struct {
	sync.Mutex // protects open
	open       []net.Conn
	writers    sync.WaitGroup
}

// StartStreams opens the streams and starts sending.
func (e *End) StartStreams(s Streams, _ *Nothing) error {
	e.streams.Lock()
	defer e.streams.Unlock()
	for _, from := range s.From {
		c, err := from.dial(netip.AddrPortFrom(s.To, portTCPSink))
		if err != nil {
			return err
		}
		e.streams.open = append(e.streams.open, c)
	}
	for _, c := range e.streams.open {
		e.streams.writers.Go(func() {
			for buffer := make([]byte, writeSize); ; {
				if _, err := c.Write(buffer); err != nil {
					return // usually because StopStreams closed it
				}
			}
		})
	}
	return nil
}

func (s Source) dial(to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	if s.Address.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.Address, 0))
	}
	if s.Device != "" {
		d.Control = func(_, _ string, raw syscall.RawConn) error {
			var failed error
			err := raw.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), s.Device) })
			return errors.Join(err, failed)
		}
	}
	c, err := d.Dial("tcp", to.String())
	if err != nil {
		return nil, fmt.Errorf("no stream through the gateways: %w", err)
	}
	return c, nil
}

// StopStreams resets all streams, so that none of their packets stay in flight.
func (e *End) StopStreams(Nothing, *Nothing) error {
	e.streams.Lock()
	defer e.streams.Unlock()
	for _, c := range e.streams.open {
		_ = c.(*net.TCPConn).SetLinger(0) // fails if the stream has already ended
		c.Close()
	}
	e.streams.open = nil
	e.streams.writers.Wait()
	return nil
}

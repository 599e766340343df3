package relay

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// bufferLen is the maximum size of a datagram, and of one copy of a stream, in bytes.
const bufferLen = 64 << 10

// Buffer is what a datagram or one copy of a stream is read into.
type Buffer = [bufferLen]byte

// buffers are used only while there is something to copy: idle connections hold none.
var buffers = sync.Pool{New: func() any { return new(Buffer) }}

func takeBuffer() *Buffer  { return buffers.Get().(*Buffer) }
func giveBuffer(b *Buffer) { buffers.Put(b) }

// socket is the side of a connection or session on the gateway's machine.
type socket struct {
	net.Conn
	raw syscall.RawConn
}

func newSocket(c net.Conn) (*socket, error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		c.Close()
		return nil, errors.New("the connection has no file descriptor")
	}
	raw, err := s.SyscallConn()
	if err != nil {
		c.Close()
		return nil, err
	}
	return &socket{c, raw}, nil
}

// receive waits for bytes or a datagram. The caller returns the buffer to the pool, even after an error, unless it is nil.
func (s *socket) receive() (b *Buffer, n int, err error) {
	waited := s.raw.Read(func(fd uintptr) bool {
		b = takeBuffer()
		for {
			if n, err = syscall.Read(int(fd), b[:]); err != syscall.EINTR {
				break
			}
		}
		if err != syscall.EAGAIN {
			return true
		}
		giveBuffer(b)
		b = nil
		return false
	})
	if waited != nil {
		return b, 0, waited // closed
	}
	return b, n, err
}

// end closes the sending half.
func (s *socket) end() error {
	c, ok := s.Conn.(interface{ CloseWrite() error })
	if !ok {
		return io.ErrClosedPipe
	}
	return c.CloseWrite()
}

// reset closes a TCP connection with a reset, so that the far end sees that it was not finished.
func (s *socket) reset() {
	if c, ok := s.Conn.(interface{ SetLinger(sec int) error }); ok {
		_ = c.SetLinger(0) // the connection is closed next, or was already
	}
	s.Close()
}

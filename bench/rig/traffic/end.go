//go:build linux

package traffic

import (
	"fmt"
	"io"
	"net"
	"net/rpc"
	"sync/atomic"
)

// The ports on which every end listens, over IPv4 and IPv6.
const (
	portTCPSink = 7001 // reads and counts
	portTCPEcho = 7002
	portUDPSink = 7003 // reads and counts
	portUDPEcho = 7004
	portTunnel  = 7005 // reads like a tunnel, with GRO, and counts
	portTCPOnce = 7006 // closes every connection at once
)

// End is the service of a process for the rig. Its exported methods are called by net/rpc,
// concurrently.
type End struct {
	sink    sink
	streams streams
	flows   atomic.Uint32 // new flows started
}

// Serve runs an end, which answers calls on the pipe until that is closed.
func Serve(pipe io.ReadWriteCloser) error {
	e := new(End)
	for _, listen := range []func() error{e.sink.listenTCP, e.sink.listenUDP, e.sink.listenTunnel, echoTCP, echoUDP, closeTCP} {
		if err := listen(); err != nil {
			return err
		}
	}
	s := rpc.NewServer()
	if err := s.Register(e); err != nil {
		return err
	}
	s.ServeConn(pipe)
	return nil
}

func listenAll(port int) string { return net.JoinHostPort("", fmt.Sprint(port)) }

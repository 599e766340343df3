//go:build lab

package node

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/wait"
)

// patience is how long an answer may take before the question is asked again.
const patience = time.Second

// echo answers UDP datagrams in a namespace with the address that they came from.
func echo(t *testing.T, n *netns.Namespace, at string) {
	t.Helper()
	var conn *net.UDPConn
	must(t, n.In(func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at)))
		return err
	}))
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		buffer := make([]byte, 2048)
		for {
			_, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort([]byte(from.Addr().Unmap().String()), from) // the client notices a loss
		}
	}()
}

// seenAs is the source that an echo at an address sees, asked from a namespace, with a
// source address or none.
func seenAs(t *testing.T, n *netns.Namespace, from, to string) string {
	t.Helper()
	var source *net.UDPAddr
	if from != "" {
		source = net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	}
	var conn *net.UDPConn
	must(t, n.In(func() (err error) {
		conn, err = net.DialUDP("udp", source, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
		return err
	}))
	defer conn.Close()
	buffer := make([]byte, 2048)
	size := 0
	wait.Until(t, "something comes back from "+to, func() bool {
		_, err := conn.Write([]byte("who am I?"))
		must(t, err)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		size, err = conn.Read(buffer)
		return err == nil
	})
	return string(buffer[:size])
}

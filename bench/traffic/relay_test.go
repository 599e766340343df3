package traffic

import (
	"net"
	"net/netip"
	"sync"
	"testing"
)

// relay is a path with a known fault: it loses every n-th datagram and delays each datagram
// and each response.
type relay struct {
	socket *net.UDPConn
	far    *net.UDPConn
	lose   int    // every n-th; 0 = none
	hold   func() // nil: no delay
	done   sync.WaitGroup
}

func newRelay(t *testing.T, to netip.AddrPort, lose int, hold func()) netip.AddrPort {
	t.Helper()
	listen := func() *net.UDPConn {
		s, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback))
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetReadBuffer(1 << 20)
		return s
	}
	r := &relay{socket: listen(), far: listen(), lose: lose, hold: hold}
	var asker struct {
		sync.Mutex
		at netip.AddrPort
	}
	var n int
	r.done.Go(func() {
		r.carry(r.socket, func(b []byte, from netip.AddrPort) {
			asker.Lock()
			asker.at = from
			asker.Unlock()
			if n++; r.lose > 0 && n%r.lose == 0 {
				return
			}
			_, _ = r.far.WriteToUDPAddrPort(b, to)
		})
	})
	r.done.Go(func() {
		r.carry(r.far, func(b []byte, _ netip.AddrPort) {
			asker.Lock()
			defer asker.Unlock()
			_, _ = r.socket.WriteToUDPAddrPort(b, asker.at)
		})
	})
	t.Cleanup(func() {
		r.socket.Close()
		r.far.Close()
		r.done.Wait()
	})
	return r.socket.LocalAddr().(*net.UDPAddr).AddrPort()
}

// carry forwards datagrams in order, each after the relay's delay.
func (r *relay) carry(from *net.UDPConn, send func([]byte, netip.AddrPort)) {
	b := make([]byte, 2048)
	for {
		n, at, err := from.ReadFromUDPAddrPort(b)
		if err != nil {
			return // closed
		}
		if r.hold != nil {
			r.hold()
		}
		send(b[:n], at)
	}
}

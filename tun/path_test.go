package tun

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/test/wait"
)

// narrowPath is a path between two WireGuard ports that drops large datagrams.
type narrowPath struct {
	near, far *net.UDPConn
	caller    atomic.Pointer[netip.AddrPort]
	lost      atomic.Pointer[func(netip.AddrPort) bool] // whether the flow of a caller is lost; nil: none is
	limit     atomic.Int64                              // bytes of UDP payload
	dropped   atomic.Int64
}

// newNarrowPath forwards what reaches its near end to a port, and what comes back to
// the last sender.
func newNarrowPath(t *testing.T, to uint16, limit int) *narrowPath {
	t.Helper()
	near, err1 := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	far, err2 := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	r := &narrowPath{near: near, far: far}
	r.limit.Store(int64(limit))
	target := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to)
	var running sync.WaitGroup
	running.Go(func() {
		r.forward(near, far, func(from netip.AddrPort) *netip.AddrPort {
			if r.loses(from) {
				return nil
			}
			r.caller.Store(&from)
			return &target
		})
	})
	running.Go(func() {
		r.forward(far, near, func(netip.AddrPort) *netip.AddrPort {
			if to := r.caller.Load(); to != nil && !r.loses(*to) {
				return to
			}
			return nil
		})
	})
	t.Cleanup(func() { near.Close(); far.Close(); running.Wait() })
	return r
}

func (r *narrowPath) loses(caller netip.AddrPort) bool {
	lost := r.lost.Load()
	return lost != nil && (*lost)(caller)
}

func (r *narrowPath) forward(in, out *net.UDPConn, to func(from netip.AddrPort) *netip.AddrPort) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := in.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		target := to(from)
		switch {
		case err != nil || target == nil:
		case int64(n) > r.limit.Load():
			r.dropped.Add(1)
		default:
			_, _ = out.WriteToUDPAddrPort(b[:n], *target) // lost, if it cannot be sent
		}
	}
}

// A path that drops large packets keeps a link up and carries its small packets. Both ends learn from probes what it carries,
// and use no larger packets.
func TestF14_RFC4821_PathThatDropsLargePacketsIsUsedWithSmallerOnes(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	const wireguard = 32 // bytes that it adds
	path := newNarrowPath(t, b.port, testMTU+wireguard-1)
	there, back := a.link("b-0", b), b.link("a-0", a)
	there.Endpoints, back.Endpoints = []string{path.near.LocalAddr().String()}, nil
	setLinks(t, a, there)
	setLinks(t, b, back)
	const fits = (testMTU - 1) / 16 * 16 // WireGuard pads to a multiple of it
	statuses := func(good func(LinkStatus) bool) func() bool {
		return func() bool { return good(a.fabric.Status()[0]) && good(b.fabric.Status()[0]) }
	}
	wait.Until(t, "both ends use smaller packets", statuses(func(s LinkStatus) bool { return s.Up && s.PathMTU == fits }))
	if path.dropped.Load() < 3 {
		t.Errorf("the path has dropped %d packets", path.dropped.Load())
	}
}

// adapt puts the inner MTU in force that the remote announced or that the path carries, as the daemon does; 0 = not known.
func (e *end) adapt(mtu int) {
	if mtu == 0 || mtu > testMTU {
		mtu = testMTU
	}
	if mtu == e.fabric.Gateway.Table().MTU() {
		return
	}
	table, err := gateway.NewTable(e.config, gateway.MTUs{Overlay: 1450, Tunnel: mtu, Local: testMTU}, e.fabric.Overlay.Handle)
	if err == nil {
		e.fabric.Gateway.SetTable(table)
		err = e.fabric.Refresh()
	}
	if err != nil {
		panic(err)
	}
}

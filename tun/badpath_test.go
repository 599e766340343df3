package tun

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"strait.dev/strait/packet"
	"strait.dev/strait/test/wait"
)

// badPath carries WireGuard's datagrams to a port and back, and while it is bad loses,
// doubles, delays and damages some.
type badPath struct {
	near, far net.PacketConn
	bad       atomic.Bool
	cut       atomic.Bool // loses everything
	caller    atomic.Pointer[net.Addr]
	there     atomic.Int64 // datagrams that came to the near end
	// What it did, of the datagrams in one direction.
	lost, doubled, delayed, damaged atomic.Int64
}

func newBadPath(t *testing.T, port uint16) *badPath {
	t.Helper()
	p := new(badPath)
	for _, c := range []*net.PacketConn{&p.near, &p.far} {
		var err error
		if *c, err = net.ListenPacket("udp4", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	to := net.Addr(&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	var running sync.WaitGroup
	running.Go(func() {
		p.carry(p.near, p.far, rand.New(rand.NewPCG(13, 1)), func(from net.Addr) *net.Addr { p.caller.Store(&from); p.there.Add(1); return &to })
	})
	running.Go(func() {
		p.carry(p.far, p.near, rand.New(rand.NewPCG(13, 2)), func(net.Addr) *net.Addr { return p.caller.Load() })
	})
	t.Cleanup(func() { p.near.Close(); p.far.Close(); running.Wait() })
	return p
}

func (p *badPath) carry(in, out net.PacketConn, r *rand.Rand, to func(from net.Addr) *net.Addr) {
	var held [][]byte // let others pass
	b := make([]byte, 1<<16)
	for {
		n, from, err := in.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		target := to(from)
		if err != nil || target == nil || p.cut.Load() {
			continue
		}
		send := func(datagram []byte) { _, _ = out.WriteTo(datagram, *target) } // or it is lost
		datagram := bytes.Clone(b[:n])
		switch chance := r.IntN(100); {
		case !p.bad.Load():
			send(datagram)
		case chance < 5:
			p.lost.Add(1)
		case chance < 10:
			p.doubled.Add(1)
			send(datagram)
			send(datagram)
		case chance < 35:
			p.delayed.Add(1)
			held = append(held, datagram)
			continue
		case chance < 40:
			p.damaged.Add(1)
			datagram[r.IntN(len(datagram))] ^= 1 << r.IntN(8)
			send(datagram)
		default:
			send(datagram)
		}
		if !p.bad.Load() || len(held) > 20 {
			for _, h := range held {
				send(h)
			}
			held = held[:0]
		}
	}
}

// numbered is a packet whose payload shows whether it was damaged.
func numbered(n uint32) []byte {
	payload := binary.BigEndian.AppendUint32(nil, n)
	r := rand.New(rand.NewPCG(uint64(n), 13))
	for range 200 {
		payload = binary.BigEndian.AppendUint32(payload, r.Uint32())
	}
	return tcpPacket(pod, remotePod, payload, false)
}

// Whatever happens to WireGuard's datagrams in transit, a packet arrives as it was
// sent, and once, or not at all.
func TestF13_T9_ABadUnderlayDeliversNothingDamagedAndNothingTwice(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	path := newBadPath(t, b.port)
	there, back := a.link("b-0", b), b.link("a-0", a)
	there.Endpoints, back.Endpoints = []string{path.near.LocalAddr().String()}, nil
	setLinks(t, a, there)
	setLinks(t, b, back)
	wait.Until(t, "both ends are up", func() bool { return a.fabric.Status()[0].Up && b.fabric.Status()[0].Up })
	setLinks(t, a, silent(there))

	const packets = 2000
	path.bad.Store(true)
	arrived := make(map[uint32]int)
	for n := range uint32(packets) {
		a.send(t, numbered(n))
		if n%50 == 49 { // so that no queue of the machine overflows
			wait.Until(t, "the path has these packets", func() bool { return path.there.Load() >= int64(n) })
			b.collect(t, arrived)
		}
	}
	path.bad.Store(false)
	wait.Until(t, "a packet crosses the path, which is good again", func() bool {
		a.send(t, numbered(packets))
		b.collect(t, arrived)
		return arrived[packets] > 0
	})
	delete(arrived, packets)

	for n, times := range arrived {
		if times != 1 {
			t.Errorf("packet %d arrived %d times", n, times)
		}
	}
	t.Logf("%d of %d packets arrived; of the datagrams %d were lost, %d doubled, %d delayed, %d damaged",
		len(arrived), packets, path.lost.Load(), path.doubled.Load(), path.delayed.Load(), path.damaged.Load())
	if len(arrived) < packets/2 || path.doubled.Load() == 0 || path.damaged.Load() == 0 || path.delayed.Load() == 0 {
		t.Error("the path was too bad, or not bad enough, to prove anything")
	}
}

// collect counts the packets that wait at the node, and complains about each that is
// not as it was sent.
func (e *end) collect(t *testing.T, arrived map[uint32]int) {
	t.Helper()
	for _, inner := range e.packets() {
		var ip packet.IP
		if packet.Parse(inner, &ip) != packet.FaultNone {
			t.Fatalf("no packet: % x", inner)
		}
		number := binary.BigEndian.Uint32(ip.Upper(inner)[packet.TCPHeaderLen:])
		sent := numbered(number)
		same := ip.Src == netip.MustParseAddr("10.72.1.5") && ip.Dst == netip.MustParseAddr("10.0.2.9") &&
			bytes.Equal(ip.Upper(inner)[packet.TCPHeaderLen:], sent[packet.IPv4HeaderLen+packet.TCPHeaderLen:])
		if !same {
			t.Errorf("packet %d arrived from %v to %v as % x", number, ip.Src, ip.Dst, inner)
		}
		arrived[number]++
	}
}

package tun

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/geneve"
)

// flow is numbered packets from a pod of one end to one of another, at a steady pace.
type flow struct {
	sent     atomic.Int64
	mu       sync.Mutex  // protects received
	received map[int]int // how often, by number
	done     sync.WaitGroup
	stop     context.CancelFunc
}

const flowPace = 500 * time.Microsecond

// startFlow sends from src, behind from's node, to dst, which is behind to's node.
func startFlow(t *testing.T, from, to *end, src, dst netip.Addr) *flow {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &flow{received: make(map[int]int), stop: cancel}
	f.done.Go(func() {
		for sleep(ctx, flowPace) {
			from.send(t, tcpPacket(src, dst, fmt.Appendf(nil, "number %08d", f.sent.Load()), false))
			f.sent.Add(1)
		}
	})
	f.done.Go(func() { f.receive(ctx, to.node) })
	return f
}

// receive counts until nothing has come for half a second after the sender stopped.
func (f *flow) receive(ctx context.Context, node *net.UDPConn) {
	b := make([]byte, 2048)
	for {
		_ = node.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		n, err := node.Read(b)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		_, _, frame, fault := geneve.Decode(b[:n])
		at := bytes.LastIndex(frame, []byte("number "))
		var number int
		if fault != geneve.FaultNone || at < 0 {
			continue
		}
		if _, err := fmt.Sscanf(string(frame[at:]), "number %d", &number); err == nil {
			f.mu.Lock()
			f.received[number]++
			f.mu.Unlock()
		}
	}
}

// arrives waits for all packets up to now, and for some that are not sent yet.
func (f *flow) arrives(t *testing.T, name string) {
	t.Helper()
	last := int(f.sent.Load()) + 10
	eventually(t, fmt.Sprintf("%s: all packets to number %d", name, last), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range last {
			if f.received[i] == 0 {
				return false
			}
		}
		return true
	})
}

// end stops the flow and reports what was lost or came twice.
func (f *flow) end(t *testing.T, name string) {
	t.Helper()
	f.stop()
	f.done.Wait()
	sent := int(f.sent.Load())
	for i := range sent {
		if f.received[i] != 1 {
			t.Errorf("%s: packet %d of %d arrived %d times", name, i, sent, f.received[i])
		}
	}
	t.Logf("%s: %d packets", name, sent)
}

// activeKeys are the keys of the link that traffic goes through.
func (e *end) activeKeys() LinkIdentity {
	for _, s := range e.fabric.Status() {
		if s.Active {
			return s.LinkIdentity
		}
	}
	return LinkIdentity{}
}

func setLinks(t *testing.T, e *end, links ...LinkConfig) {
	t.Helper()
	if err := e.fabric.SetLinks(links); err != nil {
		t.Fatal(err)
	}
}

// One end gets a new key pair: a second link with it goes ahead of the first at both
// ends, traffic moves there when it is up, and only then the first goes.
func TestF15_T4_ReplacingAKeyLosesNoPacket(t *testing.T) {
	a, b := newEnd(t, 1, "10.71.0.0/16"), newEnd(t, 2, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	oldA, oldB := a.link("b-0", b), b.link("a-0", a)
	setLinks(t, a, oldA)
	setLinks(t, b, oldB)
	eventually(t, "the link up", func() bool { return a.fabric.Status()[0].Up && b.fabric.Status()[0].Up })

	there := startFlow(t, a, b, netip.MustParseAddr("10.0.1.5"), netip.MustParseAddr("10.71.2.9"))
	back := startFlow(t, b, a, netip.MustParseAddr("10.0.2.9"), netip.MustParseAddr("10.72.1.5"))

	renewed := &end{private: device.NoisePrivateKey(bytes.Repeat([]byte{0x48}, 32)), port: a.port}
	newA, newB := oldA, b.link("a-0-next", renewed)
	newA.Name, newA.Gateway, newA.PrivateKey = "b-0-next", "b-0", renewed.private
	newB.Gateway = "a-0"
	setLinks(t, a, newA, oldA)
	setLinks(t, b, newB, oldB)
	eventually(t, "both ends to use the new key", func() bool {
		return a.activeKeys().Name == "b-0-next" && b.activeKeys().Name == "a-0-next"
	})

	// The old link goes when what was on its way there has arrived, and the new one takes
	// over its name.
	there.arrives(t, "there")
	back.arrives(t, "back")
	newA.Name, newB.Name = "b-0", "a-0"
	setLinks(t, a, newA)
	setLinks(t, b, newB)
	there.end(t, "there")
	back.end(t, "back")

	s := a.fabric.Status()
	if len(s) != 1 || s[0].Name != "b-0" || s[0].Gateway != "b-0" || !s[0].Up || !s[0].Active ||
		device.NoisePublicKey(s[0].OwnKey) != publicKey(renewed.private) || device.NoisePublicKey(s[0].RemoteKey) != publicKey(b.private) {
		t.Errorf("status %+v", s)
	}
}

// Both ends get new keys at once, and the links with all four pairs exist for a while.
func TestLinksOfAllPairsOfKeysWorkAtOnce(t *testing.T) {
	a, b := newEnd(t, 1, "10.71.0.0/16"), newEnd(t, 2, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	next := func(e *end, n byte) *end {
		return &end{private: device.NoisePrivateKey(bytes.Repeat([]byte{n}, 32)), port: e.port}
	}
	var linksA, linksB []LinkConfig
	for i, ownA := range []*end{a, next(a, 0x48)} {
		for j, ownB := range []*end{b, next(b, 0x50)} {
			name := fmt.Sprintf("%d-%d", i, j)
			linksA, linksB = append(linksA, ownA.link(name, ownB)), append(linksB, ownB.link(name, ownA))
		}
	}
	setLinks(t, a, linksA...)
	setLinks(t, b, linksB...)
	eventually(t, "all links up", func() bool {
		for _, s := range append(a.fabric.Status(), b.fabric.Status()...) {
			if !s.Up {
				return false
			}
		}
		return true
	})
}

package tun

import (
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/test/wait"
	"strait.dev/strait/underlay"
)

// held is the memory of this process after collections, bytes: the live heap and the
// resident set.
func held(t *testing.T) (heap, resident uint64) {
	t.Helper()
	runtime.GC() // with the one below, empties sync.Pools
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return m.HeapAlloc, pages * uint64(os.Getpagesize())
}

// heldAtRest is held once it no longer falls.
func heldAtRest(t *testing.T) (heap, resident uint64) {
	t.Helper()
	wait.Until(t, "memory has settled", func() bool {
		heapBefore, residentBefore := heap, resident
		heap, resident = held(t)
		return heap >= heapBefore-heapBefore/100 && resident >= residentBefore-residentBefore/100 && heapBefore > 0
	})
	return heap, resident
}

// garbage sends so many copies of a datagram to the WireGuard port of an end.
func garbage(t *testing.T, e *end, datagram []byte, count int) {
	t.Helper()
	s, err := underlay.Listen(netip.MustParseAddrPort("127.0.0.1:0"), underlay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	to := underlay.NewDestination(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), e.port))
	b := underlay.NewBatch(BatchSize)
	for range count / BatchSize {
		for range BatchSize {
			b.Add(s, &to, nil, datagram)
		}
		b.Flush()
	}
}

// wireguardIndex is the index under which an end expects data from its peer.
func wireguardIndex(t *testing.T, e *end) uint32 {
	t.Helper()
	var index atomic.Uint32
	defer e.fabric.Tap(func(_ gateway.Stage, _, _ netip.AddrPort, _, datagram []byte) {
		if len(datagram) >= 32 && datagram[0] == 4 { // transport data, index at 4
			index.Store(binary.LittleEndian.Uint32(datagram[4:]))
		}
	}, gateway.WireGuardIn)()
	wait.Until(t, "data of the peer arrives", func() bool { return index.Load() != 0 })
	return index.Load()
}

// Unauthenticated senders flood the WireGuard port: the link stays up, and the memory
// that it took comes back.
func TestT8_AFloodOfGarbageLeavesNoMemoryBehind(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector keeps memory of its own; run without -race")
	}
	a, _ := joined(t)
	initiation := make([]byte, 148)
	initiation[0] = 1
	stray := make([]byte, 1400)
	stray[0], stray[4] = 4, 0xee
	forged := make([]byte, 1400)
	forged[0] = 4
	binary.LittleEndian.PutUint32(forged[4:], wireguardIndex(t, a))
	flood := func() {
		for _, datagram := range [][]byte{initiation, stray, forged} {
			garbage(t, a, datagram, 100_000)
		}
	}
	// The first floods touch buffers that stay. A leak shows in each.
	within := func(now, before uint64) bool { return now <= before+before/20 }
	heap, resident := heldAtRest(t)
	for left := 10; ; left-- {
		flood()
		heapNow, residentNow := heldAtRest(t)
		t.Logf("heap %d KiB, was %d; resident %d KiB, was %d", heapNow>>10, heap>>10, residentNow>>10, resident>>10)
		if within(heapNow, heap) && within(residentNow, resident) {
			break
		}
		if left == 0 {
			t.Fatal("every flood leaves memory behind")
		}
		heap, resident = heapNow, residentNow
	}
	wait.Until(t, "the link is up", func() bool { return a.fabric.Status()[0].Up })
}

// An authenticated peer may send faster than its packets are processed here. WireGuard
// would queue 131072 of them, in 64 KiB each.
func TestT8_APeerThatIsTooFastFillsNoMemory(t *testing.T) {
	a, b := joined(t)
	hold := make(chan struct{})
	var once sync.Once
	remove := a.fabric.Tap(func(_ gateway.Stage, _, _ netip.AddrPort, _, ip []byte) {
		if len(ip) > 1000 {
			once.Do(func() { <-hold })
		}
	}, gateway.FromTunnel)
	ip := tcpPacket(pod, netip.MustParseAddr("10.72.1.5"), make([]byte, 1000), false)
	before, _ := held(t)
	wait.Until(t, "the link is full", func() bool {
		for range 100 {
			b.send(t, ip)
		}
		return a.fabric.Counters().WireGuard.InboxFull >= 1000
	})
	// 4096 buffers wait at this end; the other end has some of its own in use.
	const most = (4096 + 2048) * device.MaxMessageSize
	if now, _ := held(t); now > before+most {
		t.Errorf("the heap grew by %d MiB, want %d at most", (now-before)>>20, most>>20)
	}
	close(hold)
	remove()
	wait.Until(t, "packets cross again", func() bool {
		b.send(t, tcpPacket(pod, netip.MustParseAddr("10.72.1.5"), []byte("after the flood"), false))
		return a.received("after the flood")
	})
}

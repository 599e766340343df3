package tun

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/test/wait"
)

// flow is numbered packets from a pod of one end to one of another.
type flow struct {
	name     string
	from, to *end
	src, dst netip.Addr
	sockets  []*net.UDPConn // of the node, used in turn; none: the node's own
	sent     int
	received map[int]int // how often, by number
}

// flowWindow is how many packets of a flow may be on their path at once, so that no queue
// of the machine overflows, however slow it is.
const flowWindow = 32

// newFlow is from src, behind from's node, to dst, which is behind to's node.
func newFlow(name string, from, to *end, src, dst netip.Addr) *flow {
	return &flow{name: name, from: from, to: to, src: src, dst: dst, received: make(map[int]int)}
}

// open makes the node use several source ports.
func (f *flow) open(t *testing.T, ports int) {
	t.Helper()
	for range ports {
		f.sockets = append(f.sockets, f.from.sourcePort(t))
	}
}

// some sends a few packets, and takes those that have arrived.
func (f *flow) some(t *testing.T) {
	t.Helper()
	for range 5 {
		if f.sent-len(f.received) < flowWindow {
			through := f.from.node
			if len(f.sockets) > 0 {
				through = f.sockets[f.sent%len(f.sockets)]
			}
			ip := tcpPacket(f.src, f.dst, fmt.Appendf(nil, "number %08d", f.sent), false)
			if _, err := through.WriteToUDPAddrPort((&fixture{}).frame(ip), f.from.gateway); err != nil {
				t.Fatal(err)
			}
			f.sent++
		}
	}
	f.collect(t)
}

func (f *flow) collect(t *testing.T) {
	t.Helper()
	for _, ip := range f.to.packets() {
		var number int
		if at := bytes.LastIndex(ip, []byte("number ")); at >= 0 {
			if _, err := fmt.Sscanf(string(ip[at:]), "number %d", &number); err != nil {
				t.Fatal(err)
			}
			f.received[number]++
		}
	}
}

// flowing lets flows go on until a condition holds.
func flowing(t *testing.T, condition string, holds func() bool, flows ...*flow) {
	t.Helper()
	wait.Until(t, condition, func() bool {
		for _, f := range flows {
			f.some(t)
		}
		return holds()
	})
}

// hasAll reports whether the first packets have arrived, so many.
func (f *flow) hasAll(count int) bool {
	for i := range count {
		if f.received[i] == 0 {
			return false
		}
	}
	return true
}

// end waits for all that was sent, and reports what came twice. If a link goes up or down meanwhile, it
// waits no longer, and returns false.
func (f *flow) end(t *testing.T, calm func() bool) bool {
	t.Helper()
	t.Cleanup(func() {
		for i := range f.sent {
			if t.Failed() && f.received[i] == 0 {
				t.Logf("%s: packet %d of %d is missing", f.name, i, f.sent)
			}
		}
	})
	wait.Until(t, fmt.Sprintf("%s: all %d packets have arrived", f.name, f.sent), func() bool { f.collect(t); return f.hasAll(f.sent) || !calm() })
	for i := range f.sent {
		if f.received[i] > 1 {
			t.Errorf("%s: packet %d of %d arrived %d times", f.name, i, f.sent, f.received[i])
		}
	}
	t.Logf("%s: %d packets", f.name, f.sent)
	return calm()
}

// active returns how many lanes of a link carry traffic.
func (e *end) active(name string) (lanes int) {
	for _, s := range e.fabric.Status() {
		if s.Active && (s.Name == name || strings.HasPrefix(s.Name, name+"/")) {
			lanes++
		}
	}
	return lanes
}

func setLinks(t testing.TB, e *end, links ...LinkConfig) {
	t.Helper()
	if err := e.fabric.SetLinks(links); err != nil {
		t.Fatal(err)
	}
}

// One end gets a new key pair: a second link with it goes ahead of the first at both
// ends, traffic moves there when it is up, and only then the first goes.
//
// A gateway whose process does not run for 0.3 s finds its links down. If that happens to the second
// link while the first one ends, traffic moves back to the first, and what is on its path is lost. Then
// the replacement is tried again.
func TestF15_T4_ReplacingAKeyLosesNoPacket(t *testing.T) {
	t.Parallel()
	const attempts = 10
	for lanes := 1; lanes <= 2; lanes++ {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) {
			t.Parallel()
			for attempt, judged := 1, false; !judged && !t.Failed(); attempt++ {
				if attempt > attempts {
					t.Fatalf("in each of %d attempts a link went up or down while the first one ended", attempts)
				}
				t.Run(fmt.Sprint("attempt=", attempt), func(t *testing.T) { judged = replacingAKeyLosesNoPacket(t, lanes) })
			}
		})
	}
}

// replacingAKeyLosesNoPacket reports false if links went up or down while the first one ended.
func replacingAKeyLosesNoPacket(t *testing.T, lanes int) (judged bool) {
	a, b := joinedBy(t, lanes)
	oldA, oldB := silent(a.link("b-0", b)), silent(b.link("a-0", a))
	there := newFlow("there", a, b, netip.MustParseAddr("10.0.1.5"), netip.MustParseAddr("10.71.2.9"))
	back := newFlow("back", b, a, netip.MustParseAddr("10.0.2.9"), netip.MustParseAddr("10.72.1.5"))
	change := func(e *end, links ...LinkConfig) {
		t.Helper()
		if there.sent+back.sent > 0 {
			t.Logf("%v: links change after %d packets there and %d back", e.gateway, there.sent, back.sent)
		}
		changed := make(chan error, 1)
		go func() { changed <- e.fabric.SetLinks(links) }()
		flowing(t, "the links have changed", func() bool {
			select {
			case err := <-changed:
				if err != nil {
					t.Fatal(err)
				}
				return true
			default:
				return false
			}
		}, there, back)
	}

	renewed := &end{private: newKey(), port: a.port}
	there.open(t, 8)
	back.open(t, 8)
	newA, newB := oldA, b.link("a-0-next", renewed)
	newA.Name, newA.Gateway, newA.PrivateKey = "b-0-next", "b-0", renewed.private
	newB.Gateway = "a-0"
	change(a, newA, oldA)
	change(b, newB, oldB)
	flowing(t, "the new link is up", func() bool { return a.lanesUp() == 2*lanes && b.lanesUp() == 2*lanes }, there, back)
	newA, newB = silent(newA), silent(newB)
	change(a, newA, oldA)
	change(b, newB, oldB)
	var before int64
	changes := func() int64 { return a.changes.Load() + b.changes.Load() }
	calm := func() bool { return changes() == before }
	flowing(t, "both ends use the new key", func() bool {
		before = changes()
		return a.active("b-0-next") == lanes && b.active("a-0-next") == lanes
	}, there, back)

	// The old link goes when the packets in transit have arrived, and the new one takes
	// over its name.
	lastThere, lastBack := there.sent+10, back.sent+10
	flowing(t, "all packets up to now, and some more, have arrived", func() bool {
		return there.hasAll(lastThere) && back.hasAll(lastBack) || !calm()
	}, there, back)
	newA.Name, newB.Name = "b-0", "a-0"
	change(a, newA)
	change(b, newB)
	if !there.end(t, calm) || !back.end(t, calm) {
		t.Log("a link went up or down")
		return false
	}

	wait.Until(t, "the link is up", a.isUp)
	s := a.fabric.Status()
	if len(s) != lanes || s[0].Name != "b-0" || s[0].Gateway != "b-0" || !s[0].Active ||
		device.NoisePublicKey(s[0].OwnKey) != publicKey(renewed.private) || device.NoisePublicKey(s[0].RemoteKey) != publicKey(b.private) {
		t.Errorf("status %+v", s)
	}
	return true
}

// Both ends get new keys at once, and the links with all four pairs exist for a while.
func TestLinksOfAllPairsOfKeysWorkAtOnce(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	next := func(e *end) *end { return &end{private: newKey(), port: e.port} }
	var linksA, linksB []LinkConfig
	for i, ownA := range []*end{a, next(a)} {
		for j, ownB := range []*end{b, next(b)} {
			name := fmt.Sprintf("%d-%d", i, j)
			linksA, linksB = append(linksA, ownA.link(name, ownB)), append(linksB, ownB.link(name, ownA))
		}
	}
	setLinks(t, a, linksA...)
	setLinks(t, b, linksB...)
	wait.Until(t, "all links are up", func() bool {
		for _, s := range append(a.fabric.Status(), b.fabric.Status()...) {
			if !s.Up {
				return false
			}
		}
		return true
	})
}

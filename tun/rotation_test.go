package tun

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/link"
	"strait.dev/strait/test/wait"
)

// flow is numbered packets from a pod of one end to one of another.
type flow struct {
	name     string
	from, to *end
	src, dst netip.Addr
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

// some sends a few packets, and takes those that have arrived.
func (f *flow) some(t *testing.T) {
	t.Helper()
	for range 5 {
		if f.sent-len(f.received) < flowWindow {
			f.from.send(t, tcpPacket(f.src, f.dst, fmt.Appendf(nil, "number %08d", f.sent), false))
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

// end waits for all that was sent, and reports what came twice.
func (f *flow) end(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for i := range f.sent {
			if t.Failed() && f.received[i] == 0 {
				t.Logf("%s: packet %d of %d is missing", f.name, i, f.sent)
			}
		}
	})
	wait.Until(t, fmt.Sprintf("%s: all %d packets have arrived", f.name, f.sent), func() bool { f.collect(t); return f.hasAll(f.sent) })
	for i := range f.sent {
		if f.received[i] > 1 {
			t.Errorf("%s: packet %d of %d arrived %d times", f.name, i, f.sent, f.received[i])
		}
	}
	t.Logf("%s: %d packets", f.name, f.sent)
}

// active reports whether a link carries traffic.
func (e *end) active(name string) bool {
	return slices.ContainsFunc(e.fabric.Status(), func(s LinkStatus) bool { return s.Active && s.Name == name })
}

func setLinks(t testing.TB, e *end, links ...LinkConfig) {
	t.Helper()
	if err := e.fabric.SetLinks(links); err != nil {
		t.Fatal(err)
	}
}

// One end gets a new key pair: a second link with it goes ahead of the first at both
// ends, traffic moves there when it is up, and only then the first goes.
func TestF15_T4_ReplacingAKeyLosesNoPacket(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
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
	newA, newB := oldA, b.link("a-0-next", renewed)
	newA.Name, newA.Gateway, newA.PrivateKey = "b-0-next", "b-0", renewed.private
	newB.Gateway = "a-0"
	change(a, newA, oldA)
	change(b, newB, oldB)
	flowing(t, "the new link is up", func() bool { return a.linksUp() == 2 && b.linksUp() == 2 }, there, back)
	newA, newB = silent(newA), silent(newB)
	change(a, newA, oldA)
	change(b, newB, oldB)
	flowing(t, "both ends use the new key", func() bool {
		return a.active("b-0-next") && b.active("a-0-next")
	}, there, back)

	// The old link goes when the packets in transit have arrived, and the new one takes
	// over its name.
	lastThere, lastBack := there.sent+10, back.sent+10
	flowing(t, "all packets up to now, and some more, have arrived", func() bool {
		return there.hasAll(lastThere) && back.hasAll(lastBack)
	}, there, back)
	newA.Name, newB.Name = "b-0", "a-0"
	change(a, newA)
	change(b, newB)
	there.end(t)
	back.end(t)

	wait.Until(t, "the link is up", a.isUp)
	s := a.fabric.Status()
	if len(s) != 1 || s[0].Name != "b-0" || s[0].Gateway != "b-0" || !s[0].Active ||
		device.NoisePublicKey(s[0].OwnKey) != publicKey(renewed.private) || device.NoisePublicKey(s[0].RemoteKey) != publicKey(b.private) {
		t.Errorf("status %+v", s)
	}
}

// receiving returns how many removed links still receive.
func (e *end) receiving() int {
	e.fabric.mu.Lock()
	defer e.fabric.mu.Unlock()
	return len(e.fabric.ending)
}

// An end whose process does not run for 0.3 s finds its links down: if that happens to the link with the new key, it
// sends with the old one again, which the other end may have removed by then. That still arrives.
func TestF15_AReplacedKeyReceivesWhileTheFarEndUsesIt(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	oldA, oldB := a.link("b-0", b), b.link("a-0", a)
	renewed := &end{private: newKey(), port: a.port}
	newA, newB := renewed.link("b-0-next", b), b.link("a-0-next", renewed)
	newA.Gateway, newB.Gateway = "b-0", "a-0"
	setLinks(t, a, newA, oldA) // b has only the old link
	back := newFlow("back", b, a, netip.MustParseAddr("10.0.2.9"), netip.MustParseAddr("10.72.1.5"))
	flowing(t, "packets arrive over the old link", func() bool { return back.hasAll(10) }, back)

	setLinks(t, a, newA)
	back.some(t)
	back.end(t)
	wait.Until(t, "b knows that the old link ends", func() bool {
		l := b.fabric.links.all()[0]
		l.state.mu.Lock()
		defer l.state.mu.Unlock()
		return l.state.prober.Last.Kind == link.Leaving
	})
	setLinks(t, b, newB, oldB)
	wait.Until(t, "b uses the new link", func() bool { return b.active("a-0-next") })
	wait.Until(t, "the old link is closed", func() bool { return a.receiving() == 0 })
}

// What the far end may no longer send is not received with an old key either: nothing of a remote gateway that is removed, and
// nothing from prefixes that are withdrawn.
func TestT4_ARemovedLinkReceivesNoMoreThanTheOneInItsPlace(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	next := func() LinkConfig { return (&end{private: newKey(), port: a.port}).link("b-0", b) }
	less := next()
	less.Allowed = less.Allowed[1:]
	setLinks(t, a, less)
	if n := a.receiving(); n != 0 {
		t.Errorf("%d links still receive after a change of keys and prefixes", n)
	}
	second := next()
	second.Allowed = less.Allowed
	setLinks(t, a, second)
	second.Allowed = second.Allowed[1:]
	setLinks(t, a, second)
	if n := a.receiving(); n != 0 {
		t.Errorf("%d links still receive after a change of keys, and then of prefixes", n)
	}
	setLinks(t, a, next())
	setLinks(t, a)
	if n := a.receiving(); n != 0 {
		t.Errorf("%d links still receive after the removal of the remote gateway", n)
	}
}

// A key that comes back within that time is that of a new link.
func TestF15_AKeyReturnsWhileItsLinkEnds(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	was := a.link("b-0", b)
	setLinks(t, a, (&end{private: newKey(), port: a.port}).link("b-0", b))
	setLinks(t, a, was)
	wait.Until(t, "the link is up, and no other receives", func() bool { return a.isUp() && a.receiving() == 0 })
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

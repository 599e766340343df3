package nat

import (
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

// These tests stand inside the package, for what happens between two steps of a
// reader that has no lock: a test of the race alone meets it too seldom.

// chainOf collects a chain from where a walk is.
func chainOf(w walk) (all []uint32) {
	for ; ; w.step() {
		i, ok := w.entry()
		if !ok {
			return all
		}
		all = append(all, i)
	}
}

func TestAWalkMissesNothingWhateverBecomesOfWhereItStands(t *testing.T) {
	t.Parallel()
	// Bucket 1 has 0, 1, 2, 3, in this order, and bucket 2 has 4.
	start := func() (chains, walk) {
		c := newChains(8)
		for _, i := range []uint32{3, 2, 1, 0} {
			c.insert(1, i)
		}
		c.insert(2, 4)
		w := c.walk(1)
		w.step()
		if i, ok := w.entry(); !ok || i != 1 {
			t.Fatalf("at %d, %t", i, ok)
		}
		return c, w
	}
	for name, meanwhile := range map[string]func(c *chains){
		"nothing":                  func(*chains) {},
		"removed":                  func(c *chains) { c.remove(1, 1) },
		"removed, and the next":    func(c *chains) { c.remove(1, 1); c.remove(1, 2) },
		"removed, and the last":    func(c *chains) { c.remove(1, 1); c.remove(1, 3) },
		"put into another chain":   func(c *chains) { c.remove(1, 1); c.insert(2, 1) },
		"put into an empty chain":  func(c *chains) { c.remove(1, 1); c.insert(3, 1) },
		"put to its chain's head":  func(c *chains) { c.remove(1, 1); c.insert(1, 1) },
		"the next in another":      func(c *chains) { c.remove(1, 1); c.remove(1, 2); c.insert(2, 2) },
		"the next at another's":    func(c *chains) { c.remove(1, 2); c.insert(2, 2) },
		"all before it are gone":   func(c *chains) { c.remove(1, 0); c.remove(1, 1) },
		"there and back":           func(c *chains) { c.remove(1, 1); c.insert(2, 1); c.remove(2, 1); c.insert(1, 1) },
		"its chain becomes empty":  func(c *chains) { c.remove(1, 0); c.remove(1, 1); c.remove(1, 2); c.remove(1, 3) },
		"the other gets all of it": func(c *chains) { c.remove(1, 1); c.remove(1, 3); c.insert(2, 3); c.insert(2, 1) },
	} {
		c, w := start()
		meanwhile(&c)
		now := chainOf(c.walk(1))
		w.step()
		met := chainOf(w)
		for _, i := range []uint32{2, 3} { // what was still ahead
			if slices.Contains(now, i) && !slices.Contains(met, i) {
				t.Errorf("%s: the chain is %v, the walk went on to %v", name, now, met)
			}
		}
	}
}

func TestAWalkEndsEvenIfItsChainDoesNot(t *testing.T) {
	t.Parallel()
	c := newChains(4)
	c.insert(0, 1)
	c.next[1].Store(1)
	if n := len(chainOf(c.walk(0))); n > maxHops+1 {
		t.Errorf("%d steps", n)
	}
	c.next[1].Store(endOfChain | 3)
	if n := len(chainOf(c.walk(0))); n > maxHops+1 {
		t.Errorf("%d steps to a foreign end", n)
	}
}

func TestEntriesAreUsedAgainAsLateAsPossible(t *testing.T) {
	t.Parallel()
	links := make([]uint32, 4)
	link := func(i uint32) *uint32 { return &links[i] }
	f := freeList{size: 4}
	var got []uint32
	take := func() {
		if i, ok := f.take(link); ok {
			got = append(got, i)
		} else {
			got = append(got, 99)
		}
	}
	take()
	f.give(0, link)
	take()
	f.give(1, link)
	for range 5 {
		take()
	}
	f.give(3, link)
	f.give(2, link)
	take()
	take()
	take()
	if want := []uint32{0, 1, 2, 3, 0, 1, 99, 3, 2, 99}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAPacketNeverChangesAFlowThatCameAfterItsOwn(t *testing.T) {
	t.Parallel()
	var f flow
	l := life(f.life.Load()).begun(kindTCP, 10)
	f.life.Store(uint64(l))
	if !f.saw(l, Outgoing, packet.TCPFlagSYN, 11) || life(f.life.Load()).last() != 11 {
		t.Fatal("a flow does not see its packets")
	}
	ended := life(f.life.Load()).ended()
	f.life.Store(uint64(ended))
	if f.saw(l, Incoming, packet.TCPFlagRST, 12) || life(f.life.Load()) != ended {
		t.Error("a packet was noted in a flow that has ended")
	}
	if seen := l.after(Outgoing, packet.TCPFlagSYN, 11); f.saw(seen, Outgoing, packet.TCPFlagSYN, 11) {
		t.Error("a packet that changes nothing was noted in a flow that has ended")
	}
	next := ended.begun(kindTCP, 12)
	f.life.Store(uint64(next))
	if f.saw(l, Incoming, packet.TCPFlagRST, 12) || life(f.life.Load()) != next {
		t.Error("a packet was noted in another's flow")
	}
	if next.same(l) || next.answered() || next.state() != 0 || next.kind() != kindTCP || next.last() != 12 {
		t.Errorf("%#x", next)
	}
}

func TestAMappingThatCameAfterIsNotTheSame(t *testing.T) {
	t.Parallel()
	key := hashKey{1, 2, 3, 4}
	table := newMappingTable(1, &key)
	i, _ := table.add(words{1, 2}, newEnds(kindUDP, 7, 3, 4000))
	m := &table.entries[i]
	inside, e, live, ok := m.read()
	if !ok || inside != (words{1, 2}) || e.insidePort() != 7 || e.externalPort() != 4000 || e.pool() != 3 || e.kind() != kindUDP {
		t.Fatalf("%v %#x %t", inside, e, ok)
	}
	table.end(i)
	if _, _, _, ok := m.read(); ok || m.still(live) {
		t.Error("it has ended, and lives")
	}
	if _, _, _, ok := table.find(kindUDP, words{1, 2}, 7); ok {
		t.Error("it has ended, and is found")
	}
	if again, _ := table.add(words{1, 2}, newEnds(kindUDP, 7, 3, 4000)); again != i || m.still(live) {
		t.Error("another is taken for it")
	}
}

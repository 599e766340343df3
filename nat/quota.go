package nat

// source is an inside address with flows. 24 bytes. Packets of existing flows do not use it.
// Protected by Masquerade.mu.
type source struct {
	addr  words
	flows uint32 // number of flows, or the next free entry
	pool  uint16 // its external address, for as long as it has flows (RFC 4787 REQ-2)
}

// sourceTable counts the flows of each inside address.
type sourceTable struct {
	entries []source
	key     *hashKey

	byAddr chains
	free   freeList
}

func newSourceTable(n int, key *hashKey) sourceTable {
	return sourceTable{
		entries: make([]source, n), key: key,
		byAddr: newChains(n), free: freeList{size: uint32(n)},
	}
}

func (t *sourceTable) bucket(a words) uint32 { return t.byAddr.bucket(t.key.hash(a, tagSource)) }

// find returns the source with an address, nil if the address has no flow.
func (t *sourceTable) find(a words) *source {
	if i, ok := t.index(a); ok {
		return &t.entries[i]
	}
	return nil
}

func (t *sourceTable) index(a words) (i uint32, ok bool) {
	for w := t.byAddr.walk(t.bucket(a)); ; w.step() {
		i, ok := w.entry()
		if !ok || t.entries[i].addr == a {
			return i, ok
		}
	}
}

// gained counts a new flow of an address. Its first flow sets the pool.
func (t *sourceTable) gained(a words, pool uint16) {
	if s := t.find(a); s != nil {
		s.flows++
		return
	}
	if i, ok := t.free.take(t.link); ok { // always: there are as many sources as flows
		t.entries[i] = source{addr: a, flows: 1, pool: pool}
		t.byAddr.insert(t.bucket(a), i)
	}
}

// lost counts a flow of an address that has ended.
func (t *sourceTable) lost(a words) {
	i, ok := t.index(a)
	if !ok {
		return
	}
	if t.entries[i].flows--; t.entries[i].flows == 0 {
		t.byAddr.remove(t.bucket(a), i)
		t.free.give(i, t.link)
	}
}

func (t *sourceTable) link(i uint32) *uint32 { return &t.entries[i].flows }

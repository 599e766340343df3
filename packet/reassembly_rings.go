package packet

// rings are lists that go round, of numbers: some number the members, others are
// the heads. Each number is in one ring; one that was never put anywhere is in a
// ring of its own, as an empty head is. The zero value has no numbers.
type rings []struct{ before, behind uint16 }

func newRings(n int) rings {
	r := make(rings, n)
	for i := range r {
		r[i].before, r[i].behind = uint16(i), uint16(i)
	}
	return r
}

// first is the member behind head; head itself when the ring is empty.
func (r rings) first(head uint16) uint16 { return r[head].behind }

// add puts i, which is in no ring with others, at the end of head's ring.
func (r rings) add(head, i uint16) {
	last := r[head].before
	r[i].before, r[i].behind = last, head
	r[last].behind, r[head].before = i, i
}

// take takes i out of its ring.
func (r rings) take(i uint16) {
	before, behind := r[i].before, r[i].behind
	r[before].behind, r[behind].before = behind, before
	r[i].before, r[i].behind = i, i
}

// numbers are n to 1: free places, of which the last is taken first.
func numbers(n int) []uint16 {
	free := make([]uint16, n)
	for i := range free {
		free[i] = uint16(n - i)
	}
	return free
}

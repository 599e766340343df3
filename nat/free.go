package nat

// freeList hands out the entries of a table: those that were never used, then
// those whose use ended longest ago. links says where an unused entry keeps its
// successor.
type freeList struct {
	size        uint32
	fresh       uint32 // entries from here on were never used
	used        uint32 // how many are in use
	first, last uint32 // of those that were given back
	back        uint32 // how many those are
}

// take gives an unused entry; ok is false when there is none.
func (f *freeList) take(link func(i uint32) *uint32) (i uint32, ok bool) {
	switch {
	case f.fresh < f.size:
		i = f.fresh
		f.fresh++
	case f.back > 0:
		i = f.first
		f.first = *link(i)
		f.back--
	default:
		return 0, false
	}
	f.used++
	return i, true
}

// give takes an entry back.
func (f *freeList) give(i uint32, link func(i uint32) *uint32) {
	if f.back == 0 {
		f.first = i
	} else {
		*link(f.last) = i
	}
	f.last = i
	f.back++
	f.used--
}

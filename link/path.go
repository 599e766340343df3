package link

import "time"

const (
	// MinMTU is the smallest inner MTU accepted from a remote: every IPv4 host accepts
	// 576 bytes (RFC 791 section 3.1).
	MinMTU = 576
	// pathInterval is how often it is checked that the largest packets still cross, and pathStale how long an answer counts.
	pathInterval = 5 * time.Second
	pathStale    = 3 * pathInterval
	// pathRaise is how often larger packets are tried than the path carried last (PMTU_RAISE_TIMER, RFC 8899 section 5.1.1).
	pathRaise = 600 * time.Second
	// pathBase is a size that nearly all paths carry, in bytes (BASE_PLPMTU, RFC 8899 section 5.1.2).
	pathBase = 1200
	// pathStep is the resolution of a search in bytes: WireGuard pads packets to a multiple of it.
	pathStep = 16
	// pathMisses is how many packets in a row must be lost while smaller ones that were sent with them cross, for their size to
	// be too large (MAX_PROBES, RFC 8899 section 5.1.2), and pathLapses the same for a size that has crossed before. Under load,
	// packets of any size are lost; the chance that only the larger one of each pair is lost is 2^-pathLapses then.
	pathMisses = 3
	pathLapses = 12
	// pathTries is how many packets are sent in quick succession while not even the smaller ones cross.
	pathTries = 2 * pathLapses
)

// Path finds the size of the largest packet that crosses a link towards its far end, by probes of that size
// (RFC 8899). It neither needs ICMP errors nor believes them. It depends only on its calls and the times passed to them.
type Path struct {
	target  int       // the size that both ends carry, bytes; 0 = not known yet
	ceiling int       // the size that this end carries
	Limit   int       // the largest size that crosses if ceiling does not; 0 = none is known
	Settled bool      // limit holds for the path on which the link came up
	raised  time.Time // when ceiling was last tried

	size      int       // the size that is probed
	proven    bool      // it has crossed
	low, high int       // packets of low bytes cross and those of high do not; high 0 = not known yet
	at        time.Time // when size was last sent; zero = not yet
	open      bool      // no answer so far
	smaller   bool      // a packet of low bytes that was sent with it has crossed
	misses    int       // how often in a row only the smaller packet crossed
	tries     int       // how often in a row size did not cross

	crossed sizeAt // the largest packet that crossed lately
}

type sizeAt struct {
	size int
	at   time.Time
}

// Restart begins again, because the link came up.
func (p *Path) Restart() { p.restart(p.target, p.ceiling) }

// restart begins again with the size that both ends carry, because the link came up or that size changed. The limit holds
// until another is found.
func (p *Path) restart(target, ceiling int) {
	*p = Path{target: target, ceiling: ceiling, Limit: p.Limit, size: target, low: min(pathBase, target), crossed: p.crossed}
}

// Ask returns the sizes of the packets to send now, 0 for none. wait is how long an answer may take.
func (p *Path) Ask(target, ceiling int, wait time.Duration, now time.Time) (size, smaller int) {
	if target != p.target || ceiling != p.ceiling {
		p.restart(target, ceiling)
	}
	since := now.Sub(p.at)
	switch {
	case p.at.IsZero():
		p.raised = now
	case p.open && (since < wait || p.tries >= pathTries && since < pathInterval):
		return 0, 0
	case p.open:
		p.miss()
	case p.Limit != 0 && now.Sub(p.raised) >= pathRaise:
		p.size, p.proven, p.low, p.raised = p.ceiling, false, p.Limit, now
	case p.proven && since < pathInterval:
		return 0, 0
	}
	p.at, p.open, p.smaller = now, true, false
	if p.size > p.low && (p.tries > 0 || !p.proven) {
		smaller = p.low
	}
	return p.size, smaller
}

// Answer processes the answer to a packet of a size.
func (p *Path) Answer(size int, now time.Time) {
	if size >= p.crossed.size || now.Sub(p.crossed.at) >= pathStale {
		p.crossed = sizeAt{size, now}
	}
	if size != p.size {
		p.smaller = p.smaller || size == p.low
		return
	}
	p.open, p.misses, p.tries = false, 0, 0
	if !p.proven {
		p.low = size
		p.narrow()
	}
}

// miss processes that a packet of size was not answered in time.
func (p *Path) miss() {
	p.tries++
	if p.smaller {
		p.misses++
	}
	need := pathMisses
	if p.proven {
		need = pathLapses
	}
	switch {
	case p.misses >= need:
		p.high = p.size
		p.narrow()
	case p.tries < pathTries:
	case p.Limit != 0 && !p.proven: // not even the limit crosses: no larger size is in question
		p.settle(p.Limit, p.Limit)
	case p.low > MinMTU: // not even the base size crosses
		p.low, p.tries = MinMTU, 0
	}
}

// narrow chooses the next size between low and high, or ends the search.
func (p *Path) narrow() {
	p.misses, p.tries = 0, 0
	switch {
	case p.high == 0 && p.size <= p.Limit: // both ends carry it; larger sizes were not tried
		p.settle(p.size, p.Limit)
	case p.high == 0:
		p.settle(p.size, 0)
	case p.high-p.low <= pathStep:
		p.settle(p.low, p.low)
	default:
		p.size, p.proven = max((p.low+p.high)/2, p.low+pathStep)/pathStep*pathStep, false
	}
}

// settle ends a search.
func (p *Path) settle(size, limit int) {
	p.size, p.Limit, p.proven, p.Settled = size, limit, true, true
	p.low, p.high, p.misses, p.tries = min(pathBase, size), 0, 0, 0
}

// Carries returns mtu if a packet of that size has crossed recently, else 0.
func (p *Path) Carries(mtu int, now time.Time) int {
	if p.crossed.size < mtu || now.Sub(p.crossed.at) >= pathStale {
		return 0
	}
	return mtu
}

package tun

import (
	"testing"
	"time"

	"strait.dev/strait/packet"
)

// blackHole is a link over a path that swallows whatever is larger than it carries, in
// virtual time: no error ever comes back.
type blackHole struct {
	prober  prober
	now     time.Time
	carries int // bytes of inner packet
}

// run lets the link ask as Fabric does.
func (h *blackHole) run(mtu int, span time.Duration) {
	for end := h.now.Add(span); h.now.Before(end); h.now = h.now.Add(probeInterval) {
		h.cross(h.prober.ask(mtu, h.now), 0)
		if h.prober.owesPath(mtu, h.now) {
			h.cross(h.prober.askPath(mtu, h.now), mtu)
		}
	}
}

// cross answers a question that fits the path.
func (h *blackHole) cross(q probe, size int) {
	if max(size, probeHeaders+probeLen) <= h.carries {
		h.prober.answer(probe{kind: probeAnswer, sequence: q.sequence}, h.now)
	}
}

// Without a single ICMP message, what the path carries shows by probes of that very
// size: it counts when one has crossed, and no longer than some lost ones take.
func TestRFC4821_APathIsJudgedByPacketsThatCross(t *testing.T) {
	t.Parallel()
	h := &blackHole{now: time.Unix(1000, 0), carries: 1420}
	h.run(1420, time.Second)
	if got := h.prober.pathMTU(1420, h.now); got != 1420 {
		t.Fatalf("a path that carries 1420 counts for %d", got)
	}
	h.carries = 1419 // the route changed
	h.run(1420, pathStale+probeInterval)
	if got := h.prober.pathMTU(1420, h.now); got != 0 {
		t.Errorf("a path that carries 1419 still counts for %d after %v", got, pathStale)
	}
	if !h.prober.up(h.now) {
		t.Error("the link is down, though small packets cross")
	}
	h.run(1419, time.Second) // the setting after that
	if got := h.prober.pathMTU(1419, h.now); got != 1419 {
		t.Errorf("the size that fits counts for %d", got)
	}
	h.carries = 1 << 16
	h.run(1420, pathInterval)
	if got := h.prober.pathMTU(1420, h.now); got != 1420 {
		t.Errorf("a path that carries everything again counts for %d", got)
	}
}

// Probes of full size are few, are not taken for loss, nor their time for the link's,
// and the base size that links live on is one that every path has (RFC 8899 section
// 5.1.2 has 1200 bytes).
func TestRFC8899_ProbesOfThePathAreFewAndNoLoss(t *testing.T) {
	t.Parallel()
	h := &blackHole{now: time.Unix(1000, 0), carries: 1000}
	const minutes = 10
	h.run(1420, minutes*time.Minute)
	if h.prober.lost != 0 {
		t.Errorf("%d questions count as lost on a link that loses only large packets", h.prober.lost)
	}
	asked := h.prober.next - h.prober.sent // the others are of full size
	// They are sent with the next ordinary one.
	if least, most := uint64(minutes*time.Minute/(pathInterval+probeInterval)-1), uint64(minutes*time.Minute/pathInterval+1); asked < least || asked > most {
		t.Errorf("%d probes of full size in %d minutes, want one every %v", asked, minutes, pathInterval)
	}
	if base := probeHeaders + probeLen; base > packet.MinIPv6MTU || base > 1200 {
		t.Errorf("a link needs packets of %d bytes to be up", base)
	}
	if pathInterval < probeInterval || pathStale < 2*pathInterval {
		t.Error("one lost probe would do for a path that is too small")
	}
}

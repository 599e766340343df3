//go:build lab

package underlay

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/netns"
)

// What the network device cannot carry is dropped and counted, alone and in a message of
// many; what it can goes on. Without the option the kernel makes fragments.
func TestG15_NoOuterFragmentsAreMade(t *testing.T) {
	n := netns.New(t)
	n.IP(t, "link set lo mtu 1400")
	const fits4, fits6 = 1400 - 20 - 8, 1400 - 40 - 8
	for _, c := range []struct {
		addr netip.AddrPort
		fits int
	}{{loopback4, fits4}, {loopback6, fits6}} {
		var to, whole, cut *Socket
		if err := n.In(func() (err error) {
			if to, err = Listen(c.addr, Options{}); err == nil {
				whole, err = Listen(c.addr, Options{DontFragment: true})
			}
			if err == nil {
				cut, err = Listen(c.addr, Options{})
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Socket{to, whole, cut} {
			defer s.Close()
		}
		r := NewReceiver(to)
		for _, step := range []struct {
			name                string
			from                *Socket
			sizes               []int
			sent, dropped, sums int
		}{
			{"fits", whole, []int{c.fits}, 1, 0, c.fits},
			{"a byte too long", whole, []int{c.fits + 1}, 0, 1, 0},
			{"many too long", whole, []int{c.fits + 1, c.fits + 1, c.fits + 1}, 0, 3, 0},
			{"too long among others", whole, []int{c.fits, 9000, c.fits}, 2, 1, 2 * c.fits},
			{"without the option", cut, []int{9000}, 1, 0, 9000},
		} {
			b := NewBatch(8)
			for i, size := range step.sizes {
				b.Add(step.from, destination(to), nil, payload(i, size))
			}
			sent, dropped := b.Flush()
			if sent != step.sent || dropped != step.dropped {
				t.Errorf("%v, %s: sent %d, dropped %d, want %d and %d", c.addr, step.name, sent, dropped, step.sent, step.dropped)
			}
			if step.dropped > 0 && b.lastError != unix.EMSGSIZE {
				t.Errorf("%v, %s: dropped for %v, want EMSGSIZE", c.addr, step.name, b.lastError)
			}
			got, _ := receive(t, r, step.sent)
			sum := 0
			for _, d := range got {
				sum += len(d)
			}
			if sum != step.sums {
				t.Errorf("%v, %s: %d bytes arrived, want %d", c.addr, step.name, sum, step.sums)
			}
			nothingWaits(t, r)
		}
	}
}

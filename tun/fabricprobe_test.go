package tun

import (
	"slices"
	"testing"
	"time"
)

// Replaced links have no announcement yet. Nodes would change the MTU of their routes, and change it back.
func TestTheMTUOfTheRemoteHoldsUntilANewLinkAnnouncesOne(t *testing.T) {
	t.Parallel()
	var announced []int
	f := &Fabric{options: Options{AnnounceMTU: func(mtu int) { announced = append(announced, mtu) }}}
	for _, mtus := range [][]uint16{{}, {0}, {1390, 1400}, {0, 1400}, {0, 0}, {0, 1380}, {1400, 1}, {}} {
		var links []*Link
		for _, mtu := range mtus {
			links = append(links, &Link{prober: prober{mtu: mtu}})
		}
		f.links.Store(&links)
		f.announce(time.Now())
	}
	if want := []int{1390, 1400, 1380, minAnnouncedMTU, 0}; !slices.Equal(announced, want) {
		t.Errorf("announced %v, want %v", announced, want)
	}
}

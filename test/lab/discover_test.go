//go:build lab || nightly

package lab

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"testing"
)

// discover sends ever smaller packets that must not be fragmented, like path MTU discovery,
// until one is answered.
func discover(t *testing.T, w direction) (mtu int) {
	t.Helper()
	for range 6 {
		mtu = routeMTU(t, w)
		if _, err := w.from.try("ping", "-n", "-c", "1", "-W", "60", "-M", "do", "-s", fmt.Sprint(mtu-ipHeader(w.src)-8), w.seen.String()); err == nil {
			return mtu
		}
	}
	t.Fatalf("no answer to a packet of the learned path MTU, %d: %s", mtu, w.from.run(t, "ip", "route", "get", w.seen.String()))
	return 0
}

// routeMTU returns the path MTU in the sending pod's kernel.
func routeMTU(t *testing.T, w direction) int {
	t.Helper()
	m := mtuText.FindStringSubmatch(w.from.run(t, "ip", "route", "get", w.seen.String()))
	if m == nil {
		return linkMTU // nothing learned
	}
	mtu, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return mtu
}

var mtuText = regexp.MustCompile(` mtu (\d+)`)

// tooBigKind matches fragmentation needed (RFC 792) or packet too big (RFC 4443).
func tooBigKind(a netip.Addr) func([]byte) bool {
	if a.Is4() {
		return icmpKind(3, 4)
	}
	return icmpKind(2, 0)
}

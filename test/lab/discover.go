package lab

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"testing"
)

// Discover sends ever smaller packets that must not be fragmented, like path MTU discovery,
// until one is answered.
func Discover(t *testing.T, w Direction) (mtu int) {
	t.Helper()
	for range 6 {
		mtu = routeMTU(t, w)
		if _, err := w.From.Try("ping", "-n", "-c", "1", "-W", "60", "-M", "do", "-s", fmt.Sprint(mtu-IPHeader(w.Src)-8), w.Seen.String()); err == nil {
			return mtu
		}
	}
	t.Fatalf("no answer to a packet of the learned path MTU, %d: %s", mtu, w.From.Run(t, "ip", "route", "get", w.Seen.String()))
	return 0
}

// routeMTU returns the path MTU in the sending pod's kernel.
func routeMTU(t *testing.T, w Direction) int {
	t.Helper()
	m := mtuText.FindStringSubmatch(w.From.Run(t, "ip", "route", "get", w.Seen.String()))
	if m == nil {
		return LinkMTU // nothing learned
	}
	mtu, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return mtu
}

var mtuText = regexp.MustCompile(` mtu (\d+)`)

// TooBigKind matches fragmentation needed (RFC 792) or packet too big (RFC 4443).
func TooBigKind(a netip.Addr) func([]byte) bool {
	if a.Is4() {
		return ICMPKind(3, 4)
	}
	return ICMPKind(2, 0)
}

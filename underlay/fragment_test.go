package underlay

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestG15_OuterPacketsBearDF(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr                netip.AddrPort
		level, option, want int
	}{
		{loopback4, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE},
		{loopback6, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
	} {
		s := open(t, c.addr, Options{DontFragment: true})
		got, err := unix.GetsockoptInt(s.fd.number, c.level, c.option)
		if err != nil || got != c.want || !s.Features().DontFragment {
			t.Errorf("%v: path MTU discovery is %d (%v), want %d; features %+v", c.addr, got, err, c.want, s.Features())
		}
	}
}

//go:build lab

package underlay

import (
	"net/netip"
	"testing"

	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/wait"
)

// inNamespace calls over addresses that a namespace of its own has on its loopback.
func inNamespace(t *testing.T, own netip.Addr, addresses [2]netip.Addr) (*called, *netns.Namespace) {
	n := netns.New(t)
	for _, a := range addresses {
		addAddress(t, n, a)
	}
	c := &called{addresses: addresses}
	if err := n.In(func() error {
		c.link = openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0)
		c.caller = open(t, netip.AddrPortFrom(own, 0), Options{})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	c.receiver = NewReceiver(c.caller)
	return c, n
}

// addAddress gives the loopback of a namespace an address, and waits until the address can
// be called: the kernel does not use an IPv6 address at once.
func addAddress(t *testing.T, n *netns.Namespace, a netip.Addr) {
	t.Helper()
	n.IP(t, "addr add "+a.String()+" dev lo")
	wait.Until(t, a.String()+" can be called", func() bool {
		_, err := n.Try("ping", "-n", "-c", "1", "-W", "1", a.String())
		return err == nil
	})
}

func TestNetns18_AnswersLeaveFromTheAddressCalledOverIPv6(t *testing.T) {
	addresses := [2]netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")}
	c, _ := inNamespace(t, netip.IPv6Loopback(), addresses)
	for _, at := range addresses {
		from := c.call(t, at)
		c.answers(t, from, at, []byte("answer"))
		c.answers(t, from, at, train()...)
	}
}

// Nothing is lost when an address goes: what the kernel refuses is sent again. Once the
// address is back, and called, it is used again.
func TestNetns16_AnAddressThatIsGoneIsLetGo(t *testing.T) {
	for _, f := range []struct {
		own       netip.Addr
		addresses [2]netip.Addr
		bits      string
	}{
		{netip.MustParseAddr("127.0.0.1"), [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}, "/32"},
		{netip.IPv6Loopback(), [2]netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")}, "/128"},
	} {
		c, n := inNamespace(t, f.own, f.addresses)
		at := f.addresses[1]
		for _, bufs := range [][][]byte{{[]byte("alone")}, train()} {
			from := c.call(t, at)
			c.answers(t, from, at, bufs...)
			n.IP(t, "addr del "+at.String()+f.bits+" dev lo")
			c.answers(t, from, f.own, bufs...)
			if from.SrcIP().IsValid() || from.SrcToString() != "" {
				t.Errorf("the address is gone and still %q", from.SrcToString())
			}
			addAddress(t, n, at)
			c.answers(t, from, f.own, bufs...) // no peer has initiated to it
			c.answers(t, c.call(t, at), at, bufs...)
		}
		if failures := c.link.Bind.(*linkBind).mux.Counters().SendFailures; failures != 0 {
			t.Errorf("%d send failures, though all arrived", failures)
		}
	}
}

//go:build lab

package leak

import (
	"context"
	"net"
	"testing"
	"time"

	"strait.dev/strait/test/netns"
)

// TestWatchReportsPacketsInTheClear sends packets in the clear between two namespaces.
func TestWatchReportsPacketsInTheClear(t *testing.T) {
	node, other := netns.New(t), netns.New(t)
	node.IP(t, "link add eth0 type veth peer name eth0 "+other.Here()+"\naddr add 192.0.2.21/24 dev eth0\naddr add 10.0.1.1/24 dev eth0\nlink set eth0 up")
	other.IP(t, "addr add 192.0.2.22/24 dev eth0\naddr add 198.51.100.21/24 dev eth0\nlink set eth0 up")
	node.IP(t, "route add 198.51.100.0/24 dev eth0")
	for _, c := range []struct {
		to     string
		marked bool
		seen   func(*Report) bool
	}{
		{"192.0.2.22:6091", true, func(r *Report) bool { return r.Clear > 0 && len(r.Leaks) == 0 }},
		{"198.51.100.21:51840", false, func(r *Report) bool { return r.Tunnel > 0 && len(r.Leaks) == 0 }},
		{"198.51.100.21:51840", true, func(r *Report) bool { return len(r.Leaks) > 0 && r.Leaks[0].Interface == "eth0" }},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		var conn net.Conn
		if err := node.In(func() (err error) { conn, err = net.Dial("udp", c.to); return err }); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, 40)
		if c.marked {
			copy(payload[7:], marker[:])
		}
		var r *Report
		err := node.In(func() (err error) {
			r, err = Watch(ctx, order(), func() {
				if _, err := conn.Write(payload); err != nil {
					t.Error(err)
				}
				time.AfterFunc(3*turn*time.Microsecond, cancel)
			})
			return err
		})
		cancel()
		_ = conn.Close()
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Underlay) != 1 || r.Underlay[0] != "eth0" || !c.seen(r) {
			t.Errorf("to %s, marked %v: %+v", c.to, c.marked, r)
		}
	}
}

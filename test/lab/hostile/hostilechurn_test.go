//go:build lab || nightly

package hostile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/test/lab"
)

// churn: T12, thousands of short-lived connections and flows must not increase the memory
// of a gateway.
func (h *hostile) churn() []attack {
	a, b := h.top.A, h.top.B
	nothing := func(*testing.T, uint8) []shots { return nil }
	return []attack{{
		threat: "T12", name: "a new flow with every packet, to pods that do not exist", rate: 10000,
		counted: []string{"b/ingress/no_node"}, complete: true,
		floods: func(t *testing.T, n uint8) []shots {
			random := rand.New(rand.NewPCG(12, uint64(n)))
			return []shots{{h.asNode(t, a.Encapsulation), pool(8192, func(int) []byte {
				source := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(random.Uint32())}), uint16(random.Uint32()))
				to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 71, byte(100 + random.IntN(100)), byte(random.Uint32())}), uint16(random.Uint32()))
				return lab.FrameOf(a.Encapsulation, lab.VNI, lab.UDPTo(source, to, marked(n, 32)))
			})}}
		},
	}, {
		threat: "T12", name: "TCP connections that are opened and reset", floods: nothing,
		meanwhile: func(t *testing.T) string {
			l := b.Pod.ListenTCP(t, netip.AddrPortFrom(b.Pod4, 5002))
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_ = c.Close()
				}
			}()
			count, until := 0, time.Now().Add(attackWindow)
			for time.Now().Before(until) {
				if err := connectAndReset(h.attackers.pod, netip.AddrPortFrom(a.Sees(b.Pod4), 5002)); err != nil {
					t.Error(err)
					break
				}
				count++
			}
			return fmt.Sprintf("%d connections", count)
		},
	}, {
		threat: "T12", name: "a peer that renews its session continuously", floods: nothing,
		meanwhile: func(t *testing.T) string {
			const sessions = 20
			for range sessions {
				h.newSession(t)
			}
			return fmt.Sprintf("%d sessions", sessions)
		},
	}, {
		threat: "T12", name: "a configuration that changes continuously, while a node floods", rate: 10000,
		counted: []string{"a/egress/wrong_vni"}, complete: true,
		floods: func(t *testing.T, n uint8) []shots {
			return []shots{{h.asNode(t, a.Encapsulation), pool(1024, func(i int) []byte {
				return lab.FrameOf(a.Encapsulation, uint32(1000+i), h.validPacket(n))
			})}}
		},
		meanwhile: func(t *testing.T) string {
			const changes = 20
			for i := range changes {
				a.Gateway.Reload(t, "ok", func() { h.renumberSecondNode(t, i) })
			}
			return fmt.Sprintf("%d changes", changes)
		},
	}}
}

// connectAndReset opens a connection and resets it.
func connectAndReset(n *lab.Namespace, to netip.AddrPort) error {
	return n.In(func() error {
		c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		return errors.Join(c.SetLinger(0), c.Close())
	})
}

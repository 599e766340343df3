//go:build lab || nightly

package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/lab"
	"strait.dev/strait/test/wait"
)

// pool builds packets in advance, so that a flood only sends.
func pool(size int, packet func(i int) []byte) func(i int) []byte {
	packets := make([][]byte, size)
	for i := range packets {
		packets[i] = packet(i)
	}
	return func(i int) []byte { return packets[i%size] }
}

// randomBytes returns bytes from a seeded generator.
func randomBytes(random *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// outsideTheGrant: T3, a peer with a valid key sends packets outside of the grant.
func (h *hostile) outsideTheGrant() []attack {
	peer := func(name string, counted []string, complete bool, source func(i int) string, to ...string) attack {
		return attack{
			threat: "T3", name: name, rate: 5000, counted: counted, complete: complete,
			floods: func(t *testing.T, n uint8) []shots {
				return []shots{{h.attackers.peer.send, pool(4*len(to), func(i int) []byte {
					return lab.UDPTo(netip.AddrPortFrom(lab.Addr(source(i)), 9), netip.AddrPortFrom(lab.Addr(to[i%len(to)]), 9), marked(n, 64))
				})}}
			},
		}
	}
	// The node refuses what the gateway forwards: a node has external addresses to get answers.
	node := func(name, source string, to ...string) attack {
		a := peer(name, []string{"a/node/node_not_granted"}, true, func(int) string { return source }, to...)
		a.toNode = true
		return a
	}
	is := func(source string) func(int) string { return func(int) string { return source } }
	pod4, pod6 := h.top.A.Pod4.String(), h.top.A.Pod6.String()
	return []attack{
		peer("from sources that are not the peer's, which WireGuard rejects and does not count", nil, false,
			func(i int) string { return []string{"10.99.0.1", "10.72.1.5", "10.80.0.1", "127.0.0.1"}[i%4] }, pod4),
		peer("from IPv6 sources outside of the peer's allowed IPs", nil, false,
			func(i int) string { return []string{"fd00:99::1", "fd00:72:0:1::5", "::1", "2001:db8::1"}[i%4] }, pod6),
		peer("to nodes, gateway and addresses outside of the pods", []string{"a/ingress/destination_not_granted"}, true, is("10.0.2.66"),
			"10.80.0.11", "10.80.0.1", "10.96.0.1", "10.96.0.10", "203.0.113.2", "192.168.0.1", "10.71.2.9"),
		peer("to the same, IPv6", []string{"a/ingress/destination_not_granted"}, true, is("fd00:10:0:2::66"),
			"fd00:80::11", "fd00:80::1", "fd00:96::1", "2001:db8:113::2", "fd00:71:0:2::9"),
		node("to a node through its external address", "10.0.2.66", "10.70.0.11"),
		node("to the same, IPv6", "fd00:10:0:2::66", "fd00:70::11"),
		peer("to granted addresses without a node", []string{"a/ingress/no_node"}, true, is("10.0.2.66"), "10.0.77.1", "10.70.0.99", "10.70.255.254"),
		peer("to the metadata service and other martians", []string{"a/ingress/martian", "a/ingress/multicast"}, true, is("10.70.0.11"),
			"169.254.169.254", "127.0.0.1", "0.0.0.0", "240.0.0.1", "224.0.0.251", "255.255.255.255"),
		peer("to link-local addresses of the machine", []string{"a/ingress/martian"}, true, is("fd00:10:0:2::66"), "fe80::1", "::1", "fe80::a9fe:a9fe"),
	}
}

// atWireGuard: T8 and T9, datagrams to the WireGuard port from unauthenticated senders.
func (h *hostile) atWireGuard() []attack {
	e := h.attackers
	// from returns a datagram from an outsider: 250 addresses, any port.
	from := func(random *rand.Rand, message []byte) []byte {
		source := outsiderAddr.As4()
		source[3] = byte(4 + random.IntN(250)) // none that is on the link: replies go through a router
		return lab.UDPTo(netip.AddrPortFrom(netip.AddrFrom4(source), uint16(1024+random.IntN(60000))), e.at, message)
	}
	outsider := func(name string, rate int, counted []string, message func(random *rand.Rand, n uint8) []byte) attack {
		return attack{
			threat: "T8", name: name, rate: rate, counted: counted,
			floods: func(t *testing.T, n uint8) []shots {
				random := rand.New(rand.NewPCG(8, uint64(n)))
				return []shots{{fromAnywhere(t, h.attackers.outsider, h.attackers.at.Addr()), pool(4096, func(int) []byte { return from(random, message(random, n)) })}}
			},
		}
	}
	garbage := func(random *rand.Rand, n uint8) []byte {
		return append(marked(n, 10), randomBytes(random, random.IntN(1300))...)
	}
	shaped := func(kind byte, size int) func(random *rand.Rand, n uint8) []byte {
		return func(random *rand.Rand, n uint8) []byte {
			b := randomBytes(random, size)
			copy(b, []byte{kind, 0, 0, 0})
			copy(b[16:], marked(n, 0))
			return b
		}
	}
	initiation := func(random *rand.Rand, n uint8) []byte {
		return handshakeInitiation(e.gatewayKey, randomBytes(random, 148))
	}
	unknown := []string{"a/wireguard/unknown_link"}
	tooMany := []string{"a/wireguard/initiation_rate"}
	flooded := outsider("initiations with a valid first MAC, each of which would cost the gateway a key agreement", 10000, tooMany, initiation)
	flooded.meanwhile = func(t *testing.T) string { return h.sessionUnderFlood(t) }
	return []attack{
		outsider("garbage to the WireGuard port", 20000, unknown, garbage),
		outsider("garbage to the WireGuard port, more than the CPU can process", 150000, unknown, garbage),
		outsider("initiations with a wrong first MAC", 20000, unknown, shaped(1, 148)),
		outsider("responses, cookies and data for sessions that do not exist", 20000, unknown, func(random *rand.Rand, n uint8) []byte {
			kind := byte(2 + random.IntN(3))
			return shaped(kind, [5]int{2: 92, 3: 64, 4: 200}[kind])(random, n)
		}),
		flooded,
		{
			threat: "T8", name: "one genuine initiation, replayed continuously", rate: 10000, counted: tooMany,
			floods: func(t *testing.T, n uint8) []shots {
				recorded := h.record(t, "wan2", outsiderAddr, 1, 1, func() { h.newSession(t) })
				random := rand.New(rand.NewPCG(9, uint64(n)))
				return []shots{{fromAnywhere(t, h.attackers.outsider, h.attackers.at.Addr()), pool(1024, func(int) []byte { return from(random, recorded[0]) })}}
			},
		},
		{
			threat: "T9", name: "replayed datagrams of the running transfer from their sender's address and others", rate: 10000,
			floods: func(t *testing.T, n uint8) []shots {
				const datagrams = 20
				recorded := h.record(t, "wan", h.top.B.WAN4, 4, 1500, func() { h.sendValidToA(t, n, datagrams) })
				random := rand.New(rand.NewPCG(9, uint64(n)))
				return []shots{{fromAnywhere(t, h.attackers.outsider, h.attackers.at.Addr()), func(i int) []byte {
					message := recorded[i%len(recorded)]
					if i%2 == 0 {
						return from(random, message)
					}
					return lab.UDPTo(netip.AddrPortFrom(h.top.B.WAN4, lab.WireGuardPort), e.at, message)
				}}}
			},
			exactly: 2 * 20, why: "each of the 20 recorded datagrams once, between gateway and node, and at the pod; no replay",
		},
		{
			threat: "T9", name: "forged data for the running session, sealed without its key", rate: 20000,
			floods: func(t *testing.T, n uint8) []shots {
				recorded := h.record(t, "wan", h.top.B.WAN4, 4, 1, func() {})
				random := rand.New(rand.NewPCG(9, uint64(n)))
				return []shots{{fromAnywhere(t, h.attackers.outsider, h.attackers.at.Addr()), pool(1024, func(int) []byte {
					message := randomBytes(random, 32+random.IntN(1300))
					copy(message, recorded[0][:16]) // type, receiver, counter
					binary.LittleEndian.PutUint64(message[8:], binary.LittleEndian.Uint64(message[8:])+uint64(random.IntN(1<<20)))
					return lab.UDPTo(netip.AddrPortFrom(h.top.B.WAN4, lab.WireGuardPort), e.at, message)
				})}}
			},
		},
	}
}

// record returns the first WireGuard messages of a type that arrive at gateway A from an
// address while cause runs.
func (h *hostile) record(t *testing.T, dev string, from netip.Addr, kind byte, count int, cause func()) (messages [][]byte) {
	t.Helper()
	var fd int
	err := h.top.A.GW.In(func() (err error) {
		fd, err = openFiltered(dev, []unix.SockFilter{{Code: bpfReturn, K: everything}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	cause()
	frame := make([]byte, 1<<16)
	wait.Until(t, fmt.Sprintf("%d messages of type %d have arrived on %s", count, kind, dev), func() bool {
		n, err := unix.Read(fd, frame)
		if p, ok := lab.IPOf(frame[:max(n, 0)]); err == nil && ok && p.Proto == lab.ProtoUDP && p.Src == from && len(p.Payload) > 8+16 && p.Payload[8] == kind {
			messages = append(messages, bytes.Clone(p.Payload[8:p.Total-20]))
		}
		return len(messages) == count
	})
	return messages
}

// sendValidToA sends marked datagrams from pod B to pod A and waits until all have arrived.
func (h *hostile) sendValidToA(t *testing.T, n uint8, count int) {
	t.Helper()
	a, b := h.top.A, h.top.B
	a.Pod.ListenUDP(t, netip.AddrPortFrom(a.Pod4, uint16(2000+int(n)))) // otherwise its kernel answers with errors that quote them
	c := b.Pod.Dial(t, "udp", netip.AddrPortFrom(b.Sees(a.Pod4), uint16(2000+int(n))))
	for range count {
		if _, err := c.Write(marked(n, 64)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	lab.Eventually(t, "the valid datagrams arrive", func() bool {
		seen, _ := h.watch.count(n, "")
		return seen >= 2*count
	})
}

// newSession makes the peer drop its session and establish another, and fails the test if
// it cannot.
func (h *hostile) newSession(t *testing.T) {
	t.Helper()
	h.restartPeer(t).handshake(t, h.fromPeer(nil))
}

// sessionUnderFlood tries the same for as long as an operator might wait, and returns the
// result.
func (h *hostile) sessionUnderFlood(t *testing.T) string {
	t.Helper()
	limit := 10 * attackWindow // a busy gateway sends a cookie first: the second attempt is 5 s after the first
	peer, started := h.restartPeer(t), time.Now()
	for ; time.Since(started) < limit; time.Sleep(lab.Pause) {
		peer.send(h.fromPeer(nil))
		if peer.shookHands(t) {
			return fmt.Sprintf("meanwhile a peer with a valid key completed a handshake within %.1f s", time.Since(started).Seconds())
		}
	}
	return fmt.Sprintf("meanwhile a peer with a valid key had no handshake within %v", limit)
}

func (h *hostile) restartPeer(t *testing.T) *wireGuardPeer {
	t.Helper()
	e := &h.attackers
	e.peer.close()
	e.peer = newWireGuardPeer(h.t, e.outsider, e.key, e.gatewayKey, e.at)
	return e.peer
}

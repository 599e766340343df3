//go:build nightly

package scale

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
)

// The configuration of the far gateway's node, and the CIDRs to which its cluster maps the
// near one's pods.
var (
	farInternal      = netip.MustParseAddr("10.200.0.1")
	farNodeInternal  = netip.MustParseAddr("10.200.0.11")
	farPod           = netip.MustParseAddr("10.0.1.5")
	podRangeSeen     = netip.MustParsePrefix("10.96.0.0/11")
	outsideRangeSeen = netip.MustParsePrefix("10.128.0.0/16")
)

const (
	farVNI     = 101
	geneveUDP  = 6091
	probeEvery = 5 * time.Millisecond
	probePort  = 9999 // UDP, of the pods

	// A pod counts as never reached after giveUp, and as gone if nothing has arrived for
	// quiet: many times the latency of a packet.
	giveUp = 10 * time.Second
	quiet  = 500 * time.Millisecond
)

// prober sends packets from a pod of the far cluster to pods of the near one, and records
// at which node's address they arrive. Safe for concurrent use.
type prober struct {
	clock measure.Clock
	node  *net.UDPConn // of the far cluster, to its gateway
	nodes *net.UDPConn // all of the near cluster

	mu      sync.Mutex
	targets map[netip.Addr]*target // by address of the pod
	strays  int                    // packets that arrived at a node without the pod
}

// target is a probed pod. Times are of the prober's clock.
type target struct {
	node              netip.Addr
	arrived           bool
	first, last, sent time.Duration // when the first and the last one arrived, and when the last was sent
}

func newProber(t *testing.T, w *world) *prober {
	t.Helper()
	p := &prober{clock: measure.NewClock(), targets: make(map[netip.Addr]*target)}
	must(t, w.fabric.In(func() (err error) {
		if p.nodes, err = net.ListenUDP("udp4", &net.UDPAddr{Port: geneveUDP}); err != nil {
			return err
		}
		p.node, err = net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(farNode)}, &net.UDPAddr{IP: net.ParseIP(farGateway), Port: geneveUDP})
		return err
	}))
	t.Cleanup(func() { _, _ = p.node.Close(), p.nodes.Close() })
	raw, err := p.nodes.SyscallConn()
	must(t, err)
	var refused error
	must(t, raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1) }))
	must(t, refused)
	go p.receive()
	return p
}

// receive records arriving packets until the test ends.
func (p *prober) receive() {
	frame, control := make([]byte, 2048), make([]byte, 128)
	for {
		n, controlLen, _, _, err := p.nodes.ReadMsgUDPAddrPort(frame, control)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error about an earlier packet
		}
		now := p.clock.Now()
		if pod, sent, ok := decapsulate(frame[:n]); ok {
			p.note(pod, destination(control[:controlLen]), sent, now)
		}
	}
}

func (p *prober) note(pod, node netip.Addr, sent, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to, ok := p.targets[pod]
	switch {
	case !ok: // the pod is no longer probed
		return
	case to.node != node:
		p.strays++
		return
	case !to.arrived:
		to.first = now
	}
	to.arrived, to.last, to.sent = true, now, max(to.sent, sent)
}

// await sends to a pod until a packet arrives at its node, and returns the time since the
// given moment: 0 if one arrived earlier.
func (p *prober) await(pod onePod, since time.Duration) (took time.Duration, err error) {
	err = p.probe(pod, func(to target, now time.Duration) (bool, error) {
		took = max(to.first-since, 0)
		if !to.arrived && now-since > giveUp {
			return true, fmt.Errorf("%s on %s is unreachable after %v", pod.name, nodeName(pod.node), giveUp)
		}
		return to.arrived, nil
	})
	return took, err
}

// awaitGone sends to a pod until nothing arrives any more, and returns the time from the
// given moment until the last arriving packet was sent: 0 if all were sent earlier.
func (p *prober) awaitGone(pod onePod, since time.Duration) (took time.Duration, err error) {
	err = p.probe(pod, func(to target, now time.Duration) (bool, error) {
		if to.arrived {
			took = max(to.sent-since, 0)
		}
		if now-since > giveUp+quiet {
			return true, fmt.Errorf("%s on %s is still reachable after %v", pod.name, nodeName(pod.node), giveUp)
		}
		return now-max(to.last, since) > quiet, nil
	})
	return took, err
}

// probe sends to a pod repeatedly until done.
func (p *prober) probe(pod onePod, done func(to target, now time.Duration) (bool, error)) error {
	to := &target{node: nodeAddress(pod.node)}
	p.mu.Lock()
	p.targets[pod.address] = to
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.targets, pod.address)
		p.mu.Unlock()
	}()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		if _, err := p.node.Write(p.frame(pod.address)); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
			return err
		}
		<-tick.C
		p.mu.Lock()
		is := *to
		p.mu.Unlock()
		if done, err := done(is, p.clock.Now()); done || err != nil {
			return err
		}
	}
}

// strayed returns the number of packets that arrived at a wrong node.
func (p *prober) strayed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.strays
}

const (
	udpHeaderLen = 8
	payloadLen   = 8 // the send time, in nanoseconds of the clock
	innerLen     = packet.IPv4HeaderLen + udpHeaderLen + payloadLen
)

// frame returns a packet to a pod, as the far node's kernel sends it to its gateway.
func (p *prober) frame(pod netip.Addr) []byte {
	b := make([]byte, geneve.HeaderLen+packet.EthernetHeaderLen+innerLen)
	geneve.Put(b, farVNI)
	ethernet := b[geneve.HeaderLen:]
	packet.PutEthernet(ethernet, packet.MACOf(farInternal), packet.MACOf(farNodeInternal), packet.EtherTypeIPv4)
	ip := ethernet[packet.EthernetHeaderLen:]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], innerLen)
	from, to := farPod.As4(), seen(pod).As4()
	copy(ip[12:], from[:])
	copy(ip[16:], to[:])
	binary.BigEndian.PutUint16(ip[10:], ^packet.Sum(ip[:packet.IPv4HeaderLen], 0))
	udp := ip[packet.IPv4HeaderLen:] // without a checksum, as IPv4 allows
	binary.BigEndian.PutUint16(udp, probePort)
	binary.BigEndian.PutUint16(udp[2:], probePort)
	binary.BigEndian.PutUint16(udp[4:], udpHeaderLen+payloadLen)
	binary.BigEndian.PutUint64(udp[udpHeaderLen:], uint64(p.clock.Now()))
	return b
}

// decapsulate returns the destination pod and the send time of a probe. ok is false for other
// frames.
func decapsulate(frame []byte) (pod netip.Addr, sent time.Duration, ok bool) {
	_, _, inner, fault := geneve.Decode(frame)
	if fault != geneve.FaultNone {
		return pod, 0, false
	}
	_, _, etherType, ip, ok := packet.ParseEthernet(inner)
	if !ok || etherType != packet.EtherTypeIPv4 || len(ip) < innerLen || ip[9] != unix.IPPROTO_UDP {
		return pod, 0, false
	}
	udp := ip[packet.IPv4HeaderLen:]
	return netip.AddrFrom4([4]byte(ip[16:20])), time.Duration(binary.BigEndian.Uint64(udp[udpHeaderLen:])),
		binary.BigEndian.Uint16(udp[2:]) == probePort
}

// destination returns the destination address of a datagram, from IP_PKTINFO.
func destination(control []byte) netip.Addr {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return netip.Addr{}
	}
	for _, m := range messages {
		if m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo {
			return netip.AddrFrom4([4]byte(m.Data[8:12]))
		}
	}
	return netip.Addr{}
}

// seen returns the address to which the far cluster maps a pod.
func seen(pod netip.Addr) netip.Addr {
	from, to := podRange, podRangeSeen
	if outsideRange.Contains(pod) {
		from, to = outsideRange, outsideRangeSeen
	}
	base, is := from.Addr().As4(), pod.As4()
	offset := int(binary.BigEndian.Uint32(is[:]) - binary.BigEndian.Uint32(base[:]))
	return after(to.Addr(), offset)
}

package tun

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/vxlan"
)

// trip panics at a stage of every journey of a packet with this in it: a tap stands where a
// fault of ours would be.
func trip(at gateway.Stage, text string) gateway.Tap {
	return func(s gateway.Stage, ip []byte) {
		if s == at && bytes.Contains(ip, []byte(text)) {
			panic("tripped")
		}
	}
}

const secret = "SECRET payload"

func TestF21_APanicOnTheWayOutLosesOnePacket(t *testing.T) {
	t.Parallel()
	for _, at := range []gateway.Stage{gateway.FromNode, gateway.IntoTunnel} {
		f := newFixture(t)
		var log bytes.Buffer
		f.device.overlay.panics.log = slog.New(slog.NewTextHandler(&log, nil))
		f.device.gateway.SetTap(trip(at, secret))
		const good = 6
		for i := range good {
			f.fromNode(t, tcpPacket(pod, remotePod, fmt.Appendf(nil, "good %d", i), false))
			if i%2 == 0 { // also first and one behind the other
				f.fromNode(t, tcpPacket(pod, remotePod, []byte(secret), false))
				f.fromNode(t, tcpPacket(pod, remotePod, []byte(secret), false))
			}
		}
		bufs, sizes := buffers(32)
		for got := 0; got < good; {
			n, err := f.device.Read(bufs, sizes, readOffset)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if b := bufs[i][readOffset:][:sizes[i]]; !bytes.HasSuffix(b, fmt.Appendf(nil, "good %d", got)) {
					t.Errorf("%v: packet %d is %q", at, got, b[40:])
				}
				got++
			}
		}
		checkContained(t, &f.device.Egress.Counters, good, good, log.String())
	}
}

func TestF21_APanicOnTheWayInLosesOnePacket(t *testing.T) {
	t.Parallel()
	for _, at := range []gateway.Stage{gateway.FromTunnel, gateway.IntoNode} {
		f := newFixture(t)
		var log bytes.Buffer
		f.device.overlay.panics.log = slog.New(slog.NewTextHandler(&log, nil))
		f.device.gateway.SetTap(trip(at, secret))
		remote := netip.MustParseAddr("10.0.2.9")
		const good = 5
		bad := tcpPacket(remote, pod, []byte(secret), false)
		in := [][]byte{bad}
		for i := range good {
			in = append(in, tcpPacket(remote, pod, fmt.Appendf(nil, "good %d", i), false), bytes.Clone(bad))
		}
		if n, err := f.device.Write(tunnelBufs(in...), readOffset); n != len(in) || err != nil {
			t.Fatalf("Write took %d, %v", n, err)
		}
		for i := range good {
			if b := f.toNode(t); !bytes.HasSuffix(b, fmt.Appendf(nil, "good %d", i)) {
				t.Errorf("%v: packet %d is %q", at, i, b[40:])
			}
		}
		checkContained(t, &f.device.Ingress.Counters, good+1, good, log.String())
	}
}

// checkContained wants so many packets counted as panics, others forwarded, and one line
// with headers and no payload.
func checkContained(t *testing.T, c *gateway.Counters, panics, forwarded uint64, log string) {
	t.Helper()
	if n := c.Dropped(gateway.Panic); n != panics {
		t.Errorf("%d counted as %q, want %d", n, gateway.Panic, panics)
	}
	if n, _ := c.Forwarded(); n != forwarded {
		t.Errorf("%d forwarded, want %d", n, forwarded)
	}
	for r := range gateway.Reasons {
		if n := c.Dropped(r); n != 0 && r != gateway.Panic {
			t.Errorf("%d counted as %q", n, r)
		}
	}
	if strings.Count(log, "\n") != 1 || !strings.Contains(log, "tripped") || !strings.Contains(log, "headers=45") {
		t.Errorf("logged %q", log)
	}
	if strings.Contains(log, "SECRET") || strings.Contains(log, hex.EncodeToString([]byte("SECRET"))) {
		t.Errorf("payload is in the log: %q", log)
	}
}

// A super-packet's pieces are made long after its journey.
func TestF21_APanicForgetsThePiecesInHand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fromNode(t, tcpPacket(pod, remotePod, make([]byte, 60000), true))
	bufs, sizes := buffers(4)
	if n, err := f.device.Read(bufs, sizes, readOffset); n != 4 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	bufs[2] = nil // no room for an offset: the next Read panics while it makes pieces
	if n, err := f.device.Read(bufs, sizes, readOffset); n != 2 || err != nil {
		t.Errorf("read %d, %v, want the two pieces before the fault", n, err)
	}
	if n := f.device.Egress.Dropped(gateway.Panic); n != 1 || f.device.overlay.incoming.pieces.Left() {
		t.Errorf("%d panics counted, pieces %v", n, f.device.overlay.incoming.pieces)
	}
	f.fromNode(t, tcpPacket(pod, remotePod, []byte("behind it"), false))
	if n, err := f.device.Read(bufs, sizes, readOffset); n != 1 || err != nil || !bytes.HasSuffix(bufs[0][:readOffset+sizes[0]], []byte("behind it")) {
		t.Errorf("then read %d, %v", n, err)
	}
}

func TestF21_OnePanicAMinuteIsWrittenDown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := panics{log: slog.New(slog.NewTextHandler(&log, nil))}
	start := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		after time.Duration
		lines int
	}{{0, 1}, {0, 1}, {panicQuiet - 1, 1}, {panicQuiet, 2}, {panicQuiet + 1, 2}, {2 * panicQuiet, 3}} {
		p.report(start.Add(c.after), "fault", nil)
		if n := strings.Count(log.String(), "\n"); n != c.lines {
			t.Errorf("after %v: %d lines, want %d", c.after, n, c.lines)
		}
	}
	new(panics).report(start, "no log", nil)
}

func TestF21_NoPayloadIsWrittenDown(t *testing.T) {
	t.Parallel()
	payload := bytes.Repeat([]byte{0xee}, 200)
	remote := netip.MustParseAddr("10.0.2.9")
	tcp := tcpPacket(remote, pod, payload, false)
	options := bytes.Clone(tcp)
	options[packet.IPv4HeaderLen+12] = 15 << 4 // 60 bytes of TCP header, by its own word
	lying := bytes.Clone(tcp)
	lying[packet.IPv4HeaderLen+12] = 1 << 4
	damaged := bytes.Clone(tcp)
	damaged[10]++
	later := bytes.Clone(tcp)
	later[6], later[7] = 0, 100
	later = withTOS(later, 0)
	six := append([]byte{0x60, 0, 0, 0, 0, 208, packet.ProtoUDP, 64, 15: 1, 39: 2}, append(make([]byte, 8), payload...)...)
	for _, c := range []struct {
		name string
		b    []byte
		want int
	}{
		{"TCP", tcp, 40},
		{"TCP with options", options, maxLogged},
		{"TCP that lies about its header", lying, 40},
		{"ICMP", ipv4Packet(remote, pod, packet.ProtoICMP, append(make([]byte, 8), payload...)), 28},
		{"UDP cut short", ipv4Packet(remote, pod, packet.ProtoUDP, make([]byte, 5)), 25},
		{"a protocol unknown here", ipv4Packet(remote, pod, 253, payload), 20},
		{"a later fragment", later, 20},
		{"a wrong IP checksum", damaged, 20},
		{"IPv6", six, 48},
		{"IPv6 cut short", six[:60], 40},
		{"no IP at all", payload, 0},
		{"four bytes", []byte{0x45, 1, 2, 3}, 4},
		{"nothing", nil, 0},
	} {
		if h := headers(c.b); len(h) != c.want || !bytes.HasPrefix(c.b, h) {
			t.Errorf("%s: %d bytes, want %d: % x", c.name, len(h), c.want, h)
		}
	}
}

func TestF21_TheHeadersOfAFramesPacketAreFound(t *testing.T) {
	t.Parallel()
	ip := tcpPacket(pod, remotePod, nil, false)
	f := new(fixture)
	frame := f.frame(ip)
	wrapped := bytes.Clone(frame)
	vxlan.Put(wrapped, 101)
	for _, c := range []struct {
		b    []byte
		e    gateway.Encapsulation
		want []byte
	}{
		{frame, gateway.Geneve, ip}, {wrapped, gateway.VXLAN, ip},
		{frame[:geneve.HeaderLen+3], gateway.Geneve, nil}, {nil, gateway.Geneve, nil}, {nil, gateway.VXLAN, nil},
	} {
		if got := inner(c.b, c.e); !bytes.Equal(got, c.want) {
			t.Errorf("%d bytes of encapsulation %d: % x", len(c.b), c.e, got)
		}
	}
}

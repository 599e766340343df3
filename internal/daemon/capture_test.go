package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/internal/capture"
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
)

// fromNode is a ping of 10.0.1.5 to an address, as node-1 of the bench sends it.
func fromNode(to string) []byte {
	ip := make([]byte, packet.IPv4HeaderLen+packet.ICMPHeaderLen)
	copy(ip, []byte{0x45, 0, 0, byte(len(ip)), 0, 0, 0, 0, 64, packet.ProtoICMP, 0, 0, 10, 0, 1, 5})
	copy(ip[16:], netip.MustParseAddr(to).AsSlice())
	binary.BigEndian.PutUint16(ip[10:], ^packet.Sum(ip[:packet.IPv4HeaderLen], 0))
	ip[20] = 8 // echo
	binary.BigEndian.PutUint16(ip[22:], ^packet.Sum(ip[packet.IPv4HeaderLen:], 0))
	b := make([]byte, gateway.EncapLen, gateway.EncapLen+len(ip))
	geneve.Put(b, 101)
	packet.PutEthernet(b[geneve.HeaderLen:], packet.MACOf(netip.MustParseAddr("10.80.0.1")), packet.MACOf(netip.MustParseAddr("10.80.0.11")), packet.EtherTypeIPv4)
	return append(b, ip...)
}

// node is the socket of node-1, and sends to the gateway.
func (b *bench) node(t *testing.T) *net.UDPConn {
	t.Helper()
	text, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	to := netip.MustParseAddrPort(regexp.MustCompile(`listen: "(127[^"]*)"`).FindStringSubmatch(string(text))[1])
	c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// capture begins one in the gateway of a bench, and gives what ends it.
func (b *bench) capture(t *testing.T, r localsocket.CaptureRequest) (*capture.Reader, func()) {
	t.Helper()
	until, end := io.Pipe()
	file, err := localsocket.Capture(t.Context(), b.socket, r, until)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end.Close(); file.Close() })
	return capture.NewReader(file), func() { end.Close() }
}

// next waits for a packet; nil is the end of the file.
func next(t *testing.T, r *capture.Reader) *capture.Packet {
	t.Helper()
	for {
		_, p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if p != nil {
			return p
		}
	}
}

func TestACaptureRecordsPacketsAndEndsOnRequest(t *testing.T) {
	b := newBench(t)
	b.socket = socketPath(t)
	b.start(t)
	node := b.node(t)
	began := time.Now()
	file, end := b.capture(t, localsocket.CaptureRequest{Stages: []string{"overlay", "inner"}})
	frame := fromNode("10.71.2.9")
	seen := map[string]capture.Packet{}
	for len(seen) < 2 {
		if _, err := node.Write(frame); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			p := next(t, file)
			p.Data = bytes.Clone(p.Data)
			seen[p.Interface] = *p
		}
	}
	outer, inner := seen["overlay-from-node"], seen["inner-from-node"]
	if !bytes.Equal(inner.Data, frame[gateway.EncapLen:]) {
		t.Errorf("inner: % x, want % x", inner.Data, frame[gateway.EncapLen:])
	}
	var ip packet.IP
	if packet.Parse(outer.Data, &ip) != packet.FaultNone || ip.Src.String() != "127.0.0.2" || ip.Dst.String() != "127.0.0.1" || !bytes.HasSuffix(outer.Data, frame) {
		t.Errorf("overlay: %v to %v, % x", ip.Src, ip.Dst, outer.Data)
	}
	if at := binary.BigEndian.Uint16(outer.Data[packet.IPv4HeaderLen:]); int(at) != node.LocalAddr().(*net.UDPAddr).Port {
		t.Errorf("overlay: from port %d, not %v", at, node.LocalAddr())
	}
	if now := time.Now(); inner.Time.Before(began) || inner.Time.After(now) {
		t.Errorf("seen at %v, not between %v and %v", inner.Time, began, now)
	}
	end()
	for next(t, file) != nil {
	}
	if total := file.Total(); total.Received < 2 || total.Lost != 0 {
		t.Errorf("%+v", total)
	}
	if capturing.Load() != 0 {
		t.Error("the gateway thinks that it goes on")
	}
}

func TestACaptureEndsWithItsLastPacket(t *testing.T) {
	b := newBench(t)
	b.socket = socketPath(t)
	b.start(t)
	node := b.node(t)
	file, _ := b.capture(t, localsocket.CaptureRequest{Stages: []string{"inner"}, Filter: "icmp and dst host 10.71.2.9", Packets: 2, Snap: 24})
	for _, to := range []string{"10.71.2.8", "10.71.2.9", "10.71.2.8", "10.71.2.9", "10.71.2.9"} {
		if _, err := node.Write(fromNode(to)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		p := next(t, file)
		if len(p.Data) != 24 || p.Original != 28 || p.Data[19] != 9 {
			t.Errorf("% x of %d bytes", p.Data, p.Original)
		}
	}
	if p := next(t, file); p != nil {
		t.Errorf("another: %+v", p)
	}
}

func TestAGatewayThatEndsEndsItsCaptures(t *testing.T) {
	b := newBench(t)
	b.socket = socketPath(t)
	var file *capture.Reader
	until, end := io.Pipe()
	defer end.Close()
	t.Run("runs", func(t *testing.T) {
		b.start(t)
		stream, err := localsocket.Capture(context.Background(), b.socket, localsocket.CaptureRequest{Stages: []string{"inner"}}, until)
		if err != nil {
			t.Fatal(err)
		}
		file = capture.NewReader(stream)
	})
	if p := next(t, file); p != nil {
		t.Errorf("%+v", p)
	}
}

func TestACaptureWithoutAReaderEnds(t *testing.T) {
	b := newBench(t)
	b.socket = socketPath(t)
	b.start(t)
	until, end := io.Pipe()
	defer end.Close()
	file, err := localsocket.Capture(t.Context(), b.socket, localsocket.CaptureRequest{Stages: []string{"inner"}}, until)
	if err != nil {
		t.Fatal(err)
	}
	b.waitForLog(t, `msg="capture started"`, 1)
	if n := capturing.Load(); n != 1 {
		t.Errorf("%d captures are counted, want 1", n)
	}
	file.Close()
	b.waitFor(t, "no capture is counted", func() bool { return capturing.Load() == 0 })
}

func TestAFaultyCaptureIsRefusedWithTheReason(t *testing.T) {
	b := newBench(t)
	b.socket = socketPath(t)
	b.start(t)
	for says, r := range map[string]localsocket.CaptureRequest{
		`filter: at character 1: "prot"`:             {Stages: []string{"inner"}, Filter: "prot 80"},
		`unknown stage "outer"; choose from inner, `: {Stages: []string{"inner", "outer"}},
		`no stage given; choose from inner, `:        {},
	} {
		if _, err := localsocket.Capture(t.Context(), b.socket, r, strings.NewReader("")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for range maxCaptures {
		b.capture(t, localsocket.CaptureRequest{Stages: []string{"tunnel"}})
	}
	_, err := localsocket.Capture(t.Context(), b.socket, localsocket.CaptureRequest{Stages: []string{"inner"}}, strings.NewReader(""))
	if err == nil || !strings.Contains(err.Error(), "captures are running already; end one of them") {
		t.Errorf("one too many: %v", err)
	}
}

func TestEveryPlaceIsASightOfSomeStage(t *testing.T) {
	found := make(map[gateway.Stage]bool)
	for _, s := range sights {
		found[s.at] = true
		if !slices.Contains(localsocket.CaptureStages, s.stage) {
			t.Errorf("%s: no such stage", s.stage)
		}
	}
	if len(found) != len(sights) || len(sights) != 2*len(localsocket.CaptureStages) {
		t.Errorf("%d places, %d sights, %d stages", len(found), len(sights), len(localsocket.CaptureStages))
	}
}

func TestTappedPacketsAreRecordedWithoutAllocating(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	b := newBench(t)
	c, err := Load(b.path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Start(c, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	filter, err := capture.ParseFilter("host 10.0.1.5 or udp")
	if err != nil {
		t.Fatal(err)
	}
	at, err := sightsOf(localsocket.CaptureRequest{Stages: localsocket.CaptureStages})
	if err != nil {
		t.Fatal(err)
	}
	interfaces, places := make([]capture.Interface, len(at)), make([]gateway.Stage, len(at))
	for i, s := range at {
		interfaces[i], places[i] = s.Interface, s.at
	}
	recorder := capture.NewRecorder(interfaces, filter, 0, 0)
	tap := d.tapInto(recorder, places)
	frame := fromNode("10.71.2.9")
	any4, node := netip.MustParseAddrPort("0.0.0.0:6091"), netip.MustParseAddrPort("127.0.0.2:6091")
	if n := testing.AllocsPerRun(1000, func() {
		for _, place := range places {
			tap(place, any4, node, nil, frame)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a packet at %d places", n, len(places))
	}
	// The kernel's choice stands for an address that the socket does not have.
	var file []byte
	for more := true; more; {
		file, more = recorder.Append(file)
	}
	reader := capture.NewReader(bytes.NewReader(append(recorder.AppendBeginning(nil), file...)))
	p := next(t, reader)
	var ip packet.IP
	if packet.Parse(p.Data, &ip) != packet.FaultNone || p.Interface != "overlay-from-node" || !ip.Dst.IsLoopback() {
		t.Errorf("%s: %v to %v", p.Interface, ip.Src, ip.Dst)
	}
}

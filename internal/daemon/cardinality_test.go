package daemon

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"strait.dev/strait/gateway"
)

// Regardless of received packets, the metrics have only the series of the configuration: labels hold its names, and
// reasons, and nothing out of packets.
func TestT13_UnknownSendersAddNoMetricSeries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t)
	before := b.series()
	random := rand.NewChaCha8([32]byte{})
	for _, port := range b.ports(t) {
		for range 50 { // sources
			c, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				datagram := make([]byte, 148) // a handshake initiation's length
				_, _ = random.Read(datagram)  // never fails
				copy(datagram, []byte{1, 0, 0, 0})
				_, _ = c.Write(datagram)
			}
			_ = c.Close()
		}
	}
	b.waitFor(t, "the datagrams are counted", func() bool {
		return dropped.MatchString(b.get("/metrics"))
	})
	after := b.series()
	for series := range after {
		if !before[series] {
			t.Errorf("there is a new series: %s", series)
		}
	}
	if len(before) == 0 || len(before) > 400 {
		t.Errorf("%d series for one peer: %s", len(before), slices.Sorted(maps.Keys(before)))
	}
}

// dropped is a counter of dropped packets that is not zero.
var dropped = regexp.MustCompile(`(?m)^strait_dropped_packets_total\{direction="egress".* [1-9]`)

// series are the names and labels that the gateway serves of itself.
func (b *bench) series() map[string]bool {
	all := make(map[string]bool)
	for line := range strings.Lines(b.get("/metrics")) {
		if series, _, ok := strings.Cut(line, " "); ok && strings.HasPrefix(series, "strait_") {
			all[series] = true
		}
	}
	return all
}

// ports are those of overlay and WireGuard.
func (b *bench) ports(t *testing.T) []int {
	t.Helper()
	c, err := Load(b.path)
	if err != nil {
		t.Fatal(err)
	}
	return []int{int(c.Overlay.Listen.Port), int(c.WireGuard.ListenPort)}
}

// The remote cluster names its gateways, and may rename them for ever.
func TestT13_SeriesOfALinkEndWithIt(t *testing.T) {
	t.Parallel()
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
	collected := func() map[string]bool {
		registry := prometheus.NewRegistry()
		registry.MustRegister(d)
		all, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		names := make(map[string]bool)
		for _, family := range all {
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "peer" {
						names[family.GetName()+" "+l.GetValue()] = true
					}
				}
			}
		}
		return names
	}
	d.rtt.observe("b-0", time.Millisecond)
	want := len(collected())
	for i := range 20 {
		was, next := c.WireGuard.Peers[0].Name, *c
		next.WireGuard.Peers = slices.Clone(c.WireGuard.Peers)
		next.WireGuard.Peers[0].Name = fmt.Sprintf("renamed-%d", i)
		if c = &next; d.Apply(c) != nil {
			t.Fatal("the new name is refused")
		}
		d.rtt.observe(was, time.Millisecond) // late
		d.rtt.observe(c.WireGuard.Peers[0].Name, time.Millisecond)
		if n := len(d.rtt.series); n > 2 {
			t.Fatalf("%d series of round-trip times before they are collected", n)
		}
	}
	for name := range collected() {
		if !strings.HasSuffix(name, " renamed-19") {
			t.Errorf("there is a series %s", name)
		}
	}
	if got := len(collected()); got != want {
		t.Errorf("%d series, had %d", got, want)
	}
}

func TestTotalsDoNotDecreaseWhenALinkEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.edit(t, "local:", fmt.Sprintf("  - {name: b-1, publicKey: %q}\nlocal:", publicKeyOf(10)))
	c, err := Load(b.path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Start(c, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	count := func(peer string, packets uint64) {
		for _, l := range d.fabric.Status() {
			if l.Name == peer {
				l.Egress.CountForwarded(packets, 0)
				l.Ingress.CountDropped(gateway.SourceNotGranted, packets)
			}
		}
	}
	check := func(when string, want float64) {
		t.Helper()
		if got := d.value(t, "strait_packets_total", "egress"); got != want {
			t.Errorf("%s: %v packets forwarded, want %v", when, got, want)
		}
		if got := d.value(t, "strait_dropped_packets_total", "ingress"); got != want {
			t.Errorf("%s: %v packets dropped, want %v", when, got, want)
		}
	}
	count("b-0", 1000)
	count("b-1", 100)
	check("with two links", 1100)
	next := *c
	next.WireGuard.Peers = c.WireGuard.Peers[:1]
	if err := d.Apply(&next); err != nil {
		t.Fatal(err)
	}
	check("one has ended", 1100)
	count("b-0", 1)
	check("the other counts", 1101)
	if err := d.Apply(c); err != nil {
		t.Fatal(err)
	}
	count("b-1", 10)
	check("it begins again", 1111)
}

// value is the sum of the metrics of a name with a direction.
func (d *Daemon) value(t *testing.T, name, direction string) (all float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(d)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if family.GetName() == name && l.GetValue() == direction {
					all += m.GetCounter().GetValue()
				}
			}
		}
	}
	return all
}

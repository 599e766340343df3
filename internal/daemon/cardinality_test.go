package daemon

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
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

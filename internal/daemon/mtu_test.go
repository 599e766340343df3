package daemon

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/test/logbuffer"
)

// Loopback addresses beyond 127.0.0.1 are on no interface's list: they count as
// an interface that cannot be told, of 1500 bytes.
func mtuConfig(listen, node, endpoint string) *config.Gateway {
	c := &config.Gateway{}
	c.Overlay.Listen = config.ListenAddress{Addr: netip.MustParseAddr(listen), Port: 6091}
	c.Overlay.Nodes = []config.Node{{Underlay: netip.MustParseAddr(node)}}
	c.WireGuard.Peers = []config.Peer{{Endpoint: endpoint}}
	return c
}

func TestMTUIsTheSmallestOfWhatEachLegCarries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config          *config.Gateway
		announced       int
		overlay, tunnel int
	}{
		"peer may turn out to be IPv6": {mtuConfig("127.0.0.2", "127.0.0.3", "gw-b.example:51840"), 0, 1500 - 50, 1500 - 80},
		"wait for the peer":            {mtuConfig("127.0.0.2", "127.0.0.3", ""), 0, 1450, 1420},
		"the remote carries less":      {mtuConfig("127.0.0.2", "127.0.0.3", ""), 1300, 1450, 1300},
		"the remote carries more":      {mtuConfig("127.0.0.2", "127.0.0.3", ""), 8900, 1450, 1420},
		"IPv6 to the nodes":            {mtuConfig("::2", "::3", ""), 0, 1500 - 70, 1420},
	} {
		m, err := deriveMTU(c.config, c.announced)
		if err != nil || m.Overlay != c.overlay || m.Tunnel != c.tunnel {
			t.Errorf("%s: %+v, %v; want %d and %d", name, m, err, c.overlay, c.tunnel)
		}
	}
}

func TestConfiguredMTUOverridesTheInterfaces(t *testing.T) {
	t.Parallel()
	c := mtuConfig("127.0.0.2", "127.0.0.3", "")
	c.Overlay.MTU = 1280
	if m, err := deriveMTU(c, 0); err != nil || m.Overlay != 1280 || m.Tunnel != 1280 {
		t.Errorf("%+v, %v", m, err)
	}
}

// The far ends of links say with each probe, 12.5 times a second, which MTU they carry.
func TestARemoteClusterThatKeepsChangingItsMTUDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	c, err := Load(newBench(t).path)
	if err != nil {
		t.Fatal(err)
	}
	var out logbuffer.Buffer
	d, err := Start(c, Options{Log: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range 10 * quietBurst {
		d.remoteMTU(1300 + i%2)
	}
	if n := strings.Count(out.String(), "inner MTU adapted"); n < quietBurst || n > 2*quietBurst {
		t.Errorf("%d lines about %d changes", n, 10*quietBurst)
	}
}

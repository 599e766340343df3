package lab

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/tuntest"
)

// wireGuardPeer is a WireGuard peer that sends whatever it is given: the reference implementation, in the
// test's own process, with sockets in a namespace.
type wireGuardPeer struct {
	device *device.Device
	tun    *tuntest.ChannelTUN
}

// newWireGuardPeer starts one that calls a gateway. Close it, or the end of the test does.
func newWireGuardPeer(t *testing.T, n *namespace, key keyPair, gateway []byte, at netip.AddrPort) *wireGuardPeer {
	t.Helper()
	p := &wireGuardPeer{tun: tuntest.NewChannelTUN()}
	settings := fmt.Sprintf("private_key=%s\npublic_key=%s\nendpoint=%s\nallowed_ip=0.0.0.0/0\nallowed_ip=::/0\n",
		hex.EncodeToString(key.private), hex.EncodeToString(gateway), at)
	p.device = device.NewDevice(p.tun.TUN(), bindIn{conn.NewStdNetBind(), n}, device.NewLogger(device.LogLevelSilent, ""))
	t.Cleanup(p.close)
	err := p.device.IpcSet(settings)
	if err == nil {
		err = p.device.Up()
	}
	if err != nil {
		t.Fatalf("WireGuard peer in %s: %v", n.role, err)
	}
	go func() { // nothing that it receives is of interest
		for {
			select {
			case <-p.tun.Inbound:
			case <-p.device.Wait():
				return
			}
		}
	}()
	return p
}

// bindIn opens its sockets in a namespace, whichever goroutine of WireGuard's asks for it.
type bindIn struct {
	conn.Bind
	n *namespace
}

func (b bindIn) Open(port uint16) (receive []conn.ReceiveFunc, actual uint16, err error) {
	err = b.n.in(func() (err error) {
		receive, actual, err = b.Bind.Open(port)
		return err
	})
	return receive, actual, err
}

func (p *wireGuardPeer) close() { p.device.Close() }

// send gives WireGuard a packet. It waits while WireGuard is busy, at most a second.
func (p *wireGuardPeer) send(b []byte) bool {
	select {
	case p.tun.Outbound <- b:
		return true
	case <-time.After(time.Second):
		return false
	}
}

// handshake sends packet until a session is there and returns how long that took.
func (p *wireGuardPeer) handshake(packet []byte, limit time.Duration) (time.Duration, error) {
	started := time.Now()
	for time.Since(started) < limit {
		p.send(packet)
		state, err := p.device.IpcGet()
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(state) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if name == "last_handshake_time_sec" && value != "0" {
				return time.Since(started), nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, fmt.Errorf("no handshake within %v", limit)
}

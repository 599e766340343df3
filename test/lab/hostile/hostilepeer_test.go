//go:build lab || nightly

package hostile

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/blake2s"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/tuntest"

	"strait.dev/strait/test/lab"
)

// wireGuardPeer is a WireGuard peer that sends any packet: the reference implementation, in
// the test's process, with sockets in a namespace.
type wireGuardPeer struct {
	device *device.Device
	tun    *tuntest.ChannelTUN
}

// newWireGuardPeer starts a peer that connects to a gateway. It is closed by close, or at
// the end of the test.
func newWireGuardPeer(t *testing.T, n *lab.Namespace, key lab.KeyPair, gateway []byte, at netip.AddrPort) *wireGuardPeer {
	t.Helper()
	p := &wireGuardPeer{tun: tuntest.NewChannelTUN()}
	settings := fmt.Sprintf("private_key=%s\npublic_key=%s\nendpoint=%s\nallowed_ip=0.0.0.0/0\nallowed_ip=::/0\n",
		hex.EncodeToString(key.Private), hex.EncodeToString(gateway), at)
	p.device = device.NewDevice(p.tun.TUN(), bindIn{conn.NewStdNetBind(), n}, device.NewLogger(device.LogLevelSilent, ""))
	t.Cleanup(p.close)
	err := p.device.IpcSet(settings)
	if err == nil {
		err = p.device.Up()
	}
	if err != nil {
		t.Fatalf("WireGuard peer in %s: %v", n.Role, err)
	}
	go func() { // received packets are not needed
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

// bindIn opens the peer's sockets in a namespace, from any goroutine of WireGuard.
type bindIn struct {
	conn.Bind
	n *lab.Namespace
}

func (b bindIn) Open(port uint16) (receive []conn.ReceiveFunc, actual uint16, err error) {
	err = b.n.In(func() (err error) {
		receive, actual, err = b.Bind.Open(port)
		return err
	})
	return receive, actual, err
}

func (p *wireGuardPeer) close() { p.device.Close() }

// send passes a packet to WireGuard. It waits while WireGuard is busy, up to a second.
func (p *wireGuardPeer) send(b []byte) bool {
	select {
	case p.tun.Outbound <- b:
		return true
	case <-time.After(time.Second):
		return false
	}
}

// handshake sends packet until a session is established.
func (p *wireGuardPeer) handshake(t *testing.T, packet []byte) {
	t.Helper()
	lab.Eventually(t, "a peer with a valid key has completed a handshake", func() bool {
		p.send(packet)
		return p.shookHands(t)
	})
}

// shookHands reports whether there is a session.
func (p *wireGuardPeer) shookHands(t *testing.T) bool {
	t.Helper()
	state, err := p.device.IpcGet()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(state) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name == "last_handshake_time_sec" && value != "0" {
			return true
		}
	}
	return false
}

// handshakeInitiation returns a message that is valid except for the key: with a first MAC,
// which every sender that knows the gateway's public key can compute (WireGuard white
// paper, section 5.4.4).
func handshakeInitiation(to []byte, random []byte) []byte {
	m := make([]byte, 148)
	copy(m, random)
	copy(m, []byte{1, 0, 0, 0})
	key := blake2s.Sum256(append([]byte("mac1----"), to...))
	mac, err := blake2s.New128(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	mac.Write(m[:116])
	copy(m[116:], mac.Sum(nil))
	clear(m[132:]) // no second MAC: there was no cookie
	return m
}

package tun

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/curve25519"
	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/gateway"
	"strait.dev/strait/underlay"
)

// wireguard is the WireGuard device of a link, and its only peer. Safe for concurrent use.
type wireguard struct {
	device *device.Device
	bind   underlay.Bind
	tun    *Device      // under it
	parent *slog.Logger // without the link's name

	mu       sync.Mutex               // held while the device is configured
	settings atomic.Pointer[settings] // the last; stored with mu held

	rejected atomic.Uint64 // handshake messages that WireGuard rejected
	replayed atomic.Bool   // WireGuard refused an initiation of the peer as replayed
}

// settings are those of a link, with its own logger. Immutable. Gateway is not empty.
type settings struct {
	LinkConfig
	log *slog.Logger
}

// keep stores settings of which the caller keeps nothing.
func (w *wireguard) keep(c LinkConfig) {
	c.Endpoints, c.Allowed = slices.Clone(c.Endpoints), slices.Clone(c.Allowed)
	c.Gateway = cmp.Or(c.Gateway, c.Name)
	w.settings.Store(&settings{c, w.parent.With("link", c.Name)})
}

func (w *wireguard) log() *slog.Logger { return w.settings.Load().log }

// start starts WireGuard on tun, which it closes on failure. refused is called when an initiation of the peer was
// refused as replayed.
func (w *wireguard) start(c LinkConfig, refused func()) error {
	w.keep(c)
	w.device = device.NewDevice(w.tun, w.bind, w.messages(refused))
	if err := w.device.IpcSet(deviceSettings(c)); err != nil {
		w.device.Close()
		return fmt.Errorf("link %s: configure WireGuard: %w", c.Name, err)
	}
	if err := w.device.Up(); err != nil {
		w.device.Close()
		return fmt.Errorf("link %s: listen for WireGuard on UDP port %d: %w; choose another wireguard.listenPort", c.Name, c.ListenPort, err)
	}
	return nil
}

// messages converts wireguard-go's messages to log records. They identify peers by a shortened public key and contain no
// secrets. Only verbose messages tell what WireGuard rejects; it drops replayed and forged data without a message.
func (w *wireguard) messages(refused func()) *device.Logger {
	return &device.Logger{
		Verbosef: func(format string, args ...any) {
			switch format {
			case "IPv4 packet with disallowed source address from %v", "IPv6 packet with disallowed source address from %v":
				w.tun.Ingress.CountDropped(gateway.SourceNotGranted, 1)
			case "Packet with invalid IP version from %v":
				w.tun.Ingress.CountDropped(gateway.IPVersion, 1)
			case "Received packet with invalid mac1", "Received invalid initiation message from %s", "Received invalid response message from %s":
				w.rejected.Add(1)
			case "%v - ConsumeMessageInitiation: handshake replay @ %v":
				w.replayed.Store(true)
				refused()
			}
			if log := w.log(); log.Enabled(context.Background(), slog.LevelDebug) {
				log.Debug("wireguard: " + fmt.Sprintf(format, args...))
			}
		},
		Errorf: func(format string, args ...any) { w.log().Warn("wireguard: " + fmt.Sprintf(format, args...)) },
	}
}

// deviceSettings returns the device configuration in the format of wireguard-go's UAPI. It
// contains the private key: never log it.
func deviceSettings(c LinkConfig) string {
	return fmt.Sprintf("private_key=%x\nlisten_port=%d\nreplace_peers=true\n", c.PrivateKey[:], c.ListenPort) + peerSettings(c)
}

// peerSettings returns the peer configuration with its AllowedIPs.
func peerSettings(c LinkConfig) string {
	far := linkAddress(c.PublicKey)
	return peerSecrets(c) + grants(append(slices.Clone(c.Allowed), netip.PrefixFrom(far, far.BitLen())), "")
}

// peerSecrets selects the peer and sets its preshared key.
func peerSecrets(c LinkConfig) string {
	return fmt.Sprintf("public_key=%x\npreshared_key=%x\n", c.PublicKey[:], c.PresharedKey[:])
}

// grants adds AllowedIPs to the selected peer, or removes them with sign "-".
func grants(prefixes []netip.Prefix, sign string) string {
	var b strings.Builder
	for _, p := range prefixes {
		fmt.Fprintf(&b, "allowed_ip=%s%v\n", sign, p)
	}
	return b.String()
}

// update applies changed settings of the peer. AllowedIPs that stay are never missing, not even briefly.
func (w *wireguard) update(c LinkConfig) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.settings.Load().Allowed
	if err := w.device.IpcSet(peerSecrets(c) + grants(without(c.Allowed, before), "") + grants(without(before, c.Allowed), "-")); err != nil {
		return fmt.Errorf("link %s: update peer: %w", c.Name, err)
	}
	w.keep(c)
	return nil
}

// contact sets the peer's address in WireGuard (invalid: unchanged) and starts keepalives.
// Keepalives wait for this: WireGuard sends a handshake initiation as soon as it has something
// to send, and if it has no address yet it retries only after 5 s.
func (w *wireguard) contact(at netip.AddrPort) {
	w.mu.Lock()
	c := w.settings.Load()
	set := fmt.Sprintf("public_key=%x\nupdate_only=true\n", c.PublicKey[:])
	if at.IsValid() {
		set += fmt.Sprintf("endpoint=%v\n", at)
	}
	err := w.device.IpcSet(set + fmt.Sprintf("persistent_keepalive_interval=%d\n", c.Keepalive/time.Second))
	w.mu.Unlock()
	if err != nil {
		c.log.Warn("cannot set the peer's endpoint", "error", err)
		return
	}
	w.tun.peerKnown.Store(true)
}

// initiate makes WireGuard start a handshake. anew gives up the session and handshakes in progress;
// otherwise WireGuard keeps the session until the handshake completes, and does nothing if it has started
// one within 5 s.
func (w *wireguard) initiate(anew bool) {
	peer := w.device.LookupPeer(w.settings.Load().PublicKey)
	if peer == nil {
		return
	}
	if anew {
		peer.ExpireCurrentKeypairs() // packets that the peer sends in the session are still received
	}
	_ = peer.SendHandshakeInitiation(false) // WireGuard logs the error
}

// changePort makes the link send from another UDP port, alternately a new one and the configured
// one. Load balancers and NATs send what continues a flow to the same place, even if the gateway
// there is gone and another one has taken over its address: kube-proxy for as long as packets
// arrive. rounds is how often no address has answered.
func (w *wireguard) changePort(rounds int) {
	own := rounds%2 == 1
	if rounds == 1 {
		w.log().Info("no endpoint of the peer answers; trying other UDP source ports")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bind.UseOwnPort(own)
	err := w.device.BindUpdate()
	if err != nil && own {
		w.bind.UseOwnPort(false)
		err = errors.Join(err, w.device.BindUpdate())
	}
	if err != nil {
		w.log().Warn("cannot send from another UDP port", "error", err)
	}
}

// forget removes the peer from WireGuard and adds it again, so that WireGuard forgets the peer's last timestamp. The
// session, which did not work, and its counters end; the peer's address stays.
func (w *wireguard) forget() {
	known := w.session().endpoint
	w.mu.Lock()
	c := w.settings.Load()
	err := w.device.IpcSet(fmt.Sprintf("public_key=%x\nremove=true\n", c.PublicKey[:]) + peerSettings(c.LinkConfig))
	w.mu.Unlock()
	if err != nil {
		c.log.Warn("cannot add the peer again", "error", err)
		return
	}
	c.log.Warn("the peer's clock was set back; its last timestamp is forgotten")
	if known.IsValid() {
		w.contact(known)
	}
}

// session is the state of a peer in wireguard-go.
type session struct {
	handshake      time.Time      // the last; zero = never
	endpoint       netip.AddrPort // the peer's address; invalid = not known
	received, sent uint64         // bytes of datagrams
}

// session reads the state of the peer from wireguard-go.
func (w *wireguard) session() (s session) {
	var b bytes.Buffer // contains the private key; discarded on return
	if err := w.device.IpcGetOperation(&b); err != nil {
		return s
	}
	var sec, nsec int64
	for lines := bufio.NewScanner(&b); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "=")
		n, _ := strconv.ParseInt(value, 10, 64) // keys are not numbers and are not used
		switch name {
		case "last_handshake_time_sec":
			sec = n
		case "last_handshake_time_nsec":
			nsec = n
		case "rx_bytes":
			s.received = uint64(n)
		case "tx_bytes":
			s.sent = uint64(n)
		case "endpoint":
			s.endpoint, _ = netip.ParseAddrPort(value) // as wireguard-go prints it
		}
	}
	if sec != 0 || nsec != 0 {
		s.handshake = time.Unix(sec, nsec)
	}
	return s
}

// publicKey returns the public key of a private key.
func publicKey(private device.NoisePrivateKey) (public device.NoisePublicKey) {
	curve25519.ScalarBaseMult((*[32]byte)(&public), (*[32]byte)(&private))
	return public
}

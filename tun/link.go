package tun

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
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
	"strait.dev/strait/link"
	"strait.dev/strait/underlay"
)

// LinkConfig configures one link: a key pair of this gateway and the public key of a gateway of
// the remote cluster.
type LinkConfig struct {
	Name string
	// Gateway is the name of the remote gateway. Links to the same gateway are alternatives,
	// for example with the old and the new keys of an end: traffic uses the first one that is
	// up. Empty = Name.
	Gateway      string
	PrivateKey   device.NoisePrivateKey   // this gateway's, for this link
	PublicKey    device.NoisePublicKey    // the remote's
	PresharedKey device.NoisePresharedKey // zero = none
	ListenPort   uint16
	Endpoints    []string // host:port, to be tried in this order; none = wait for the remote
	Keepalive    time.Duration
	// Allowed are the remote's granted prefixes, before translation: the AllowedIPs of the
	// peer.
	Allowed []netip.Prefix
	// Weight is the share of the flows of nodes that the remote gateway gets, in proportion to the weights of
	// the others. With 0 it gets flows only while no link with a weight is up; if all have 0, each
	// gets as many.
	Weight int
}

// clone returns a deep copy of c.
func (c LinkConfig) clone() LinkConfig {
	c.Endpoints, c.Allowed = slices.Clone(c.Endpoints), slices.Clone(c.Allowed)
	return c
}

const (
	// handshakeFresh is the maximum age of the last handshake of a live session: WireGuard
	// makes a new one after 120 s and gives up after 180 s.
	handshakeFresh = 180 * time.Second
)

// Link is one WireGuard device with one peer: this gateway and one gateway of the remote
// cluster. Safe for concurrent use.
type Link struct {
	key      linkKey
	own, far netip.Addr    // link addresses of this end and the other
	listener *linkListener // the host's sockets at that address
	tun      *Device
	wg       *device.Device
	bind     underlay.Bind
	log      *slog.Logger // without the link's name
	clock    *clock
	names    *resolver
	label    atomic.Pointer[label]
	active   atomic.Bool // packets from nodes are directed to it
	ending   atomic.Bool // removed: it only receives, and tells the far end so

	mu       sync.Mutex
	prober   link.Prober
	path     link.Path
	received time.Time        // when the last authenticated packet of the far end arrived
	heard    time.Time        // received at the last tick
	wasUp    bool             // the last state logged
	counted  uint64           // bytes that WireGuard had received when last asked, at least 1; 0 = while up
	claims   []netip.Addr     // addresses that the far end says are its own
	streams  map[*stream]bool // TCP connections through the link
	closed   bool             // no further streams are accepted

	ends    time.Time // when an ending link no longer receives; protected by the fabric's mu
	claimed time.Time // when the far end was last told the addresses of this one; protected by the fabric's mu

	weight    atomic.Int32             // as in LinkConfig
	endpoints atomic.Pointer[[]string] // of the last settings
	rejected  atomic.Uint64            // handshake messages that WireGuard rejected
	replayed  atomic.Bool              // WireGuard refused an initiation of the peer as replayed

	settings sync.Mutex // held while WireGuard is configured
	peer     LinkConfig // the last configuration

	look chan struct{} // see lookAgain
	stop context.CancelFunc
	done sync.WaitGroup
}

// label is the name of a link in logs and metrics.
type label struct {
	name, gateway string
	log           *slog.Logger
}

// setLabel sets the name of the link and its weight.
func (l *Link) setLabel(c LinkConfig) {
	remote := c.Gateway
	if remote == "" {
		remote = c.Name
	}
	l.label.Store(&label{c.Name, remote, l.log.With("link", c.Name)})
	l.weight.Store(int32(c.Weight))
}

func (l *Link) logger() *slog.Logger { return l.label.Load().log }

// start starts WireGuard on the link's device. If it fails, the device is closed.
func (l *Link) start(c LinkConfig) error {
	l.setLabel(c)
	c = c.clone() // so that the caller cannot change it
	l.peer = c
	l.endpoints.Store(&c.Endpoints)
	l.wg = device.NewDevice(l.tun, l.bind, wireguardLog(l.logger, l.observe))
	if err := l.wg.IpcSet(deviceSettings(c)); err != nil {
		l.wg.Close()
		return fmt.Errorf("link %s: configure WireGuard: %w", c.Name, err)
	}
	if err := l.wg.Up(); err != nil {
		l.wg.Close()
		return fmt.Errorf("link %s: listen for WireGuard on UDP port %d: %w; choose another wireguard.listenPort", c.Name, c.ListenPort, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.done.Go(func() { l.call(ctx) })
	return nil
}

// wireguardLog converts wireguard-go's messages to log records, and passes the format of each
// verbose message to observe. The messages identify peers by a shortened public key and contain no
// secrets.
func wireguardLog(log func() *slog.Logger, observe func(format string)) *device.Logger {
	return &device.Logger{
		Verbosef: func(format string, args ...any) {
			observe(format)
			if log().Enabled(context.Background(), slog.LevelDebug) {
				log().Debug("wireguard: " + fmt.Sprintf(format, args...))
			}
		},
		Errorf: func(format string, args ...any) { log().Warn("wireguard: " + fmt.Sprintf(format, args...)) },
	}
}

// observe notes what only WireGuard's verbose messages tell: what it rejects. It drops replayed and forged data without a message.
func (l *Link) observe(format string) {
	switch format {
	case "IPv4 packet with disallowed source address from %v", "IPv6 packet with disallowed source address from %v":
		l.tun.Ingress.CountDropped(gateway.SourceNotGranted, 1)
	case "Packet with invalid IP version from %v":
		l.tun.Ingress.CountDropped(gateway.IPVersion, 1)
	case "Received packet with invalid mac1", "Received invalid initiation message from %s", "Received invalid response message from %s":
		l.rejected.Add(1)
	case "%v - ConsumeMessageInitiation: handshake replay @ %v":
		l.replayed.Store(true)
		l.lookAgain()
	}
}

// deviceSettings returns the device configuration in the format of wireguard-go's UAPI. It
// contains the private key: never log it.
func deviceSettings(c LinkConfig) string {
	var b strings.Builder
	fmt.Fprintf(&b, "private_key=%s\n", hex.EncodeToString(c.PrivateKey[:]))
	fmt.Fprintf(&b, "listen_port=%d\nreplace_peers=true\n", c.ListenPort)
	b.WriteString(peerSettings(c))
	return b.String()
}

// peerSettings returns the peer configuration with its AllowedIPs.
func peerSettings(c LinkConfig) string {
	far := linkAddress(c.PublicKey)
	return peerSecrets(c) + grants(append(slices.Clone(c.Allowed), netip.PrefixFrom(far, far.BitLen())), "")
}

// peerSecrets selects the peer and sets its preshared key.
func peerSecrets(c LinkConfig) string {
	return fmt.Sprintf("public_key=%s\npreshared_key=%s\n", hex.EncodeToString(c.PublicKey[:]), hex.EncodeToString(c.PresharedKey[:]))
}

// grants adds AllowedIPs to the selected peer, or removes them with sign "-".
func grants(prefixes []netip.Prefix, sign string) string {
	var b strings.Builder
	for _, p := range prefixes {
		fmt.Fprintf(&b, "allowed_ip=%s%v\n", sign, p)
	}
	return b.String()
}

// update applies changed peer settings. Keys and port identify the link and cannot change.
// AllowedIPs that stay are never missing, not even briefly.
func (l *Link) update(c LinkConfig) error {
	l.setLabel(c)
	l.settings.Lock()
	settings := peerSecrets(c) + grants(without(c.Allowed, l.peer.Allowed), "") + grants(without(l.peer.Allowed, c.Allowed), "-")
	if err := l.wg.IpcSet(settings); err != nil {
		l.settings.Unlock()
		return fmt.Errorf("link %s: update peer: %w", c.Name, err)
	}
	c = c.clone() // so that the caller cannot change it
	l.peer = c
	l.endpoints.Store(&c.Endpoints)
	l.settings.Unlock()
	l.lookAgain()
	if l.tun.peerKnown.Load() {
		l.contact(netip.AddrPort{})
	}
	return nil
}

// without returns what is not in others.
func without[T comparable](all, others []T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return slices.Contains(others, x) })
}

// publicKey returns the public key of a private key.
func publicKey(private device.NoisePrivateKey) (public device.NoisePublicKey) {
	curve25519.ScalarBaseMult((*[32]byte)(&public), (*[32]byte)(&private))
	return public
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// session is the state of a peer in wireguard-go.
type session struct {
	handshake      time.Time      // the last; zero = never
	endpoint       netip.AddrPort // the peer's address; invalid = not known
	received, sent uint64         // bytes of datagrams
}

// session reads the state of the peer from wireguard-go.
func (l *Link) session() (s session) {
	var b bytes.Buffer // contains the private key; discarded on return
	if err := l.wg.IpcGetOperation(&b); err != nil {
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

// contactable reports whether the peer has an address: a configured endpoint, or one that
// WireGuard learnt from the peer.
func (l *Link) contactable() bool {
	if l.tun.peerKnown.Load() {
		return true
	}
	if !l.session().handshake.IsZero() {
		l.contact(netip.AddrPort{})
	}
	return l.tun.peerKnown.Load()
}

// alternative reports whether another link leads to the same remote gateway.
func (l *Link) alternative(other *Link) bool {
	return other.label.Load().gateway == l.label.Load().gateway
}

// replacedBy reports whether a link takes the place of this one, and may receive no less. The fabric's mu is held.
func (l *Link) replacedBy(other *Link) bool {
	return l.alternative(other) && len(without(l.peer.Allowed, other.peer.Allowed)) == 0
}

// end ends all that the link does by itself. It still receives, and answers probes.
func (l *Link) end() {
	l.ending.Store(true)
	l.closeStreams()
	l.stop()
	l.done.Wait()
}

// close ends the link and waits for its goroutines.
func (l *Link) close() {
	l.end()
	l.wg.Close()
}

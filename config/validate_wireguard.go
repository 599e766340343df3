package config

import (
	"crypto/ecdh"
	"net/netip"
	"strings"
	"time"
)

// wireGuard checks the peers and where the keys come from.
func (c *checker) wireGuard(w *WireGuard) {
	section := root("wireguard")
	if w.PrivateKeyFile == "" {
		c.add(section.field("privateKeyFile"), "name the file that holds this gateway's private key", "missing")
	}
	c.keyFile(section.field("privateKeyFile"), w.PrivateKeyFile)

	names := make(map[string]*place, len(w.Peers))
	keys := make(map[Key]*place, len(w.Peers))
	for i := range w.Peers {
		p, at := &w.Peers[i], section.field("peers").item(i)
		c.name(at.field("name"), p.Name, names)
		c.publicKey(at.field("publicKey"), p.PublicKey, keys)
		c.keyFile(at.field("presharedKeyFile"), p.PresharedKeyFile)
		c.endpoint(at.field("endpoint"), p.Endpoint)
		if k := p.PersistentKeepalive; k < 0 || k > 65535*time.Second || k%time.Second != 0 {
			c.add(at.field("persistentKeepalive"), "use whole seconds from 0s (off) to 65535s", "%s is not a keepalive interval", k)
		}
	}
}

// keyFile catches a key that stands where the name of its file belongs. The key
// is not repeated.
func (c *checker) keyFile(at *place, name string) {
	if _, err := ParseKey(strings.TrimSpace(name)); err == nil {
		c.add(at, "put the key into a file that only the gateway can read, name that file here, and replace the key if others saw it",
			"is a key, not the name of a file")
	}
}

func (c *checker) publicKey(at *place, k Key, taken map[Key]*place) {
	const remedy = "give the peer's public key as `wg pubkey` prints it"
	switch other := taken[k]; {
	case k == Key{}:
		c.add(at, remedy, "missing")
	case k.isLowOrder():
		c.add(at, remedy, "%s is a low-order point, with which nobody can have a secret", k)
	case other != nil:
		c.add(at, "give each peer a key pair of its own", "%s is already the key of %s", k, other)
	default:
		taken[k] = at.parent
	}
}

// isLowOrder reports whether every Diffie-Hellman exchange with the key gives
// zero (RFC 7748 section 6.1). All private keys are multiples of the cofactor, so
// they take such points there; this one, 65 * 2^248, takes no other.
func (k Key) isLowOrder() bool {
	public, err := ecdh.X25519().NewPublicKey(k[:])
	if err != nil {
		return true
	}
	private, err := ecdh.X25519().NewPrivateKey(append(make([]byte, 31), 1))
	if err != nil {
		return true
	}
	_, err = private.ECDH(public)
	return err != nil
}

// endpoint checks host:port, where host is an address or a name to look up.
func (c *checker) endpoint(at *place, endpoint string) {
	const remedy = `write host:port like "gw-b.example:51840" or "[2001:db8::1]:51840", or leave it out to wait for the peer`
	if endpoint == "" {
		return
	}
	host, port, err := splitHostPort(endpoint)
	if err != nil || port == 0 {
		c.add(at, remedy, "%s is not an endpoint", quote(endpoint))
		return
	}
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil && !isHostName(host):
		c.add(at, remedy, "%s is neither an address nor a host name", quote(host))
	case err != nil:
		// A name; whether it resolves is not known here.
	case a.Is4In6():
		c.add(at, "write "+a.Unmap().String(), "%s is an IPv4 address in IPv6 form", a)
	case a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() || a.Is4() && classE.Contains(a):
		c.add(at, remedy, "%s is not the address of a host elsewhere", quote(host))
	}
}

// isHostName reports whether s can be the name of a host: in upper or lower
// case, and not a mistyped IPv4 address.
func isHostName(s string) bool {
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	last := s[strings.LastIndexByte(s, '.')+1:]
	return isDomainName(s) && strings.Trim(last, "0123456789") != ""
}

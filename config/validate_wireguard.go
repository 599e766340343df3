package config

import (
	"crypto/ecdh"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

func (c *checker) wireGuard(w *WireGuard) {
	section := root("wireguard")
	if w.PrivateKeyFile == "" {
		c.add(section.field("privateKeyFile"), "name the file that holds this gateway's private key", "missing")
	}
	c.keyFile(section.field("privateKeyFile"), w.PrivateKeyFile)
	switch replicas := max(w.Replicas, 1); {
	case w.Replicas < 0 || w.Replicas > MaxReplicas:
		c.add(section.field("replicas"), "use "+replicasRange, "%d is not a number of gateways", w.Replicas)
	case w.Ordinal < 0 || w.Ordinal >= replicas:
		c.add(section.field("ordinal"), fmt.Sprintf("use 0 to %d, or set replicas to the number of gateways of this cluster", replicas-1),
			"%d is not the ordinal of one of %d gateways", w.Ordinal, replicas)
	}

	names := make(map[string]*place, len(w.Peers))
	pairs := make(map[keyPair]*place, len(w.Peers))
	for i := range w.Peers {
		p, at := &w.Peers[i], section.field("peers").item(i)
		c.name(at.field("name"), p.Name, names)
		c.gatewayName(at.field("gateway"), p.Gateway)
		c.publicKey(at.field("publicKey"), keyPair{p.PublicKey, w.OwnKeyFile(p)}, pairs)
		c.keyFile(at.field("privateKeyFile"), p.PrivateKeyFile)
		c.keyFile(at.field("presharedKeyFile"), p.PresharedKeyFile)
		c.endpoint(at.field("endpoint"), p.Endpoint)
		c.moreEndpoints(at.field("moreEndpoints"), p)
		if k := p.PersistentKeepalive; k < 0 || k > 65535*time.Second || k%time.Second != 0 {
			c.add(at.field("persistentKeepalive"), "use whole seconds from 0s (off) to 65535s", "%s is not a keepalive interval", k)
		}
	}
}

// moreEndpoints checks additional endpoints, which require endpoint.
func (c *checker) moreEndpoints(at *place, p *Peer) {
	if len(p.MoreEndpoints) > 0 && p.Endpoint == "" {
		c.add(at, "give the first of them as endpoint", "there is no endpoint that these would be beside")
	}
	for i, e := range p.MoreEndpoints {
		if e == "" {
			c.add(at.item(i), "leave it out", "empty")
		}
		c.endpoint(at.item(i), e)
	}
}

// keyFile detects a key in place of a file name. The key is not repeated.
func (c *checker) keyFile(at *place, name string) {
	if _, err := ParseKey(strings.TrimSpace(name)); err == nil {
		c.add(at, "put the key into a file that only the gateway can read, name that file here, and replace the key if others saw it",
			"is a key, not the name of a file")
	}
}

// gatewayName checks the name of a remote gateway, which several peers may share.
func (c *checker) gatewayName(at *place, name string) {
	if !isName(name) {
		c.add(at, "use up to 253 letters, digits, '-', '_' and '.'", "%s is not a name", quote(name))
	}
}

// keyPair identifies the keys of a link: the peer's public key, and the file of this gateway's own key.
type keyPair struct {
	public Key
	own    string
}

func (c *checker) publicKey(at *place, pair keyPair, taken map[keyPair]*place) {
	if !c.key(at, pair.public) {
		return
	}
	if other := taken[pair]; other != nil {
		c.add(at, "give each peer a key pair of its own, or this one another privateKeyFile", "%s is already the key of %s", pair.public, other)
		return
	}
	taken[pair] = at.parent
}

func (c *checker) key(at *place, k Key) bool {
	const remedy = "give the peer's public key as `wg pubkey` prints it"
	switch {
	case k == Key{}:
		c.add(at, remedy, "missing")
	case k.isLowOrder():
		c.add(at, remedy, "%s is a low-order point, which gives no shared secret", k)
	default:
		return true
	}
	return false
}

// isLowOrder reports whether every Diffie-Hellman exchange with the key gives zero (RFC 7748 section 6.1). All private
// keys are multiples of the cofactor, so low-order points give zero; the private key used here, 65 * 2^248, gives zero
// for no other point.
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

// endpoint checks host:port, where host is an address or a DNS name.
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

// isHostName reports whether s can be a host name: in upper or lower case, and not a mistyped IPv4 address.
func isHostName(s string) bool {
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	last := s[strings.LastIndexByte(s, '.')+1:]
	return isDomainName(s) && strings.Trim(last, "0123456789") != ""
}

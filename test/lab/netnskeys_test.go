//go:build lab || nightly

package lab

import (
	"encoding/base64"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// The scenarios about keys, and about the sources that each key permits.

// A gateway's peers are gateways of one remote cluster and have the same grant, so no
// prefix belongs to only one key. What is filtered: sources outside of the grant, and at
// the reference those of another key.
func TestNetns7_WhatAKeyMayNotSendIsDroppedButTellsWhereItIs(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		heard := l.a.pod.listenUDP(t, netip.AddrPortFrom(l.a.pod4, 1111))
		say := func(from netip.Addr, what string) {
			t.Helper()
			c := l.ref.ns.listenUDP(t, netip.AddrPortFrom(from, 1112))
			defer c.Close()
			if _, err := c.WriteToUDPAddrPort([]byte(what), netip.AddrPortFrom(l.a.pod4, 1111)); err != nil {
				t.Fatal(err)
			}
		}
		say(referenceInner[0], "granted")
		expectDatagram(t, heard, "granted")

		// From another address, and with a source that is not granted: it is dropped, but
		// the gateway still updates the endpoint.
		outsider := addr("10.9.9.9")
		l.ref.ns.ip(t, "addr add "+outsider.String()+"/32 dev "+l.ref.device)
		l.ref.set(t, "listen-port", "9997")
		say(outsider, "not granted")
		calls := listenOn(t, l.ref.ns, "wan", func(frame []byte) bool {
			p, ok := ipOf(frame)
			return ok && p.proto == protoUDP && p.src == gatewayOuter[0] && toPort(9997)(frame)
		})
		calls.first(t, "a datagram from the gateway to where the reference is now")
		say(referenceInner[0], "granted again")
		expectDatagram(t, heard, "granted again")

		// The pod's address is assigned to another key: the reference drops packets from
		// the gateway with it, but not from others.
		other := newKeyPair(t)
		l.ref.peer(t, other.public, "allowed-ips", l.a.pod4.String()+"/32")
		if out, err := l.a.pod.try("ping", "-n", "-c", "3", "-i", "0.05", "-W", "1", l.a.sees(referenceInner[0]).String()); err == nil {
			t.Errorf("the reference answers an address of another key:\n%s", out)
		}
		ping(t, l.a.pod, l.a.sees(referenceInner[1]), 3, "-i", "0.01")
		l.ref.peer(t, other.public, "remove")
		l.ref.peer(t, l.key.public, "allowed-ips", "10.0.1.0/24,fd00:10:0:1::/64")
		l.pingBothDirections(t)
	})
}

// expectDatagram reads one datagram, which must be the expected one.
func expectDatagram(t *testing.T, c *net.UDPConn, want string) {
	t.Helper()
	buffer := make([]byte, 2048)
	n, err := c.Read(buffer)
	if err != nil || string(buffer[:n]) != want {
		t.Errorf("read %q, %v; want %q", buffer[:n], err, want)
	}
}

func TestNetns8_EitherEndMayChangeItsKey(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})

		// The reference's key: the gateway gets the next one first.
		old, next := l.ref.key, newKeyPair(t)
		l.setPeers(t, l.peer("b-0-next", next.public), l.peer("b-0", old.public))
		l.pingBothDirections(t)
		l.ref.setKey(t, next)
		waitForPing(t, l.ref.ns, l.a.pod4)
		l.setPeers(t, l.peer("b-0-next", next.public))
		waitForPing(t, l.a.pod, l.a.sees(referenceInner[0]))
		l.pingBothDirections(t)

		// The gateway's own key: the reference has both until the old one is removed.
		own := newKeyPair(t)
		file := l.gateway.secret(t, "next.key", base64.StdEncoding.EncodeToString(own.private))
		before, after := l.peer("b-0-next", next.public), l.peer("b-0-own", next.public)
		after.privateKeyFile = file
		l.ref.peer(t, own.public)
		l.setPeers(t, after, before)
		l.pingBothDirections(t)
		eventually(t, "the reference has a handshake with the gateway's new key", func() bool {
			return l.ref.show(t, "latest-handshakes", own.public) != "0"
		})
		l.ref.peer(t, own.public, "allowed-ips", "10.0.1.0/24,fd00:10:0:1::/64")
		l.setPeers(t, after)
		waitForPing(t, l.a.pod, l.a.sees(referenceInner[0]))
		l.ref.peer(t, l.key.public, "remove")
		l.pingBothDirections(t)
	})
}

func TestNetns21_AKeyLivesAndDies(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})

		// None of these is accepted, and the running configuration stays.
		same := l.peer("b-0", l.ref.key.public)
		noKey, short := same, same
		noKey.privateKeyFile = l.gateway.secret(t, "empty.key", "")
		short.privateKeyFile = l.gateway.secret(t, "short.key", base64.StdEncoding.EncodeToString(l.key.private[1:]))
		for _, wrong := range []struct {
			why   string
			peers []peerEntry
		}{
			{"this gateway's own", []peerEntry{l.peer("b-0", l.key.public)}},
			{"this gateway's own", []peerEntry{same, l.peer("b-1", l.key.public)}},
			{"this gateway's own", []peerEntry{l.peerWithOwnKeyOfReference(t), same}},
			{"is already the key of", []peerEntry{same, l.peer("b-1", l.ref.key.public)}},
			{"does not hold a key", []peerEntry{noKey}},
			{"does not hold a key", []peerEntry{short}},
		} {
			l.refuse(t, wrong.why, l.withPeers(t, wrong.peers...))
		}
		l.setPeers(t, same)
		l.pingBothDirections(t)

		// A preshared key is added, differs, and is removed.
		psk := newKeyPair(t).private
		c := &l.gateway.config
		c.PresharedKeyFile = l.gateway.secret(t, "preshared.key", base64.StdEncoding.EncodeToString(psk))
		l.ref.presharedKey(t, l.key.public, psk)
		l.restart(t)
		waitForPing(t, l.a.pod, l.a.sees(referenceInner[0]))
		l.ref.presharedKey(t, l.key.public, newKeyPair(t).private)
		l.restart(t)
		if out, err := l.a.pod.try("ping", "-n", "-c", "3", "-i", "0.2", "-W", "1", l.a.sees(referenceInner[0]).String()); err == nil {
			t.Errorf("two different preshared keys make a tunnel:\n%s", out)
		}
		c.PresharedKeyFile = ""
		l.ref.presharedKey(t, l.key.public, make([]byte, 32))
		l.restart(t)
		waitForPing(t, l.a.pod, l.a.sees(referenceInner[0]))

		// The bits that clamping sets and clears change nothing: it is the same key in
		// another form.
		unclamped := append([]byte(nil), l.key.private...)
		unclamped[0] |= 7
		unclamped[31] = unclamped[31]&^64 | 128
		c.PrivateKeyFile = l.gateway.secret(t, "unclamped.key", base64.StdEncoding.EncodeToString(unclamped))
		l.restart(t)
		waitForPing(t, l.a.pod, l.a.sees(referenceInner[0]))
		l.pingBothDirections(t)
	})
}

// peerWithOwnKeyOfReference returns a peer for which the gateway has the reference's
// private key, so that it would connect to itself.
func (l *netnsLab) peerWithOwnKeyOfReference(t *testing.T) peerEntry {
	t.Helper()
	p := l.peer("b-1", newKeyPair(t).public)
	p.privateKeyFile = l.gateway.secret(t, "reference.key", base64.StdEncoding.EncodeToString(l.ref.key.private))
	return p
}

// presharedKey sets the key that the device shares with a peer; zeros remove it.
func (w *wireGuard) presharedKey(t *testing.T, public, key []byte) {
	t.Helper()
	file := t.TempDir() + "/preshared.key"
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.peer(t, public, "preshared-key", file)
}

// restart replaces the gateway by one without sessions, with the current configuration.
func (l *netnsLab) restart(t *testing.T) {
	t.Helper()
	l.gateway.kill()
	l.gateway.writeConfig(t)
	l.gateway.start(t)
	l.gateway.waitReady(t)
}

// With these public keys every shared secret is zero, RFC 7748 section 6.1: 0, 1, two
// points of order 8, p-1, p and p+1.
var lowOrderPoints = []string{
	strings.Repeat("00", 32),
	"01" + strings.Repeat("00", 31),
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ec" + strings.Repeat("ff", 30) + "7f",
	"ed" + strings.Repeat("ff", 30) + "7f",
	"ee" + strings.Repeat("ff", 30) + "7f",
}

func TestNetns23_NothingIsSentToALowOrderPoint(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		const port = 9990
		sent := listenOn(t, l.net, "gw", func(frame []byte) bool {
			p, ok := ipOf(frame)
			return ok && p.proto == protoUDP && toPort(port)(frame)
		})
		for _, point := range lowOrderPoints {
			public, err := hex.DecodeString(point)
			if err != nil {
				t.Fatal(err)
			}
			p := l.peer("low", public)
			p.gateway, p.endpoint = "low", netip.AddrPortFrom(referenceOuter[0], port).String()
			l.refuse(t, "wireguard.peers[1].publicKey", l.withPeers(t, l.peer("b-0", l.ref.key.public), p))
		}
		// Other programs may be less strict. For a gateway with such a key the peer does
		// not exist.
		l.setPeers(t, l.peer("b-0", l.ref.key.public))
		l.pingBothDirections(t)
		sent.never(t, "a packet was sent to a low-order point")
	})
}

//go:build lab || nightly

package wireguard

import (
	"encoding/base64"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"strait.dev/strait/test/lab"
)

// The scenarios about keys, and about the sources that each key permits.

// A gateway's peers are gateways of one remote cluster and have the same grant, so no
// prefix belongs to only one key. What is filtered: sources outside of the grant, and at
// the reference those of another key.
func TestNetns7_WhatAKeyMayNotSendIsDroppedButTellsWhereItIs(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		heard := l.a.Pod.ListenUDP(t, netip.AddrPortFrom(l.a.Pod4, 1111))
		say := func(from netip.Addr, what string) {
			t.Helper()
			c := l.ref.ns.ListenUDP(t, netip.AddrPortFrom(from, 1112))
			defer c.Close()
			if _, err := c.WriteToUDPAddrPort([]byte(what), netip.AddrPortFrom(l.a.Pod4, 1111)); err != nil {
				t.Fatal(err)
			}
		}
		say(referenceInner[0], "granted")
		expectDatagram(t, heard, "granted")

		// From another address, and with a source that is not granted: it is dropped, but
		// the gateway still updates the endpoint.
		outsider := lab.Addr("10.9.9.9")
		l.ref.ns.IP(t, "addr add "+outsider.String()+"/32 dev "+l.ref.device)
		l.ref.set(t, "listen-port", "9997")
		say(outsider, "not granted")
		calls := lab.ListenOn(t, l.ref.ns, "wan", func(frame []byte) bool {
			p, ok := lab.IPOf(frame)
			return ok && p.Proto == lab.ProtoUDP && p.Src == gatewayOuter[0] && lab.ToPort(9997)(frame)
		})
		calls.First(t, "a datagram from the gateway to where the reference is now")
		say(referenceInner[0], "granted again")
		expectDatagram(t, heard, "granted again")

		// The pod's address is assigned to another key: the reference drops packets from
		// the gateway with it, but not from others.
		other := lab.NewKeyPair(t)
		l.ref.peer(t, other.Public, "allowed-ips", l.a.Pod4.String()+"/32")
		if out, err := l.a.Pod.Try("ping", "-n", "-c", "3", "-i", "0.05", "-W", "1", l.a.Sees(referenceInner[0]).String()); err == nil {
			t.Errorf("the reference answers an address of another key:\n%s", out)
		}
		lab.Ping(t, l.a.Pod, l.a.Sees(referenceInner[1]), 3, "-i", "0.01")
		l.ref.peer(t, other.Public, "remove")
		l.ref.peer(t, l.key.Public, "allowed-ips", "10.0.1.0/24,fd00:10:0:1::/64")
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
		old, next := l.ref.key, lab.NewKeyPair(t)
		l.setPeers(t, l.peer("b-0-next", next.Public), l.peer("b-0", old.Public))
		l.pingBothDirections(t)
		l.ref.setKey(t, next)
		lab.WaitForPing(t, l.ref.ns, l.a.Pod4)
		l.setPeers(t, l.peer("b-0-next", next.Public))
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		l.pingBothDirections(t)

		// The gateway's own key: the reference has both until the old one is removed.
		own := lab.NewKeyPair(t)
		file := secret(t, l.gateway, "next.key", base64.StdEncoding.EncodeToString(own.Private))
		before, after := l.peer("b-0-next", next.Public), l.peer("b-0-own", next.Public)
		after.privateKeyFile = file
		l.ref.peer(t, own.Public)
		l.setPeers(t, after, before)
		l.pingBothDirections(t)
		lab.Eventually(t, "the reference has a handshake with the gateway's new key", func() bool {
			return l.ref.show(t, "latest-handshakes", own.Public) != "0"
		})
		l.ref.peer(t, own.Public, "allowed-ips", "10.0.1.0/24,fd00:10:0:1::/64")
		l.setPeers(t, after)
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		l.ref.peer(t, l.key.Public, "remove")
		l.pingBothDirections(t)
	})
}

func TestNetns21_AKeyLivesAndDies(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})

		// None of these is accepted, and the running configuration stays.
		same := l.peer("b-0", l.ref.key.Public)
		noKey, short := same, same
		noKey.privateKeyFile = secret(t, l.gateway, "empty.key", "")
		short.privateKeyFile = secret(t, l.gateway, "short.key", base64.StdEncoding.EncodeToString(l.key.Private[1:]))
		for _, wrong := range []struct {
			why   string
			peers []peerEntry
		}{
			{"this gateway's own", []peerEntry{l.peer("b-0", l.key.Public)}},
			{"this gateway's own", []peerEntry{same, l.peer("b-1", l.key.Public)}},
			{"this gateway's own", []peerEntry{l.peerWithOwnKeyOfReference(t), same}},
			{"is already the key of", []peerEntry{same, l.peer("b-1", l.ref.key.Public)}},
			{"does not hold a key", []peerEntry{noKey}},
			{"does not hold a key", []peerEntry{short}},
		} {
			l.refuse(t, wrong.why, l.withPeers(t, wrong.peers...))
		}
		l.setPeers(t, same)
		l.pingBothDirections(t)

		// A preshared key is added, differs, and is removed.
		psk := lab.NewKeyPair(t).Private
		c := &l.gateway.Config
		c.PresharedKeyFile = secret(t, l.gateway, "preshared.key", base64.StdEncoding.EncodeToString(psk))
		l.ref.presharedKey(t, l.key.Public, psk)
		l.restart(t)
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		l.ref.presharedKey(t, l.key.Public, lab.NewKeyPair(t).Private)
		l.restart(t)
		if out, err := l.a.Pod.Try("ping", "-n", "-c", "3", "-i", "0.2", "-W", "1", l.a.Sees(referenceInner[0]).String()); err == nil {
			t.Errorf("two different preshared keys make a tunnel:\n%s", out)
		}
		c.PresharedKeyFile = ""
		l.ref.presharedKey(t, l.key.Public, make([]byte, 32))
		l.restart(t)
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))

		// The bits that clamping sets and clears change nothing: it is the same key in
		// another form.
		unclamped := append([]byte(nil), l.key.Private...)
		unclamped[0] |= 7
		unclamped[31] = unclamped[31]&^64 | 128
		c.PrivateKeyFile = secret(t, l.gateway, "unclamped.key", base64.StdEncoding.EncodeToString(unclamped))
		l.restart(t)
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		l.pingBothDirections(t)
	})
}

// peerWithOwnKeyOfReference returns a peer for which the gateway has the reference's
// private key, so that it would connect to itself.
func (l *netnsLab) peerWithOwnKeyOfReference(t *testing.T) peerEntry {
	t.Helper()
	p := l.peer("b-1", lab.NewKeyPair(t).Public)
	p.privateKeyFile = secret(t, l.gateway, "reference.key", base64.StdEncoding.EncodeToString(l.ref.key.Private))
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
	l.gateway.Kill()
	l.gateway.WriteConfig(t)
	l.gateway.Start(t)
	l.gateway.WaitReady(t)
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
		sent := lab.ListenOn(t, l.net, "gw", func(frame []byte) bool {
			p, ok := lab.IPOf(frame)
			return ok && p.Proto == lab.ProtoUDP && lab.ToPort(port)(frame)
		})
		for _, point := range lowOrderPoints {
			public, err := hex.DecodeString(point)
			if err != nil {
				t.Fatal(err)
			}
			p := l.peer("low", public)
			p.gateway, p.endpoint = "low", netip.AddrPortFrom(referenceOuter[0], port).String()
			l.refuse(t, "wireguard.peers[1].publicKey", l.withPeers(t, l.peer("b-0", l.ref.key.Public), p))
		}
		// Other programs may be less strict. For a gateway with such a key the peer does
		// not exist.
		l.setPeers(t, l.peer("b-0", l.ref.key.Public))
		l.pingBothDirections(t)
		sent.Never(t, "a packet was sent to a low-order point")
	})
}

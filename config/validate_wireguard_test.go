package config

import (
	"strings"
	"testing"
)

// Links with different own keys lead to the same remote gateway: that is how a key
// is replaced.
func TestAPeerKeyMayStandTwiceWithDifferentOwnKeys(t *testing.T) {
	t.Parallel()
	twice := strings.Replace(valid(t), "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=", "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=", 1)
	if err := check(twice); err != nil {
		t.Error(err)
	}
}

func TestTheOrdinalIsThatOfOneOfTheReplicas(t *testing.T) {
	t.Parallel()
	place := func(ordinal, replicas string) string {
		return strings.Replace(valid(t), "listenPort: 51841", "listenPort: 51841\n  ordinal: "+ordinal+"\n  replicas: "+replicas, 1)
	}
	for _, c := range []struct{ ordinal, replicas string }{{"0", "0"}, {"0", "1"}, {"1", "2"}, {"15", "16"}} {
		if err := check(place(c.ordinal, c.replicas)); err != nil {
			t.Errorf("ordinal %s of %s: %v", c.ordinal, c.replicas, err)
		}
	}
	for _, c := range []struct{ ordinal, replicas, want string }{
		{"1", "0", "line 27: wireguard.ordinal: 1 is not the ordinal of one of 1 gateways; use 0 to 0, or set replicas to the number of gateways of this cluster"},
		{"2", "2", "line 27: wireguard.ordinal: 2 is not the ordinal of one of 2 gateways; use 0 to 1, or set replicas to the number of gateways of this cluster"},
		{"-1", "2", "line 27: wireguard.ordinal: -1 is not the ordinal of one of 2 gateways; use 0 to 1, or set replicas to the number of gateways of this cluster"},
		{"first", "2", `line 27: wireguard.ordinal: "first" is not a decimal whole number; use a number from 0 to 15`},
		{"0", "17", "line 28: wireguard.replicas: 17 is not a number of gateways; use 0 for 1, or a number from 1 to 16"},
		{"0", "-2", "line 28: wireguard.replicas: -2 is not a number of gateways; use 0 for 1, or a number from 1 to 16"},
	} {
		if err := check(place(c.ordinal, c.replicas)); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

func TestProblemsOfPeersAreNamed(t *testing.T) {
	t.Parallel()
	testMalformed(t, []malformed{
		{
			"no private key", "  privateKeyFile: /etc/strait/private.key", "  #",
			"line 26: wireguard.privateKeyFile: missing; name the file that holds this gateway's private key",
		},
		{
			"a peer name twice", "name: b-1", "name: b-0",
			`line 34: wireguard.peers[1].name: "b-0" is already the name of wireguard.peers[0]; give it a name of its own`,
		},
		{
			"a peer without a key", `    publicKey: "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="`, "    #",
			"line 34: wireguard.peers[1].publicKey: missing; give the peer's public key as `wg pubkey` prints it",
		},
		{
			"a peer key twice with the same own key", "\"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n    privateKeyFile: /etc/strait/next.key",
			"\"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\n    privateKeyFile: /etc/strait/private.key",
			"line 35: wireguard.peers[1].publicKey: 3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08= is already the key of wireguard.peers[0]; give each peer a key pair of its own, or this one another privateKeyFile",
		},
		{
			"a remote gateway that is not a name", "gateway: b-0", `gateway: "b 0"`,
			`line 37: wireguard.peers[1].gateway: "b 0" is not a name; use up to 253 letters, digits, '-', '_' and '.'`,
		},
		{
			"a low-order key", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
			"line 35: wireguard.peers[1].publicKey: AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= is a low-order point, which gives no shared secret; give the peer's public key as `wg pubkey` prints it",
		},
		{
			"an endpoint without a port", `"gw-b.example:51840"`, "gw-b.example",
			`line 32: wireguard.peers[0].endpoint: "gw-b.example" is not an endpoint; write host:port like "gw-b.example:51840" or "[2001:db8::1]:51840", or leave it out to wait for the peer`,
		},
		{
			"an endpoint of port zero", `"gw-b.example:51840"`, `"gw-b.example:0"`,
			`line 32: wireguard.peers[0].endpoint: "gw-b.example:0" is not an endpoint; write host:port like "gw-b.example:51840" or "[2001:db8::1]:51840", or leave it out to wait for the peer`,
		},
		{
			"an endpoint with a mistyped address", `"gw-b.example:51840"`, `"192.0.2.256:51840"`,
			`line 32: wireguard.peers[0].endpoint: "192.0.2.256" is neither an address nor a host name; write host:port like "gw-b.example:51840" or "[2001:db8::1]:51840", or leave it out to wait for the peer`,
		},
		{
			"an endpoint that no host can have", `"gw-b.example:51840"`, `"[ff02::1]:51840"`,
			`line 32: wireguard.peers[0].endpoint: "ff02::1" is not the address of a host elsewhere; write host:port like "gw-b.example:51840" or "[2001:db8::1]:51840", or leave it out to wait for the peer`,
		},
		{
			"an endpoint in IPv6 form", `"gw-b.example:51840"`, `"[::ffff:192.0.2.1]:51840"`,
			"line 32: wireguard.peers[0].endpoint: ::ffff:192.0.2.1 is an IPv4 address in IPv6 form; write 192.0.2.1",
		},
		{
			"an IPv6 endpoint without brackets", `"gw-b.example:51840"`, `"2001:db8::1:51840"`,
			`line 32: wireguard.peers[0].endpoint: "2001:db8::1:51840" is not an endpoint; write host:port like "gw-b.example:51840" or "[2001:db8::1]:51840", or leave it out to wait for the peer`,
		},
		{
			"a keepalive of half a second", "25s", "500ms",
			"line 33: wireguard.peers[0].persistentKeepalive: 500ms is not a keepalive interval; use whole seconds from 0s (off) to 65535s",
		},
		{
			"a negative keepalive", "25s", "-1s",
			"line 33: wireguard.peers[0].persistentKeepalive: -1s is not a keepalive interval; use whole seconds from 0s (off) to 65535s",
		},
		{
			"a keepalive of a day", "25s", "24h",
			"line 33: wireguard.peers[0].persistentKeepalive: 24h0m0s is not a keepalive interval; use whole seconds from 0s (off) to 65535s",
		},
	})
}

package config

import (
	"strings"
	"testing"
)

func TestWhatCannotBeReadIsNamedWithLineFieldAndRemedy(t *testing.T) {
	t.Parallel()
	testMalformed(t, []malformed{
		{
			"an unknown field, close to a known one", "vni: 101", "vnj: 101",
			"line 14: overlay.nodes[0].vnj: unknown field; did you mean vni?",
		},
		{
			"an unknown field, close to none", "vni: 101", "colour: red",
			"line 14: overlay.nodes[0].colour: unknown field; remove it, or use one of: name, underlay, encapsulation, vni, addresses, externalAddresses, prefixes",
		},
		{
			"a known field in the wrong case", "publicKey:", "PublicKey:",
			"line 30: wireguard.peers[0].PublicKey: unknown field; did you mean publicKey?",
		},
		{
			"a merge key", "mssClamp: 1300", "<<: {mssClamp: 1300}",
			"line 47: <<: unknown field; remove it, or use one of: apiVersion, kind, cluster, overlay, wireguard, local, remote, masquerade, mappings, proxy, forwards, callers, mssClamp, observability",
		},
		{
			"a field with a line break in its name", "mssClamp: 1300", `"mss\nClamp": 1300`,
			`line 47: "mss\nClamp": unknown field; did you mean mssClamp?`,
		},
		{
			"a field whose name is a list", "mssClamp: 1300", `? [mssClamp]
: 1300`,
			"line 47: has a field without a name; begin each field with one of: apiVersion, kind, cluster, overlay, wireguard, local, remote, masquerade, mappings, proxy, forwards, callers, mssClamp, observability",
		},
		{
			"a field twice", "vni: 101", `vni: 101
    vni: 101`,
			"line 15: overlay.nodes[0].vni: given twice, first on line 14; keep one of the two",
		},
		{
			"a whole section twice", "local:", `remote: {}
local:`,
			"line 42: remote: given twice, first on line 38; keep one of the two",
		},
		{
			"a list where a value belongs", "vni: 101", "vni: [101]",
			"line 14: overlay.nodes[0].vni: is a list, not a single value; write a single value",
		},
		{
			"a value where a list belongs", "addresses: [10.80.0.12]", "addresses: 10.80.0.12",
			"line 22: overlay.nodes[1].addresses: is a single value, not a list; write a list",
		},
		{
			"a list where an object belongs", `observability:
  listen: "[::1]:8080"`, "observability: []",
			"line 48: observability: is a list, not a mapping of fields; write a mapping of fields",
		},
		{
			"an alias", `    underlay: 192.0.2.21
    encapsulation: geneve`, `    underlay: &u 192.0.2.21
    encapsulation: *u`,
			"line 13: overlay.nodes[0].encapsulation: is an alias, which is not supported; write the value out",
		},
		{
			"an alias to nothing", "vni: 101", "vni: *x",
			"line 15: not valid YAML: unknown anchor 'x' referenced; check indentation, colons and quotes on this line and above",
		},
		{
			"a tag", "cluster: a", "cluster: !!str a",
			`line 3: cluster: has the tag "!!str", which is not supported; remove the tag`,
		},
		{
			"a second document", "wireguard:", `---
wireguard:`,
			"line 25: a second document begins here; put each configuration in a file of its own",
		},
		{
			"an empty second document", `listen: "[::1]:8080"`, `listen: "[::1]:8080"
---`,
			"line 50: a second document begins here; put each configuration in a file of its own",
		},
		{
			"a colon too many", "cluster: a", "cluster: a: b",
			"line 3: not valid YAML: mapping values are not allowed in this context; check indentation, colons and quotes on this line and above",
		},
		{
			"a tab", "cluster: a", "\tcluster: a",
			"line 3: not valid YAML: found a tab character that violates indentation; check indentation, colons and quotes on this line and above",
		},
		{
			"an open quote", `listen: "[::1]:8080"`, `listen: "[::1]:8080`,
			"line 56: not valid YAML: found unexpected end of stream; check indentation, colons and quotes on this line and above",
		},
		{
			"an unknown escape", "apiVersion: strait.dev/v1alpha1", `apiVersion: "\q"`,
			"line 1: not valid YAML: found unknown escape character; check indentation, colons and quotes on this line and above",
		},
		{
			"a control character", "cluster: a", "cluster: a\a",
			"line 3: not valid YAML: control characters are not allowed; check indentation, colons and quotes on this line and above",
		},
		{
			"bytes that are no text", "cluster: a", "cluster: \xff\xfe",
			"line 3: not UTF-8 text; save the file as UTF-8",
		},
		{
			"a number as text", "cluster: a", "cluster: 17",
			`line 3: cluster: "17" is not text; put it in quotes`,
		},
		{
			"a truth value as text", "name: node-1", "name: true",
			`line 11: overlay.nodes[0].name: "true" is not text; put it in quotes`,
		},
		{
			"a hexadecimal number", "vni: 101", "vni: 0x65",
			`line 14: overlay.nodes[0].vni: "0x65" is not a decimal whole number; use 1 to 16777215`,
		},
		{
			"a negative number", "vni: 101", "vni: -1",
			"line 14: overlay.nodes[0].vni: -1 is out of range; use 1 to 16777215",
		},
		{
			"a number that fits no field", "vni: 101", "vni: 99999999999",
			"line 14: overlay.nodes[0].vni: 99999999999 is out of range; use 1 to 16777215",
		},
		{
			"a port that does not exist", "listenPort: 51841", "listenPort: 65536",
			"line 26: wireguard.listenPort: 65536 is out of range; use 1 to 65535, or 0 for any free port",
		},
		{
			"an address that is none", "underlay: 192.0.2.21", "underlay: 192.0.2.256",
			`line 12: overlay.nodes[0].underlay: "192.0.2.256" is not an IP address; write one like 10.80.0.11 or fd00:80::11`,
		},
		{
			"a prefix that is none", "seenAs: 10.71.0.0/16", "seenAs: 10.71.0.0/33",
			`line 44: remote.prefixes[0].seenAs: "10.71.0.0/33" is not a prefix; write one like 10.0.0.0/16 or fd00:10::/48`,
		},
		{
			"an address where a prefix belongs", `prefixes: [10.0.0.0/16, "fd00:10::/48"]`, "prefixes: [10.0.0.0]",
			`line 39: local.prefixes[0]: "10.0.0.0" is not a prefix; write one like 10.0.0.0/16 or fd00:10::/48`,
		},
		{
			"a name to listen on", `"[::1]:8080"`, `"localhost:8080"`,
			`line 49: observability.listen: "localhost:8080" is not an address to listen on; write ":6091" for all addresses or "192.0.2.10:6091" for one`,
		},
		{
			"no port to listen on", `"[::1]:8080"`, `"::1"`,
			`line 49: observability.listen: "::1" is not an address to listen on; write ":6091" for all addresses or "192.0.2.10:6091" for one`,
		},
		{
			"port zero to listen on", `"[::1]:8080"`, `":0"`,
			`line 49: observability.listen: ":0" is not an address to listen on; write ":6091" for all addresses or "192.0.2.10:6091" for one`,
		},
		{
			"a duration without a unit", "25s", "25",
			`line 33: wireguard.peers[0].persistentKeepalive: "25" is not a duration; write one like 25s, with its unit`,
		},
		{
			"an MSS that is none", "mssClamp: 1300", "mssClamp: on",
			`line 47: mssClamp: "on" is not an MSS; use auto, off or a number from 536 to 65495`,
		},
		{
			"a key cut short", "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=", "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+I",
			"line 30: wireguard.peers[0].publicKey: is not 32 bytes in base64; give the peer's public key as `wg pubkey` prints it, 44 characters",
		},
		{
			"a key in hexadecimal", `"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="`, "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
			"line 30: wireguard.peers[0].publicKey: is not 32 bytes in base64; give the peer's public key as `wg pubkey` prints it, 44 characters",
		},
		{
			"several at once, in the order of their lines", `vni: 101
    addresses: [10.80.0.11, "fd00:80::11"]`, `vni: many
    addresses: [10.80.0, 10.80.0.11, here]
    adresses: []`,
			`line 14: overlay.nodes[0].vni: "many" is not a decimal whole number; use 1 to 16777215
line 15: overlay.nodes[0].addresses[0]: "10.80.0" is not an IP address; write one like 10.80.0.11 or fd00:80::11
line 15: overlay.nodes[0].addresses[2]: "here" is not an IP address; write one like 10.80.0.11 or fd00:80::11
line 16: overlay.nodes[0].adresses: unknown field; did you mean addresses?`,
		},
	})
}

// Found by fuzzing: UTF-16 has other line breaks than the bytes suggest.
func TestUTF16IsRefused(t *testing.T) {
	t.Parallel()
	const want = "line 1: not UTF-8 text; save the file as UTF-8"
	if err := check("\xfe\xff\x00\x85\x17\x17"); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Found by fuzzing: the line had no number while only part of it had been read.
func TestAFaultInALineLongerThanAReadBufferHasALine(t *testing.T) {
	t.Parallel()
	err := check("cluster: a\n" + strings.Repeat("n", 2000) + "\a" + strings.Repeat("n", 2000))
	const want = "line 2: not valid YAML: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s...", err, want)
	}
}

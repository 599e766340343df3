//go:build lab || nightly

package lab

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startKernelGateway makes s.gw a gateway of kernel parts: WireGuard, the tunnel device,
// policy routing, nftables prefix NAT and an MSS clamp. This is the usual way to build a
// gateway with privileges.
func startKernelGateway(t *testing.T, s, other *site, key keyPair, peer []byte) {
	t.Helper()
	s.gw.ip(t, "link add wg0 type wireguard")
	keyFile := filepath.Join(workDir, s.gw.name+".key")
	if err := os.WriteFile(keyFile, []byte(base64.StdEncoding.EncodeToString(key.private)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.gw.run(t, "wg", "set", "wg0", "private-key", keyFile, "listen-port", fmt.Sprint(wireGuardPort),
		"peer", base64.StdEncoding.EncodeToString(peer), "allowed-ips", joinPrefixes(s.remote),
		"endpoint", netip.AddrPortFrom(other.endpoint, wireGuardPort).String(), "persistent-keepalive", "25")

	node := s.bridge4
	if s.underlay.Is6() {
		node = s.bridge6
	}
	tunnelDevice(t, s.gw, s.encapsulation, s.underlay, node, overlayMAC(gatewayInternal[0]))
	s.gw.ip(t, fmt.Sprintf(`
link set wg0 mtu 1420 up
addr add %[1]s/16 dev strait0
addr add %[2]s/48 dev strait0 nodad
neigh replace %[3]s lladdr %[5]s nud permanent dev strait0
neigh replace %[4]s lladdr %[5]s nud permanent dev strait0
rule add iif strait0 lookup 100
route add default dev wg0 table 100
route add ::/0 dev wg0 table 100
route add %[6]s via %[3]s dev strait0
route add %[7]s via %[4]s dev strait0
`, gatewayInternal[0], gatewayInternal[1], nodeInternal[0], nodeInternal[1], overlayMAC(nodeInternal[0]), s.podNet4, s.podNet6))

	// In a batch a rule without addresses is for IPv4.
	s.gw.run(t, "ip", "-6", "rule", "add", "iif", "strait0", "lookup", "100")

	for _, key := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		if err := s.gw.in(func() error { return os.WriteFile("/proc/sys/net/"+key, []byte("1"), 0) }); err != nil {
			t.Fatal(err)
		}
	}
	rules := filepath.Join(workDir, s.gw.name+".nft")
	text := natRules("ip", s.remote[0], 1380) + natRules("ip6", s.remote[1], 1360)
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.gw.run(t, "nft", "-f", rules)
}

// natRules translate only pods: packets from the node get their real destinations (exiting
// gateway), and packets from the tunnel get their mapped sources (entering gateway).
func natRules(family string, pods remotePrefix, mss int) string {
	return fmt.Sprintf(`
table %[1]s gateway {
	chain exiting {
		type nat hook prerouting priority dstnat
		iifname "strait0" dnat %[1]s prefix to %[1]s daddr map { %[3]s : %[2]s }
	}
	chain entering {
		type nat hook postrouting priority srcnat
		oifname "strait0" snat %[1]s prefix to %[1]s saddr map { %[2]s : %[3]s }
	}
	chain clamp {
		type filter hook forward priority mangle
		tcp flags & syn == syn tcp option maxseg size > %[4]d tcp option maxseg size set %[4]d
	}
}
`, family, pods.CIDR, pods.SeenAs, mss)
}

func joinPrefixes(remote []remotePrefix) string {
	var cidrs []string
	for _, r := range remote {
		cidrs = append(cidrs, r.CIDR.String())
	}
	return strings.Join(cidrs, ",")
}

// needWireGuard skips the test if the kernel or the machine lacks parts of a kernel
// gateway.
func needWireGuard(t *testing.T) {
	t.Helper()
	scratch := newNamespace(t, "scratch", nil)
	if !kernelHas(scratch, "wireguard") {
		t.Skip("interop left out: this kernel has no WireGuard; run: test/guest/run-lab")
	}
	for _, tool := range []string{"wg", "nft"} {
		if _, err := scratch.try(tool, "--version"); err != nil {
			t.Skipf("interop left out: %s does not run (%v); run: apt-get install -y wireguard-tools nftables", tool, err)
		}
	}
}

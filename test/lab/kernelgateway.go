package lab

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strait.dev/strait/internal/netns"
)

// startKernelGateway makes s.gw a gateway of kernel parts: WireGuard, the tunnel device,
// policy routing, nftables prefix NAT and an MSS clamp. This is the usual way to build a
// gateway with privileges.
func startKernelGateway(t *testing.T, s, other *Site, key KeyPair, peer []byte) {
	t.Helper()
	s.GW.IP(t, "link add wg0 type wireguard")
	keyFile := filepath.Join(WorkDir, s.GW.Name+".key")
	if err := os.WriteFile(keyFile, []byte(base64.StdEncoding.EncodeToString(key.Private)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.GW.Run(t, "wg", "set", "wg0", "private-key", keyFile, "listen-port", fmt.Sprint(WireGuardPort),
		"peer", base64.StdEncoding.EncodeToString(peer), "allowed-ips", joinPrefixes(s.Remote),
		"endpoint", netip.AddrPortFrom(other.Endpoint, WireGuardPort).String(), "persistent-keepalive", "25")

	node := s.Bridge4
	if s.Underlay.Is6() {
		node = s.Bridge6
	}
	TunnelDevice(t, s.GW, s.Encapsulation, s.Underlay, node, netns.TunnelMAC(GatewayInternal[0]))
	s.GW.IP(t, fmt.Sprintf(`
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
`, GatewayInternal[0], GatewayInternal[1], NodeInternal[0], NodeInternal[1], netns.TunnelMAC(NodeInternal[0]), s.PodNet4, s.PodNet6))

	// In a batch a rule without addresses is for IPv4.
	s.GW.Run(t, "ip", "-6", "rule", "add", "iif", "strait0", "lookup", "100")

	for _, key := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		if err := s.GW.In(func() error { return os.WriteFile("/proc/sys/net/"+key, []byte("1"), 0) }); err != nil {
			t.Fatal(err)
		}
	}
	rules := filepath.Join(WorkDir, s.GW.Name+".nft")
	text := NatRules("ip", s.Remote[0], 1380) + NatRules("ip6", s.Remote[1], 1360)
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.GW.Run(t, "nft", "-f", rules)
}

// NatRules translate only pods: packets from the node get their real destinations (exiting
// gateway), and packets from the tunnel get their mapped sources (entering gateway).
func NatRules(family string, pods RemotePrefix, mss int) string {
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

func joinPrefixes(remote []RemotePrefix) string {
	var cidrs []string
	for _, r := range remote {
		cidrs = append(cidrs, r.CIDR.String())
	}
	return strings.Join(cidrs, ",")
}

// NeedWireGuard skips the test if the kernel or the machine lacks parts of a kernel
// gateway.
func NeedWireGuard(t *testing.T) {
	t.Helper()
	scratch := NewNamespace(t, "scratch", nil)
	if !scratch.Supports("wireguard") {
		t.Skip("interop left out: this kernel has no WireGuard; run: test/guest/run-lab")
	}
	for _, tool := range []string{"wg", "nft"} {
		if _, err := scratch.Try(tool, "--version"); err != nil {
			t.Skipf("interop left out: %s does not run (%v); run: apt-get install -y wireguard-tools nftables", tool, err)
		}
	}
}

package rig

import "fmt"

// peerSubject is P, the reference that strait is compared with: the kernel's overlay
// device, prefix NAT and MSS clamp by nftables, and wireguard-go on a kernel TUN device,
// with all required privileges. It carries IPv4.
func peerSubject(name, wireGuardGo string, env ...string) *Subject {
	return &Subject{
		Name: name, translated: true,
		up: func(r *Rig, t *topology) error {
			device, err := r.wireGuard(t, wireGuardGo, env)
			if err != nil {
				return err
			}
			encapsulation := t.a.node.Encapsulation()
			for i, s := range t.sites() {
				if err := s.joinNode(encapsulation, false); err != nil {
					return err
				}
				if err := s.routeNode(t.other(s).seenAs); err != nil {
					return err
				}
				if err := s.joinKernelGateway(encapsulation); err != nil {
					return err
				}
				// Both clusters have the same pod CIDR: the route of a packet depends on
				// where it came from.
				if err := s.gw.IP(fmt.Sprintf(`rule add iif %[1]s lookup 100
route add default dev %[2]s table 100
rule add iif %[2]s lookup 101
route add %[3]s via %[4]s dev %[1]s table 101
`, overlayName, device[i], podCIDRs[0], nodeInternal[0])); err != nil {
					return err
				}
				if err := s.gw.run(peerRules(t.other(s), device[i]), "nft", "-f", "-"); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func peerRules(other *site, device string) string {
	return fmt.Sprintf(`table ip gateway {
	chain prerouting {
		type nat hook prerouting priority dstnat;
		iifname "%[1]s" ip daddr %[2]s dnat ip prefix to ip daddr map { %[2]s : %[3]s }
	}
	chain postrouting {
		type nat hook postrouting priority srcnat;
		oifname "%[1]s" ip saddr %[3]s snat ip prefix to ip saddr map { %[3]s : %[2]s }
	}
	chain clamp {
		type filter hook forward priority mangle;
		tcp flags syn tcp option maxseg size set %[4]d
	}
}
`, overlayName, other.seenAs[0], podCIDRs[0], wireGuardMTU-40)
}

package node

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

// Network plugins choose devices and the node's address by name. A link of Strait that they
// choose gets their programs, lowers the MTU of all pods, or gives its address to the node.
func TestNetworkPluginsIgnoreLinksByTheirNames(t *testing.T) {
	t.Parallel()
	// Cilium, pkg/defaults: the prefixes of devices that detection excludes.
	cilium := regexp.MustCompile(`^(cilium_|lo|lxc|cni|docker)`)
	// Calico, node/pkg/lifecycle/startup/autodetection: the interfaces that first-found excludes.
	calico := regexp.MustCompile(`^(docker.*|cbr.*|dummy.*|virbr.*|lxcbr.*|veth.*|lo|cali.*|tunl.*|flannel.*|kube-ipvs.*|cni.*|vxlan\.calico.*|vxlan-v6\.calico.*)$`)
	// Calico, felix: the interfaces of pods, on which it drops packets with other sources.
	workloads := "cali"
	const maxName = 15 // IFNAMSIZ - 1

	names := []string{probeName}
	for _, e := range []Encapsulation{Geneve, VXLAN, Userspace} {
		names = append(names, linkName(e, 257, netip.MustParseAddr("10.0.0.7")), linkName(e, 257, netip.MustParseAddr("fd00::7")))
	}
	for _, name := range names {
		if !cilium.MatchString(name) {
			t.Errorf("Cilium takes %s for one of its devices", name)
		}
		if !calico.MatchString(name) {
			t.Errorf("Calico may take the address of %s for the node's", name)
		}
		if strings.HasPrefix(name, workloads) {
			t.Errorf("Calico takes %s for the link of a pod", name)
		}
		if len(name) > maxName {
			t.Errorf("%s is longer than the kernel accepts", name)
		}
		if ours := linkNames.MatchString(name); ours != (name != probeName) {
			t.Errorf("%s is read as one of Strait's links: %v", name, ours)
		}
	}
}

func TestLinksOfGatewaysHaveDifferentNames(t *testing.T) {
	t.Parallel()
	owners := map[string]string{}
	for gateway := range 256 {
		vni, underlay := uint32(gateway)<<16|7, netip.AddrFrom4([4]byte{10, 0, byte(gateway), 9})
		name, owner := linkName(Geneve, vni, underlay), fmt.Sprintf("VNI %d at %v", vni, underlay)
		if other, taken := owners[name]; taken {
			t.Errorf("%s and %s have the link %s", other, owner, name)
		}
		owners[name] = owner
	}
}

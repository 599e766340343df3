package operator

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressesMeanSomething(t *testing.T) {
	o := load(t, "testdata/addresses.yaml")
	for _, c := range []struct{ address, kinds, text string }{
		{"10.71.2.9", "remote-pod", "a pod of cluster b, which knows it as 10.0.2.9 (Peering prod-b: 10.0.0.0/16 is seen as 10.71.0.0/16)"},
		{"fd73:7472:1:5::9", "remote-pod", "which knows it as fd00:10:0:5::9"},
		{"10.73.0.11", "remote-external", "a node, gateway or mapped host of cluster b, which knows it as 10.70.0.11"},
		{"10.0.1.5", "node-pods", "of the pods of node node-1, in 10.0.1.0/24"},
		{"10.0.1.7", "gateway-pod node-pods", "address of the pod of gateway prod-b-0 of Peering prod-b"},
		{"10.0.9.5", "pods", "in the range 10.0.0.0/16 of this cluster's pods, and of no node that there is"},
		{"192.0.2.21", "node", "address of node node-1 itself"},
		{"192.0.2.99", "nodes", "in the range 192.0.2.0/24 of this cluster's nodes"},
		{"10.80.0.1", "node-internal", "internal address of node node-1, on the overlay"},
		{"10.70.0.1", "node-external", "external address of node node-1, as remote clusters know it"},
		{"10.80.255.1", "gateway-internal", "internal address of gateway prod-b-0 of Peering prod-b"},
		{"10.70.0.9", "gateway-external", "external address of gateway prod-b-0"},
		{"10.70.1.9", "mapping", "AddressMapping vm, which stands for 203.0.113.77"},
		{"10.96.0.1", "service", "in the range 10.96.0.0/16 of ClusterIPs"},
		{"10.80.7.7", "pool", "in the internal range 10.80.0.0/16, and nobody's"},
		{"10.90.7.7", "pool", "in the remap pool 10.64.0.0/10, and no remote range is seen there"},
		{"172.30.1.1", "reserved", "in the reserved range 172.30.0.0/16"},
		{"198.51.100.1", "", ""},
	} {
		found := meanings(netip.MustParseAddr(c.address), o.network, o.peerings, o.nodes, o.mappings)
		var kinds []string
		for _, m := range found {
			kinds = append(kinds, m.Kind)
		}
		if got := strings.Join(kinds, " "); got != c.kinds {
			t.Errorf("%s: %s, want %s", c.address, got, c.kinds)
		} else if len(found) > 0 && !strings.Contains(found[0].Text, c.text) {
			t.Errorf("%s: says %q, and should say %q", c.address, found[0].Text, c.text)
		}
	}
}

// TestHostBitsStayOnTheWay looks at every address of a small range.
func TestHostBitsStayOnTheWay(t *testing.T) {
	o := load(t, "testdata/addresses.yaml")
	for host := range 256 {
		address := netip.AddrFrom4([4]byte{10, 71, 3, byte(host)})
		found := meanings(address, o.network, o.peerings, nil, nil)
		if want := fmt.Sprintf("10.0.3.%d", host); len(found) != 1 || found[0].To != want {
			t.Fatalf("%v leads to %+v, want %s", address, found, want)
		}
	}
}

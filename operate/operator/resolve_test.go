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
		{"10.71.2.9", "remote-pod", "a pod of cluster b, where its address is 10.0.2.9 (Peering prod-b: 10.0.0.0/16 is mapped to 10.71.0.0/16)"},
		{"fd73:7472:1:5::9", "remote-pod", "where its address is fd00:10:0:5::9"},
		{"10.73.0.11", "remote-external", "a node, gateway or mapped host of cluster b, where its address is 10.70.0.11"},
		{"10.0.1.5", "node-pods", "in the podCIDR 10.0.1.0/24 of node node-1"},
		{"10.0.1.7", "gateway-pod node-pods", "pod address of gateway prod-b-0 of Peering prod-b"},
		{"10.0.9.5", "pods", "in the pod CIDR 10.0.0.0/16 of this cluster, but in the podCIDRs of no node"},
		{"192.0.2.21", "node", "own address of node node-1"},
		{"192.0.2.99", "nodes", "in the node CIDR 192.0.2.0/24 of this cluster"},
		{"10.80.0.1", "node-internal", "internal address of node node-1 on the overlay"},
		{"10.70.0.1", "node-external", "external address of node node-1 for remote clusters"},
		{"10.80.255.1", "gateway-internal", "internal address of gateway prod-b-0 of Peering prod-b"},
		{"10.70.0.9", "gateway-external", "external address of gateway prod-b-0"},
		{"10.70.1.9", "mapping", "AddressMapping vm, mapped to 203.0.113.77"},
		{"10.96.0.1", "service", "in the Service CIDR 10.96.0.0/16"},
		{"10.80.7.7", "pool", "in the internal CIDR 10.80.0.0/16, not allocated"},
		{"10.90.7.7", "pool", "in the remap pool 10.64.0.0/10, not allocated"},
		{"172.30.1.1", "reserved", "in the reserved CIDR 172.30.0.0/16"},
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

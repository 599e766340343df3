package allocation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/network"
)

func TestGatewaysHaveTheEndOfEachWindow(t *testing.T) {
	for pool, want := range map[string]string{
		"10.80.0.0/16": "10.80.0.0/16 10.80.255.0/24",
		"10.80.0.0/12": "10.80.0.0/16 10.80.255.0/24",
		"10.80.7.0/24": "10.80.7.0/24 10.80.7.192/26",
		"10.80.7.8/29": "10.80.7.8/29 10.80.7.14/31",
		"10.80.7.9/32": "10.80.7.9/32 10.80.7.9/32",
		"fd00:80::/64": "fd00:80::/112 fd00:80::ff00/120",
	} {
		w := window(netip.MustParsePrefix(pool))
		if got := fmt.Sprint(w, gatewayBlock(w)); got != want {
			t.Errorf("%s: %s, want %s", pool, got, want)
		}
	}
}

// Of pools that change while what they gave stays, with one controller after the other.
func TestIndicesAndNumbersAreUniqueWhateverPoolTheyComeFrom(t *testing.T) {
	pools := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	var held []claims.Spec
	indices, numbers := map[int32]string{}, map[int32]string{}
	for i, internal := range [][]netip.Prefix{
		pools("10.80.0.0/26"), pools("10.81.0.0/26", "10.80.0.0/26"), pools("10.82.0.0/25", "10.83.1.0/26"), pools("10.84.0.0/16"),
	} {
		all, err := NewAddresses(&network.Network{Internal: internal}, held)
		if err != nil {
			t.Fatal(err)
		}
		for j := range 200 {
			name := fmt.Sprint(i, "-", j)
			if node, err := all.Nodes[0].Claim(v1alpha1.ClaimOwner{Kind: KindNode, Name: name}); err == nil {
				index := NodeIndex(claims.Grant(node).Prefix.Addr())
				if other := indices[index]; other != "" || index == 0 {
					t.Fatalf("index %d: node %s at %s, and %s", index, name, node.Prefix, other)
				}
				indices[index] = name + " at " + string(node.Prefix)
				held = append(held, node)
			}
			if gateway, err := all.Gateways[0].Claim(v1alpha1.ClaimOwner{Kind: KindGateway, Name: name}); err == nil {
				number := GatewayNumber(claims.Grant(gateway).Prefix.Addr())
				if other := numbers[number]; other != "" || number == 0 {
					t.Fatalf("number %d: gateway %s at %s, and %s", number, name, gateway.Prefix, other)
				}
				numbers[number] = name + " at " + string(gateway.Prefix)
				held = append(held, gateway)
			}
		}
	}
	if len(indices) < 300 || len(numbers) < 200 {
		t.Errorf("%d nodes and %d gateways have addresses: too few to tell", len(indices), len(numbers))
	}
}

func TestWhatAnOwnerHoldsItKeepsUntilTheClusterUsesItOtherwise(t *testing.T) {
	owner := v1alpha1.ClaimOwner{Kind: KindNode, Name: "node-1"}
	held := []claims.Spec{{Prefix: "10.80.0.7/32", Pool: v1alpha1.PoolInternal, Owner: owner}}
	for _, c := range []struct {
		network network.Network
		want    v1alpha1.CIDR
	}{
		{network.Network{Internal: []netip.Prefix{netip.MustParsePrefix("10.80.0.0/16")}}, "10.80.0.7/32"},
		{network.Network{Internal: []netip.Prefix{netip.MustParsePrefix("10.81.0.0/16")}}, "10.80.0.7/32"},
		{network.Network{Internal: []netip.Prefix{netip.MustParsePrefix("10.81.0.0/16")}, Reserved: []netip.Prefix{netip.MustParsePrefix("10.80.0.0/16")}}, "10.81.0.1/32"},
	} {
		all, err := NewAddresses(&c.network, held)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := all.Nodes[0].Claim(owner); err != nil || got.Prefix != c.want {
			t.Errorf("from %v beside %v: %s, %v, want %s", c.network.Internal, c.network.Reserved, got.Prefix, err, c.want)
		}
	}
}

func TestNodesHaveInternalIPv6AddressesWherePodsHaveIPv6(t *testing.T) {
	four, six := netip.MustParsePrefix("10.80.0.0/16"), netip.MustParsePrefix("fd00:80::/64")
	pods4, pods6 := netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00:10::/48")
	for _, c := range []struct {
		internal, pods []netip.Prefix
		want           string
	}{
		{[]netip.Prefix{four, six}, []netip.Prefix{pods4, pods6}, "10.80.0.1/32 fd00:80::1/128"},
		{[]netip.Prefix{four, six}, []netip.Prefix{pods4}, "10.80.0.1/32"},
		{[]netip.Prefix{four}, []netip.Prefix{pods4, pods6}, "10.80.0.1/32"},
		{[]netip.Prefix{six}, []netip.Prefix{pods4}, "fd00:80::1/128"},
	} {
		all, err := NewAddresses(&network.Network{Internal: c.internal, Ranges: network.Ranges{Pods: c.pods}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pool := range all.Nodes {
			claim, err := pool.Claim(v1alpha1.ClaimOwner{Kind: KindNode, Name: "node-1"})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(claim.Prefix))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("pods %v, internal CIDRs %v: %q, want %s", c.pods, c.internal, got, c.want)
		}
	}
}

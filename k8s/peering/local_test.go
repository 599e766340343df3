package peering

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func here() *v1alpha1.ClusterNetwork {
	n := new(v1alpha1.ClusterNetwork)
	n.Spec.ExternalCIDRs = []v1alpha1.CIDR{"10.70.0.0/16"}
	n.Status.ClusterID, n.Status.PodCIDRs = "a", []v1alpha1.CIDR{"10.0.0.0/16", "fd00:10::/48"}
	return n
}

func TestLocalPodsFollowTheCluster(t *testing.T) {
	for _, row := range []struct {
		pods    bool
		written []v1alpha1.CIDR
		network *v1alpha1.ClusterNetwork
		want    []v1alpha1.CIDR
	}{
		{false, nil, here(), nil},
		{true, nil, nil, nil},
		{false, []v1alpha1.CIDR{"10.0.1.0/24"}, nil, []v1alpha1.CIDR{"10.0.1.0/24"}},
		{true, nil, here(), []v1alpha1.CIDR{"10.0.0.0/16", "fd00:10::/48"}},
		{true, []v1alpha1.CIDR{"10.0.1.0/24", "10.9.0.0/16"}, here(), []v1alpha1.CIDR{"10.9.0.0/16", "10.0.0.0/16", "fd00:10::/48"}},
		{true, []v1alpha1.CIDR{"10.0.0.0/16", "10.0.0.0/8"}, here(), []v1alpha1.CIDR{"10.0.0.0/8", "fd00:10::/48"}},
	} {
		p := new(v1alpha1.Peering)
		p.Spec.LocalPods, p.Spec.LocalPrefixes = row.pods, row.written
		if got := LocalPrefixes(p, row.network); !slices.Equal(got, row.want) {
			t.Errorf("%v %v: %v, want %v", row.pods, row.written, got, row.want)
		}
	}
}

// The ranges hold exactly the addresses that are granted, each once.
func TestLocalPrefixesGrantTheSameAddressesEachOnce(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := new(v1alpha1.Peering)
		for range r.IntN(8) {
			at := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(4)), byte(r.IntN(256))}), 22+r.IntN(11)).Masked()
			p.Spec.LocalPrefixes = append(p.Spec.LocalPrefixes, v1alpha1.CIDR(at.String()))
		}
		once := LocalPrefixes(p, nil)
		for i := range 4 * 256 {
			a := v1alpha1.CIDR(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32).String())
			holds := func(c v1alpha1.CIDR) bool { return contains(c, a) }
			times := 0
			for _, c := range once {
				if holds(c) {
					times++
				}
			}
			if granted := slices.ContainsFunc(p.Spec.LocalPrefixes, holds); times > 1 || granted != (times == 1) {
				t.Fatalf("seed %d: of %v came %v: %s is there %d times", seed, p.Spec.LocalPrefixes, once, a, times)
			}
		}
	}
}

func TestWhatThisClusterAnnounces(t *testing.T) {
	p := new(v1alpha1.Peering)
	p.Name, p.Spec.LocalPods = "b", true
	p.Status.Gateways = []v1alpha1.GatewayStatus{
		{Name: "b-0", PublicKey: keyA, NextPublicKey: keyNext, Endpoints: []v1alpha1.Endpoint{"192.0.2.1:51840"}},
		{Name: "b-1", PublicKey: keyB},
		{Name: "b-2"},
	}
	want := v1alpha1.Announcement{
		ClusterID: "a", Prefixes: []v1alpha1.CIDR{"10.0.0.0/16", "fd00:10::/48"}, ExternalPrefixes: []v1alpha1.CIDR{"10.70.0.0/16"},
		Gateways: []v1alpha1.AnnouncedGateway{
			{Name: "b-0", PublicKeys: []v1alpha1.PublicKey{keyNext, keyA}, Endpoints: []v1alpha1.Endpoint{"192.0.2.1:51840"}},
			{Name: "b-1", PublicKeys: []v1alpha1.PublicKey{keyB}},
		},
	}
	if got := Announce(p, here()); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := fmt.Sprint(Announce(p, nil).Prefixes); got != "[]" {
		t.Errorf("without a network it announces %s", got)
	}
}

func TestALenderIsAnnouncedIfTheOtherClusterReachesIt(t *testing.T) {
	fingerprint := v1alpha1.Fingerprint(strings.Repeat("1", 64))
	p := new(v1alpha1.Peering)
	if got := Announce(p, here()).Offload; got != nil {
		t.Errorf("without agents it announces %+v", got)
	}
	p.Spec.Borrow = &v1alpha1.PeeringBorrow{Fingerprint: fingerprint}
	for address, reached := range map[v1alpha1.IP]bool{"10.70.1.9": true, "10.96.0.9": false, "": false} {
		p.Spec.Lend = &v1alpha1.PeeringLend{Lender: &v1alpha1.OffloadLender{Address: address, Port: 6097, Fingerprint: fingerprint}}
		got := Announce(p, here()).Offload
		if got == nil || got.Borrower != fingerprint || (got.Lender != nil) != reached {
			t.Errorf("with a lender at %q it announces %+v", address, got)
		}
	}
}

// A cluster that grants it accepts what another one announces.
func TestTheOtherSideTakesWhatIsAnnounced(t *testing.T) {
	p := new(v1alpha1.Peering)
	p.Spec.LocalPods = true
	p.Status.Gateways = []v1alpha1.GatewayStatus{{Name: "b-0", PublicKey: keyA, NextPublicKey: keyNext, Endpoints: []v1alpha1.Endpoint{"[2001:db8::1]:51840"}}}
	for range 15 { // the most that a status holds
		p.Status.Gateways[0].Endpoints = append(p.Status.Gateways[0].Endpoints, "gw.example:51840")
	}
	a := Announce(p, here())
	there := new(v1alpha1.Peering)
	there.Spec.AcceptPrefixes = []v1alpha1.AcceptedCIDR{"10.0.0.0/8", "fd00:10::/32"}
	if err := Refusal(there, HoldersOf("b", nil), &a); err != nil {
		t.Error(err)
	}
}

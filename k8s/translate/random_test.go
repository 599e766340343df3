package translate

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// What the fields of random objects are chosen from: right, wrong, and in each
// other's way.
var (
	someCIDRs = []v1alpha1.CIDR{
		"10.0.0.0/16", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", "10.0.100.7/32", "10.1.0.0/16", "10.71.0.0/16", "10.72.0.0/16", "10.73.0.0/24",
		"10.70.0.0/16", "10.80.0.0/16", "10.80.0.1/32", "fd00:10::/48", "fd00:10:0:1::/64", "fd00:71::/48", "::ffff:10.0.0.0/112",
		"", "here", "10.0.0.1/16", "0.0.0.0/0", "10.0.0.0/4", "127.0.0.0/8", "224.0.0.0/24", "::/0", "fe80::/64", "10.0.0.0/33",
	}
	someIPs = []v1alpha1.IP{
		"10.80.0.1", "10.80.0.2", "10.80.0.11", "10.80.0.12", "10.80.0.13", "10.70.0.1", "10.70.0.11", "10.70.0.12", "fd00:80::1", "fd00:80::11", "fd00:70::11",
		"10.0.1.5", "10.71.0.5", "192.0.2.21", "192.0.2.22", "2001:db8::21",
		"", "there", "0.0.0.0", "127.0.0.1", "224.0.0.1", "fe80::1%eth0", "::ffff:10.80.0.3",
	}
	someKeys = []v1alpha1.PublicKey{
		"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=", "XcgfvMDKZ8buZIUrAIcmJHgDDB7mGcu7LXzJIdBYdGU=",
		"", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "short",
	}
	someEndpoints = []v1alpha1.Endpoint{"", "", "gw-b.example:51840", "[2001:db8::1]:51840", "0.0.0.0:1", "nowhere", "256.1.1.1:5"}
	someSecrets   = []string{"", "", "b-psk", "elsewhere"}
	someIDs       = []v1alpha1.ClusterID{"a", "b", "b", "c", "", "Not An ID"}
)

// random makes objects.
type random struct{ *rand.Rand }

func pick[T any](r random, from []T) T { return from[r.IntN(len(from))] }

func some[T any](r random, most int, make func() T) []T {
	all := []T{}
	for range r.IntN(most + 1) {
		all = append(all, make())
	}
	return all
}

func (r random) cidrs(most int) []v1alpha1.CIDR {
	return some(r, most, func() v1alpha1.CIDR { return pick(r, someCIDRs) })
}

func (r random) ips(most int) []v1alpha1.IP {
	return some(r, most, func() v1alpha1.IP { return pick(r, someIPs) })
}

func (r random) input() Input {
	in := Input{Settings: settings(), Network: new(v1alpha1.ClusterNetwork), Peering: r.peering(), Now: noon}
	in.Keys, in.InviteUsed = r.keys(), r.IntN(3) == 0
	in.Network.Spec = v1alpha1.ClusterNetworkSpec{InternalCIDRs: r.cidrs(2), ExternalCIDRs: r.cidrs(2), ReservedCIDRs: r.cidrs(1)}
	in.Network.Spec.Overlay.MTU = pick(r, []int32{0, 0, -1, 100, 576, 1000, 1400, 70000})
	in.Network.Status = v1alpha1.ClusterNetworkStatus{ClusterID: pick(r, someIDs), PodCIDRs: r.cidrs(1), ServiceCIDRs: r.cidrs(1), NodeCIDRs: r.cidrs(1)}
	for i := range r.IntN(6) {
		n := &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		n.Spec = v1alpha1.NodeAttachmentSpec{
			Index: pick(r, []int32{0, 1, 1, 2, 3, 65535, 65536, -1}), UnderlayAddresses: r.ips(3),
			InternalAddresses: r.ips(3), ExternalAddresses: r.ips(2), PodCIDRs: r.cidrs(3), PodAddresses: r.cidrs(2),
		}
		n.Status.Gateways = some(r, 1, func() v1alpha1.NodeGateway {
			return v1alpha1.NodeGateway{Name: "b-0", Encapsulation: pick(r, []v1alpha1.Encapsulation{"", v1alpha1.VXLAN, v1alpha1.Userspace, "gre"})}
		})
		in.Nodes = append(in.Nodes, n)
	}
	return in
}

// keys are those of the gateway, of some generations and perhaps an invite.
func (r random) keys() (keys []OwnKey) {
	for _, generation := range []int32{3, 2, 1, invited} {
		if r.IntN(2) == 0 {
			keys = append(keys, OwnKey{File: fmt.Sprintf("/etc/strait/keys/%d.key", generation), Public: config.Key{byte(generation), 1: 7}, Generation: generation})
		}
	}
	return keys
}

// time is around noon, or none.
func (r random) time() *metav1.Time {
	return pick(r, []*metav1.Time{nil, {Time: noon.Add(-time.Hour)}, {Time: noon.Add(time.Hour)}})
}

// announcement is one that is granted now and then.
func (r random) announcement() v1alpha1.Announcement {
	a := v1alpha1.Announcement{Revision: 1, ClusterID: pick(r, someIDs), Prefixes: r.cidrs(2), ExternalPrefixes: r.cidrs(1)}
	if at := r.time(); at != nil {
		a.HeardAt = &metav1.MicroTime{Time: at.Time}
	}
	a.Gateways = some(r, 3, func() v1alpha1.AnnouncedGateway {
		return v1alpha1.AnnouncedGateway{
			Name: pick(r, []string{"b-1", "b-2", "b-3", "b-4", ""}), Endpoints: some(r, 2, func() v1alpha1.Endpoint { return pick(r, someEndpoints) }),
			PublicKeys: some(r, 2, func() v1alpha1.PublicKey { return pick(r, someKeys) }),
		}
	})
	return a
}

func (r random) peering() *v1alpha1.Peering {
	p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	p.Spec = v1alpha1.PeeringSpec{
		ClusterID: pick(r, someIDs), LocalPrefixes: r.cidrs(3), LocalPods: r.IntN(3) == 0,
		AcceptPrefixes: append(some(r, 2, func() v1alpha1.AcceptedCIDR { return v1alpha1.AcceptedCIDR(pick(r, someCIDRs)) }), "10.0.0.0/8"), InviteUntil: r.time(),
	}
	if announced := some(r, 2, r.announcement); len(announced) > 0 {
		p.Status.Announcement = &announced[0]
	}
	for _, list := range []struct {
		wanted  *v1alpha1.RemotePrefixes
		inForce *[]v1alpha1.SeenPrefix
	}{{&p.Spec.Prefixes, &p.Status.Prefixes}, {&p.Spec.ExternalPrefixes, &p.Status.ExternalPrefixes}} {
		for range r.IntN(5) {
			cidr := pick(r, someCIDRs)
			if r.IntN(5) > 0 {
				*list.wanted = append(*list.wanted, v1alpha1.RemotePrefix{CIDR: cidr})
			}
			*list.inForce = append(*list.inForce, v1alpha1.SeenPrefix{CIDR: cidr, SeenAs: pick(r, someCIDRs)})
		}
	}
	names := 0
	p.Spec.Peers = some(r, 3, func() v1alpha1.Peer {
		names++
		return v1alpha1.Peer{
			Name: fmt.Sprintf("b-%d", names), PublicKey: pick(r, someKeys), Endpoint: pick(r, someEndpoints), PresharedKeySecretName: pick(r, someSecrets),
			PersistentKeepalive: pick(r, []*metav1.Duration{nil, {Duration: 25 * time.Second}, {Duration: time.Millisecond}, {Duration: -1}}), NotAfter: r.time(),
		}
	})
	p.Status.Gateways = []v1alpha1.GatewayStatus{{Name: "b-0", Number: pick(r, []int32{1, 1, 255, 0, 256}), KeyGeneration: pick(r, []int32{0, 1, 2, 3}), InternalAddresses: r.ips(3), ExternalAddresses: r.ips(2)}}
	return p
}

func TestT7_T15_RandomObjectsNeverGiveAnInvalidConfigurationNorMoreThanIsGranted(t *testing.T) {
	served := 0
	for seed := range uint64(5000) {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		in := r.input()
		c, problems := Gateway(in)
		if c == nil {
			if len(problems) == 0 {
				t.Fatalf("seed %d: nothing to serve, and no reason told", seed)
			}
			continue
		}
		served++
		if err := c.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := Withdrawn(c).Validate(); err != nil {
			t.Fatalf("seed %d, withdrawn: %v", seed, err)
		}
		if _, err := gateway.NewTable(c, gateway.MTUs{Overlay: 1400, Tunnel: 1400}, nil); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkGrants(t, seed, in, c)

		r.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
		if again, told := Gateway(in); !reflect.DeepEqual(again, c) || !slices.Equal(told, problems) {
			t.Fatalf("seed %d: in another order the objects give\n%+v\n%v\nand not\n%+v\n%v", seed, again, told, c, problems)
		}
	}
	if served < 300 {
		t.Errorf("only %d of the inputs gave a configuration: they test too little", served)
	}
}

// checkGrants checks that a configuration grants and routes nothing that no object does.
func checkGrants(t *testing.T, seed uint64, in Input, c *config.Gateway) {
	t.Helper()
	remote := peering.RemoteOf(in.Peering, in.Now)
	for _, p := range c.Local.Prefixes {
		if !slices.Contains(peering.LocalPrefixes(in.Peering, in.Network), v1alpha1.CIDR(p.String())) {
			t.Errorf("seed %d: grants %s here", seed, p)
		}
	}
	inForce := slices.Concat(in.Peering.Status.Prefixes, in.Peering.Status.ExternalPrefixes)
	wanted := slices.Concat(remote.Prefixes, remote.ExternalPrefixes)
	for _, p := range c.Remote.Prefixes {
		cidr, seenAs := v1alpha1.CIDR(p.CIDR.String()), v1alpha1.CIDR(p.SeenAs.String())
		if !slices.Contains(inForce, v1alpha1.SeenPrefix{CIDR: cidr, SeenAs: seenAs}) ||
			!slices.ContainsFunc(wanted, func(w v1alpha1.RemotePrefix) bool { return w.CIDR == cidr }) {
			t.Errorf("seed %d: takes %s as %s", seed, cidr, seenAs)
		}
	}
	checkPeers(t, seed, in, c, remote)
	for _, n := range c.Overlay.Nodes {
		i := slices.IndexFunc(in.Nodes, func(a *v1alpha1.NodeAttachment) bool { return a.Name == n.Name })
		if number := in.Peering.Status.Gateways[0].Number; number < 1 || number > 255 || n.VNI != uint32(in.Nodes[i].Spec.Index)*256+uint32(number) {
			t.Errorf("seed %d: gateway %d knows node %d by VNI %d", seed, number, in.Nodes[i].Spec.Index, n.VNI)
		}
		for _, p := range n.Prefixes {
			spec := in.Nodes[i].Spec
			if !slices.Contains(slices.Concat(spec.PodCIDRs, spec.PodAddresses), v1alpha1.CIDR(p.String())) {
				t.Errorf("seed %d: routes %s to %s", seed, p, n.Name)
			}
		}
	}
}

// checkPeers checks that every peer is one that is trusted now, with a key that counts.
func checkPeers(t *testing.T, seed uint64, in Input, c *config.Gateway, remote peering.Remote) {
	t.Helper()
	keys := make(map[config.Key]string)
	for i := range c.WireGuard.Peers {
		p := &c.WireGuard.Peers[i]
		j := slices.IndexFunc(remote.Gateways, func(g peering.Gateway) bool {
			return g.Name == p.RemoteGateway() && slices.Contains(g.PublicKeys, v1alpha1.PublicKey(p.PublicKey.String()))
		})
		if j < 0 || (remote.Gateways[j].PresharedKeySecretName != "") != (p.PresharedKeyFile != "") {
			t.Errorf("seed %d: peer %+v", seed, p)
		}
		if owner, taken := keys[p.PublicKey]; taken && owner != p.RemoteGateway() {
			t.Errorf("seed %d: %s and %s have one key", seed, owner, p.RemoteGateway())
		}
		keys[p.PublicKey] = p.RemoteGateway()
		k := slices.IndexFunc(in.Keys, func(k OwnKey) bool { return k.File == c.WireGuard.OwnKeyFile(p) })
		if k < 0 {
			t.Errorf("seed %d: an own key of %s", seed, c.WireGuard.OwnKeyFile(p))
			continue
		}
		until := in.Peering.Spec.InviteUntil
		switch generation := in.Keys[k].Generation; {
		case generation == invited && (in.InviteUsed || until == nil || !until.After(in.Now)):
			t.Errorf("seed %d: the invite's key is in use", seed)
		case generation != invited && generation < in.Peering.Status.Gateways[0].KeyGeneration:
			t.Errorf("seed %d: key %d is in use", seed, generation)
		}
	}
}

func BenchmarkGateway(b *testing.B) {
	in := Input{Settings: settings(), Network: new(v1alpha1.ClusterNetwork), Peering: &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	in.Network.Spec.InternalCIDRs = []v1alpha1.CIDR{"10.80.0.0/16"}
	in.Network.Status.ClusterID = "a"
	in.Peering.Spec.ClusterID = "b"
	in.Peering.Status.Gateways = []v1alpha1.GatewayStatus{{Name: "b-0", Number: 1, InternalAddresses: []v1alpha1.IP{"10.80.0.1"}}}
	for i := range 5000 {
		n := &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		n.Spec = v1alpha1.NodeAttachmentSpec{
			Index: int32(i + 1), UnderlayAddresses: []v1alpha1.IP{v1alpha1.IP(fmt.Sprintf("192.168.%d.%d", i>>8, i&255))},
			InternalAddresses: []v1alpha1.IP{v1alpha1.IP(fmt.Sprintf("10.80.%d.%d", 1+i>>8, i&255))},
			PodCIDRs:          []v1alpha1.CIDR{v1alpha1.CIDR(fmt.Sprintf("10.%d.%d.0/24", 100+i>>8, i&255))},
		}
		for pod := range 20 { // as many as 100,000 pods have
			n.Spec.PodAddresses = append(n.Spec.PodAddresses, v1alpha1.CIDR(fmt.Sprintf("100.%d.%d.%d/32", 64+(i*20+pod)>>16, (i*20+pod)>>8&255, (i*20+pod)&255)))
		}
		in.Nodes = append(in.Nodes, n)
	}
	for b.Loop() {
		if c, problems := Gateway(in); len(problems) > 0 || len(c.Overlay.Nodes) != 5000 {
			b.Fatal(problems)
		}
	}
}

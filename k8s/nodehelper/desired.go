package nodehelper

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/node"
)

// computeDesired returns the desired state of the node. It is always valid: invalid parts
// are left out and reported.
func computeDesired(in input) output {
	t := &translation{input: in, out: output{serving: map[string]bool{}, owners: map[netip.Prefix]string{}, answers: in.answers}, vnis: map[uint32]string{}}
	t.reserve()
	if in.attachment != nil {
		own := cidrs.Addrs(in.attachment.Spec.InternalAddresses)
		if (node.Desired{Addresses: own}).Validate() == nil {
			t.out.desired.Addresses = own
		}
		t.out.desired.Pods = t.pods()
		t.out.desired.LocalPods = append(cidrs.Valid(in.attachment.Spec.PodCIDRs), cidrs.Valid(in.attachment.Spec.PodAddresses)...)
	}
	sorted := client.OldestFirst(in.peerings)
	for _, p := range sorted {
		for _, g := range p.Status.Gateways {
			t.gateway(p, g)
		}
	}
	slices.SortFunc(t.out.gateways, func(a, b gateway) int { return cmp.Compare(a.Name, b.Name) })
	for _, g := range t.out.gateways {
		if g.problem == "" {
			t.out.desired.Gateways = append(t.out.desired.Gateways, g.Gateway)
			t.out.reserved.hosts("gateway "+g.Name, append([]netip.Addr{g.Underlay}, g.Addresses...)...)
		}
	}
	for _, p := range sorted {
		t.routes(p)
	}
	t.remote()
	for i := range t.out.gateways {
		g := &t.out.gateways[i]
		g.state, g.inUse = states[t.usability(g.Name)], t.out.serving[g.Name]
	}
	return t.out
}

type translation struct {
	input
	out  output
	vnis map[uint32]string // gateways by VNI
}

// pods returns the CIDRs of pods whose packets keep their source address.
func (t *translation) pods() []netip.Prefix {
	pods := cidrs.Valid(t.attachment.Spec.PodCIDRs)
	if t.network != nil {
		pods = append(pods, cidrs.Valid(t.network.Status.PodCIDRs)...)
	}
	return pods
}

// reserve records the CIDRs in use in this cluster: no remote CIDR may overlap them,
// whatever an object contains.
func (t *translation) reserve() {
	if t.network != nil {
		s, spec := t.network.Status, t.network.Spec
		t.out.reserved.add("the pods of this cluster", cidrs.Valid(s.PodCIDRs)...)
		t.out.reserved.add("the Services of this cluster", cidrs.Valid(s.ServiceCIDRs)...)
		t.out.reserved.add("the nodes of this cluster", cidrs.Valid(s.NodeCIDRs)...)
		t.out.reserved.hosts("the API server of this cluster", cidrs.Addrs(s.APIServers)...)
		t.out.reserved.add("the internal addresses of this cluster", cidrs.Valid(spec.InternalCIDRs)...)
		t.out.reserved.add("the external addresses of this cluster", cidrs.Valid(spec.ExternalCIDRs)...)
		t.out.reserved.add("spec.reservedCIDRs of the ClusterNetwork", cidrs.Valid(spec.ReservedCIDRs)...)
	}
	t.out.reserved.hosts("a resolver of this node", t.resolvers...)
	if t.attachment != nil {
		t.out.reserved.add("the pods of this node", cidrs.Valid(t.attachment.Spec.PodCIDRs)...)
		t.out.reserved.hosts("this node", cidrs.Addrs(t.attachment.Spec.UnderlayAddresses)...)
		t.out.reserved.hosts("this node on the overlay", cidrs.Addrs(t.attachment.Spec.InternalAddresses)...)
	}
}

// gateway adds a gateway, or the reason why there is no overlay link to it.
func (t *translation) gateway(p *v1alpha1.Peering, s v1alpha1.GatewayStatus) {
	if slices.ContainsFunc(t.out.gateways, func(g gateway) bool { return g.Name == s.Name }) {
		t.out.problems = append(t.out.problems, fmt.Sprintf("Peering %s: gateway %s belongs to another Peering; delete the entry, which Strait's controller did not write", p.Name, s.Name))
		return
	}
	g := gateway{peering: p.Name, Gateway: node.Gateway{
		Name: s.Name, Addresses: cidrs.Addrs(s.InternalAddresses), MTU: int(s.MTU), LocalNodes: p.Spec.LocalNodes == v1alpha1.LocalNodesAllow,
	}}
	g.problem = t.complete(&g.Gateway, s)
	if from := t.sources[g.Underlay]; from.IsValid() && !slices.Contains(cidrs.Addrs(t.attachment.Spec.UnderlayAddresses), from) {
		g.source = from
	}
	if g.Encapsulation == node.Userspace {
		g.note = fmt.Sprintf("the kernel has %s; the node helper encapsulates packets in userspace, which needs more CPU and loses packets when it restarts", t.support.Lacks)
	}
	t.out.gateways = append(t.out.gateways, g)
}

// complete sets the fields of a gateway, or returns why that is not possible.
func (t *translation) complete(g *node.Gateway, s v1alpha1.GatewayStatus) string {
	switch {
	case t.network == nil:
		return "ClusterNetwork default does not exist; create it"
	case t.attachment == nil:
		return "this node has no NodeAttachment; check that Strait's controller runs"
	case s.Number == 0 || len(g.Addresses) == 0:
		return "Strait's controller has not assigned a number and an internal address to the gateway yet"
	case len(s.PodAddresses) == 0 || s.MTU == 0:
		return "the gateway has not reported its addresses and MTU yet; check that its pod runs"
	}
	g.VNI = v1alpha1.VNI(t.attachment.Spec.Index, s.Number)
	if other, taken := t.vnis[g.VNI]; taken {
		return fmt.Sprintf("the gateway has the same number %d as %s; wait for Strait's controller, or delete one of them", s.Number, other)
	}
	g.Underlay = t.underlay(s)
	if !g.Underlay.IsValid() {
		return fmt.Sprintf("the gateway's pod has addresses %v and the node %v: no common IP family; run pods with both IP families", s.PodAddresses, t.attachment.Spec.UnderlayAddresses)
	}
	var err error
	if g.Encapsulation, err = t.support.Choose(t.encapsulation()); err != nil {
		return err.Error()
	}
	alone := node.Desired{Addresses: t.out.desired.Addresses, Gateways: []node.Gateway{*g}}
	if err := alone.Validate(); err != nil {
		return err.Error()
	}
	if !(gateway{Gateway: *g}).probe(alone).IsValid() {
		return fmt.Sprintf("the gateway has internal addresses %v and the node %v: no common IP family; configure pools of both IP families in spec.internalCIDRs", g.Addresses, alone.Addresses)
	}
	t.vnis[g.VNI] = g.Name
	return ""
}

// underlay returns the first address of the gateway's pod of an IP family that the node
// has; the gateway selects the node's address in the same way.
func (t *translation) underlay(s v1alpha1.GatewayStatus) netip.Addr {
	ours := cidrs.Addrs(t.attachment.Spec.UnderlayAddresses)
	for _, theirs := range cidrs.Addrs(s.PodAddresses) {
		if slices.ContainsFunc(ours, func(a netip.Addr) bool { return a.Is4() == theirs.Is4() }) {
			return theirs
		}
	}
	return netip.Addr{}
}

// encapsulation returns the requested encapsulation; empty: any.
func (t *translation) encapsulation() node.Encapsulation {
	switch t.network.Spec.Overlay.Encapsulation {
	case v1alpha1.EncapsulationGeneve:
		return node.Geneve
	case v1alpha1.EncapsulationVXLAN:
		return node.VXLAN
	}
	return ""
}

// routes adds the routes of a peering to the gateways that serve it. Without a
// ClusterNetwork it is not known which CIDRs they would hide, and no routes are added.
func (t *translation) routes(p *v1alpha1.Peering) {
	if t.network == nil {
		return
	}
	to := ""
	if g := t.group(p); len(g.Gateways) > 0 {
		to = g.Name
		t.out.desired.Groups = append(t.out.desired.Groups, g)
		for _, name := range g.Gateways {
			t.out.serving[name] = true
		}
	}
	for _, s := range slices.Concat(p.Status.Prefixes, p.Status.ExternalPrefixes) {
		prefix, err := netip.ParsePrefix(string(s.SeenAs))
		if err != nil {
			t.leaveOut(p, string(s.SeenAs), "is not a prefix")
			continue
		}
		if what, is := t.out.reserved.overlapping(prefix); is {
			t.leaveOut(p, prefix.String(), "overlaps "+what)
			continue
		}
		if err := (node.Desired{Routes: []node.Route{{Prefix: prefix}}}).Validate(); err != nil {
			t.leaveOut(p, prefix.String(), err.Error())
			continue
		}
		t.out.reserved.add("a mapped CIDR of Peering "+p.Name, prefix)
		t.out.owners[prefix] = p.Name
		t.out.desired.Routes = append(t.out.desired.Routes, node.Route{Prefix: prefix, Group: to})
	}
}

// remote sets the CIDRs of the remote cluster of each gateway: those of its Peering that are routed.
func (t *translation) remote() {
	peerings := map[string]string{}
	for _, g := range t.out.gateways {
		peerings[g.Name] = g.peering
	}
	for i := range t.out.desired.Gateways {
		g := &t.out.desired.Gateways[i]
		for _, r := range t.out.desired.Routes {
			if t.out.owners[r.Prefix] == peerings[g.Name] {
				g.Remote = append(g.Remote, r.Prefix)
			}
		}
	}
}

func (t *translation) leaveOut(p *v1alpha1.Peering, what, why string) {
	t.out.problems = append(t.out.problems, fmt.Sprintf("Peering %s: seenAs %s is not routed: it %s; map the remote CIDR to another CIDR", p.Name, what, why))
}

// reservedPrefixes are CIDRs in use, each with a description.
type reservedPrefixes struct{ all []reservedPrefix }

type reservedPrefix struct {
	prefix netip.Prefix
	what   string
}

func (t *reservedPrefixes) add(what string, prefixes ...netip.Prefix) {
	for _, p := range prefixes {
		t.all = append(t.all, reservedPrefix{p, what})
	}
}

func (t *reservedPrefixes) hosts(what string, addresses ...netip.Addr) {
	for _, a := range addresses {
		t.add(what, netip.PrefixFrom(a, a.BitLen()))
	}
}

func (t *reservedPrefixes) overlapping(p netip.Prefix) (what string, is bool) {
	for _, m := range t.all {
		if m.prefix.Overlaps(p) {
			return m.what + ", " + m.prefix.String(), true
		}
	}
	return "", false
}

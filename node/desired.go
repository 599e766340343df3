//go:build linux

package node

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Desired is the desired state of a node's kernel. It is plain data and must not be
// modified after it has been passed on.
type Desired struct {
	// Addresses are the node's internal addresses, at most one per family.
	Addresses []netip.Addr

	// Pods are the CIDRs of this cluster's pods: sources that keep their addresses on the
	// path to gateways. Other sources get the internal address of the node.
	Pods []netip.Prefix

	// LocalPods are the addresses of this node's own pods: the destinations to which gateways may
	// send. The empty list allows none.
	LocalPods []netip.Prefix

	Gateways []Gateway

	// Groups are the sets of gateways over which flows are spread.
	Groups []Group

	// Routes are the CIDRs to which other clusters are mapped, each once.
	Routes []Route

	// Nothing removes everything that belongs to Strait, including the rules for source
	// addresses. All other fields must be empty then.
	Nothing bool
}

// Gateway is the node's end of the overlay to one gateway.
type Gateway struct {
	Name          string
	Underlay      netip.Addr   // of its pod: the destination of frames
	Addresses     []netip.Addr // its internal addresses, at most one per family
	VNI           uint32       // 1 to 16777215, unique on this node
	Encapsulation Encapsulation
	MTU           int // the largest IP packet in bytes

	// Remote are the CIDRs to which the gateway's remote cluster is mapped: the sources of the
	// packets that it may send, in addition to its own addresses. Those that are not in the routes of the
	// node do not count.
	Remote []netip.Prefix
	// LocalNodes lets the remote cluster open connections to the node itself, not only answer
	// those of the node.
	LocalNodes bool
}

// Group is a set of gateways that forward the same packets. The kernel spreads flows over them.
// A group keeps its name while its gateways change: then only the flows of a gateway that is
// taken out move.
type Group struct {
	Name     string
	Gateways []string // by name, those in use; none: the packets are dropped
	// MTU is the size in bytes of the largest packet that all gateways accept, also those that
	// are not in use: routes must not change when a gateway is taken out.
	MTU int
}

// Route says which gateways the packets to a CIDR of another cluster go to.
type Route struct {
	Prefix netip.Prefix
	Group  string // its name; empty: the packets are dropped
}

// The widest prefixes that can be routed.
const (
	widest4 = 8
	widest6 = 16
)

// minMTU is the packet size that every IPv4 host accepts (RFC 791, section 3.1), minMTU6
// the MTU that every IPv6 link has (RFC 8200, section 5). A gateway with a smaller MTU than
// minMTU6 has no IPv6.
const (
	minMTU  = 576
	minMTU6 = 1280
)

const maxVNI = 1<<24 - 1

// Validate returns an error if d cannot be applied as a whole. It rejects routes that would
// cut the node off from its gateways or take over its network.
func (d Desired) Validate() error {
	if d.Nothing && len(d.Addresses)+len(d.Pods)+len(d.LocalPods)+len(d.Gateways)+len(d.Groups)+len(d.Routes) > 0 {
		return errors.New("node: Nothing is set together with other fields; set one or the other")
	}
	if err := onePerFamily(d.Addresses); err != nil {
		return fmt.Errorf("node: internal addresses of the node: %w", err)
	}
	if len(d.Gateways) > 0 && len(d.Addresses) == 0 {
		return errors.New("node: the node has no internal address; set one, which gateways send replies to")
	}
	names, vnis := map[string]bool{}, map[uint32]string{}
	by := map[Encapsulation]string{}
	for _, g := range d.Gateways {
		if err := g.validate(); err != nil {
			return fmt.Errorf("node: gateway %q: %w", g.Name, err)
		}
		if names[g.Name] {
			return fmt.Errorf("node: gateway %q is listed twice; give each gateway a unique name", g.Name)
		}
		if other, taken := vnis[g.VNI]; taken {
			return fmt.Errorf("node: gateways %q and %q have VNI %d; give each gateway a unique VNI", other, g.Name, g.VNI)
		}
		names[g.Name], vnis[g.VNI], by[g.Encapsulation] = true, g.Name, g.Name
	}
	if by[Geneve] != "" && by[Userspace] != "" {
		return fmt.Errorf("node: gateways %q and %q need the same UDP port, one in the kernel and one in this process; use %s for both", by[Geneve], by[Userspace], Geneve)
	}
	groups := map[string]bool{}
	for _, g := range d.Groups {
		if err := g.validate(names); err != nil {
			return fmt.Errorf("node: group %q: %w", g.Name, err)
		}
		if groups[g.Name] {
			return fmt.Errorf("node: group %q is listed twice; give each group a unique name", g.Name)
		}
		groups[g.Name] = true
	}
	seen := map[netip.Prefix]bool{}
	for _, r := range d.Routes {
		if err := d.validateRoute(r); err != nil {
			return fmt.Errorf("node: route %s: %w", r.Prefix, err)
		}
		if seen[r.Prefix] {
			return fmt.Errorf("node: route %s is listed twice; route it to one group", r.Prefix)
		}
		if r.Group != "" && !groups[r.Group] {
			return fmt.Errorf("node: route %s: group %q does not exist; add it, or leave the group empty to drop the packets", r.Prefix, r.Group)
		}
		seen[r.Prefix] = true
	}
	return nil
}

// validate checks a group. gateways are the names of the existing ones.
func (g Group) validate(gateways map[string]bool) error {
	if g.Name == "" {
		return errors.New("it has no name; set one")
	}
	if g.MTU < minMTU || g.MTU > 65535 {
		return fmt.Errorf("MTU %d is out of range; use %d to 65535", g.MTU, minMTU)
	}
	for i, name := range g.Gateways {
		if !gateways[name] {
			return fmt.Errorf("gateway %q does not exist; add it, or take it out of the group", name)
		}
		if slices.Contains(g.Gateways[:i], name) {
			return fmt.Errorf("gateway %q is listed twice", name)
		}
	}
	return nil
}

func (g Gateway) validate() error {
	switch {
	case !ordinary(g.Underlay):
		return fmt.Errorf("underlay address %s is not a unicast host address; use the address of the gateway's pod", g.Underlay)
	case g.VNI < 1 || g.VNI > maxVNI:
		return fmt.Errorf("VNI %d is out of range; use 1 to %d", g.VNI, maxVNI)
	case g.MTU < minMTU || g.MTU > 65535:
		return fmt.Errorf("MTU %d is out of range; use %d to 65535", g.MTU, minMTU)
	case g.Encapsulation != Geneve && g.Encapsulation != VXLAN && g.Encapsulation != Userspace:
		return fmt.Errorf("encapsulation %q is unknown; use %s, %s or %s", g.Encapsulation, Geneve, VXLAN, Userspace)
	}
	for _, p := range g.Remote {
		if p != p.Masked() || !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("remote CIDR %s is not a prefix in canonical form; write it like 10.71.0.0/16", p)
		}
	}
	if len(g.Addresses) == 0 {
		return errors.New("no internal address; set one")
	}
	if err := onePerFamily(g.Addresses); err != nil {
		return fmt.Errorf("internal addresses: %w", err)
	}
	return nil
}

func (d Desired) validateRoute(r Route) error {
	widest := widest4
	if r.Prefix.Addr().Is6() {
		widest = widest6
	}
	if !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() || r.Prefix.Addr().Is4In6() {
		return fmt.Errorf("not a prefix in canonical form; write it like 10.71.0.0/16")
	}
	if r.Prefix.Bits() < widest {
		return fmt.Errorf("wider than /%d: it would take over the node's own network; use longer prefixes", widest)
	}
	for _, g := range d.Gateways {
		for _, a := range append([]netip.Addr{g.Underlay}, g.Addresses...) {
			if r.Prefix.Contains(a) {
				return fmt.Errorf("contains %s of gateway %q, which would become unreachable; map the other cluster to another CIDR", a, g.Name)
			}
		}
	}
	for _, a := range d.Addresses {
		if r.Prefix.Contains(a) {
			return fmt.Errorf("contains the node's own address %s; map the other cluster to another CIDR", a)
		}
	}
	return nil
}

func onePerFamily(addresses []netip.Addr) error {
	var had [2]bool
	for _, a := range addresses {
		if !ordinary(a) {
			return fmt.Errorf("%s is not a unicast host address", a)
		}
		if had[familyOf(a)] {
			return fmt.Errorf("%s is the second of its family; set at most one IPv4 and one IPv6 address", a)
		}
		had[familyOf(a)] = true
	}
	return nil
}

// ordinary reports whether a can be the address of another host.
func ordinary(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.IsLinkLocalUnicast()
}

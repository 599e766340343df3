package node

import (
	"errors"
	"fmt"
	"net/netip"
)

// Desired is what a node's kernel shall do. It is plain data and does not change after
// it has been given away.
type Desired struct {
	// Addresses are the node's internal ones, one of a family at most.
	Addresses []netip.Addr

	// Pods are the ranges of this cluster's pods: sources that keep their addresses on
	// the way to gateways. Other sources get the internal address of the node.
	Pods []netip.Prefix

	Gateways []Gateway

	// Routes are the ranges of other clusters as this one sees them, each once.
	Routes []Route

	// Nothing is true where nothing of ours is to be there at all, not even the rules for
	// source addresses. All the rest is empty then.
	Nothing bool
}

// Gateway is the node's end of the overlay to one gateway.
type Gateway struct {
	Name          string
	Underlay      netip.Addr   // of its pod: frames go there
	Addresses     []netip.Addr // its internal ones, one of a family at most
	VNI           uint32       // 1 to 16777215, its own at this node
	Encapsulation Encapsulation
	MTU           int // the largest IP packet, bytes
}

// Route is where a range of another cluster goes.
type Route struct {
	Prefix  netip.Prefix
	Gateway string // its name; empty: nowhere, the packets are dropped
}

// The widest ranges that are routed. A wider one would take over most of what the
// node does.
const (
	widest4 = 8
	widest6 = 16
)

// minMTU is what every IPv4 host takes (RFC 791, section 3.1), minMTU6 what every link
// of IPv6 carries (RFC 8200, section 5). A gateway with less than that has no IPv6.
const (
	minMTU  = 576
	minMTU6 = 1280
)

const maxVNI = 1<<24 - 1

// Validate says what cannot be done, so that nothing is done by half. It refuses
// routes that would cut the node off from its gateways or take over its network.
func (d Desired) Validate() error {
	if d.Nothing && len(d.Addresses)+len(d.Pods)+len(d.Gateways)+len(d.Routes) > 0 {
		return errors.New("node: nothing is desired, and something; leave out the one or the other")
	}
	if err := onePerFamily(d.Addresses); err != nil {
		return fmt.Errorf("node: internal addresses of the node: %w", err)
	}
	if len(d.Gateways) > 0 && len(d.Addresses) == 0 {
		return errors.New("node: the node has no internal address; give it one, so that gateways can answer it")
	}
	names, vnis := map[string]bool{}, map[uint32]string{}
	by := map[Encapsulation]string{}
	for _, g := range d.Gateways {
		if err := g.validate(); err != nil {
			return fmt.Errorf("node: gateway %q: %w", g.Name, err)
		}
		if names[g.Name] {
			return fmt.Errorf("node: gateway %q is there twice; give each a name of its own", g.Name)
		}
		if other, taken := vnis[g.VNI]; taken {
			return fmt.Errorf("node: gateways %q and %q have VNI %d; give each a VNI of its own", other, g.Name, g.VNI)
		}
		names[g.Name], vnis[g.VNI], by[g.Encapsulation] = true, g.Name, g.Name
	}
	if by[Geneve] != "" && by[Userspace] != "" {
		return fmt.Errorf("node: gateways %q and %q need one UDP port, for the kernel and for this process; use %s for both", by[Geneve], by[Userspace], Geneve)
	}
	seen := map[netip.Prefix]bool{}
	for _, r := range d.Routes {
		if err := d.validateRoute(r); err != nil {
			return fmt.Errorf("node: route %s: %w", r.Prefix, err)
		}
		if seen[r.Prefix] {
			return fmt.Errorf("node: route %s is there twice; send it to one gateway", r.Prefix)
		}
		if r.Gateway != "" && !names[r.Gateway] {
			return fmt.Errorf("node: route %s: gateway %q is not known; add it, or leave the gateway out to drop the packets", r.Prefix, r.Gateway)
		}
		seen[r.Prefix] = true
	}
	return nil
}

func (g Gateway) validate() error {
	switch {
	case !ordinary(g.Underlay):
		return fmt.Errorf("underlay address %s is not one of a host; give the address of the gateway's pod", g.Underlay)
	case g.VNI < 1 || g.VNI > maxVNI:
		return fmt.Errorf("VNI %d does not exist; use 1 to %d", g.VNI, maxVNI)
	case g.MTU < minMTU || g.MTU > 65535:
		return fmt.Errorf("MTU %d is not one that every packet can rely on; use %d to 65535", g.MTU, minMTU)
	case g.Encapsulation != Geneve && g.Encapsulation != VXLAN && g.Encapsulation != Userspace:
		return fmt.Errorf("encapsulation %q does not exist; use %s, %s or %s", g.Encapsulation, Geneve, VXLAN, Userspace)
	}
	if len(g.Addresses) == 0 {
		return errors.New("it has no internal address; give it one")
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
		return fmt.Errorf("is not a prefix in canonical form; write it like 10.71.0.0/16")
	}
	if r.Prefix.Bits() < widest {
		return fmt.Errorf("is wider than /%d and would take over the node's own network; use longer prefixes", widest)
	}
	for _, g := range d.Gateways {
		for _, a := range append([]netip.Addr{g.Underlay}, g.Addresses...) {
			if r.Prefix.Contains(a) {
				return fmt.Errorf("holds %s of gateway %q, which would then not be reached; see the other cluster in another range", a, g.Name)
			}
		}
	}
	for _, a := range d.Addresses {
		if r.Prefix.Contains(a) {
			return fmt.Errorf("holds the node's own address %s; see the other cluster in another range", a)
		}
	}
	return nil
}

// onePerFamily checks internal addresses.
func onePerFamily(addresses []netip.Addr) error {
	var had [2]bool
	for _, a := range addresses {
		if !ordinary(a) {
			return fmt.Errorf("%s is not an address of a host", a)
		}
		if had[familyOf(a)] {
			return fmt.Errorf("there is a second one of a family, %s; give one IPv4 and one IPv6 address at most", a)
		}
		had[familyOf(a)] = true
	}
	return nil
}

// ordinary reports whether a can be the address of a host elsewhere.
func ordinary(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.IsLinkLocalUnicast()
}

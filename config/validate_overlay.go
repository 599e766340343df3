package config

import "net/netip"

// overlay checks the listeners and the nodes, except for addresses and prefixes, which ranges checks.
func (c *checker) overlay(o *Overlay, w *WireGuard) {
	section := root("overlay")
	geneve, vxlan := section.field("listen"), section.field("vxlanListen")
	c.listener(geneve, o.Listen)
	c.listener(vxlan, o.VXLANListen)
	if collide(o.Listen, o.VXLANListen) {
		c.add(vxlan, "choose another port", "is taken by overlay.listen")
	}
	if wireGuard := (ListenAddress{Port: w.ListenPort}); collide(o.Listen, wireGuard) || collide(o.VXLANListen, wireGuard) {
		c.add(root("wireguard").field("listenPort"), "choose another port", "%d is taken by the overlay", w.ListenPort)
	}

	names := make(map[string]*place, len(o.Nodes))
	frames := make(map[frameKey]*place, len(o.Nodes))
	for i := range o.Nodes {
		n, at := &o.Nodes[i], section.field("nodes").item(i)
		c.name(at.field("name"), n.Name, names)
		c.underlay(at.field("underlay"), n.Underlay)
		c.encapsulation(at, n, o)
		if n.VNI < 1 || n.VNI > maxVNI {
			c.add(at.field("vni"), "use "+vniRange, "%d is not a VNI", n.VNI)
			continue
		}
		key := frameKey{n.Underlay, n.encapsulation(), n.VNI}
		if other := frames[key]; other != nil {
			c.add(at.field("vni"), "give each node of one underlay address a VNI of its own",
				"frames with VNI %d from %s already belong to %s", n.VNI, n.Underlay, other)
			continue
		}
		frames[key] = at
	}
}

const maxVNI = 1<<24 - 1

// frameKey identifies the node of a frame.
type frameKey struct {
	underlay      netip.Addr
	encapsulation Encapsulation
	vni           uint32
}

// encapsulation returns the node's encapsulation, with the default applied.
func (n *Node) encapsulation() Encapsulation {
	if n.Encapsulation == "" {
		return Geneve
	}
	return n.Encapsulation
}

// encapsulation checks that the gateway listens for the node's encapsulation.
func (c *checker) encapsulation(at *place, n *Node, o *Overlay) {
	var listen ListenAddress
	var name string
	switch n.encapsulation() {
	case Geneve:
		listen, name = o.Listen, "overlay.listen"
	case VXLAN:
		listen, name = o.VXLANListen, "overlay.vxlanListen"
	default:
		c.add(at.field("encapsulation"), "use geneve or vxlan", "%s is not an encapsulation", quote(string(n.Encapsulation)))
		return
	}
	switch {
	case !listen.Configured():
		c.add(at.field("encapsulation"), "set "+name, "the node speaks %s, but %s is empty", n.encapsulation(), name)
	case listen.Addr.IsValid() && n.Underlay.IsValid() && listen.Addr.Unmap().Is4() != n.Underlay.Unmap().Is4():
		c.add(at.field("underlay"), "listen on an address of the node's family, or on all of them",
			"%s is of another address family than %s, %s", n.Underlay, name, listen)
	}
}

// underlay checks an outer address, with fewer conditions than for inner ones.
func (c *checker) underlay(at *place, a netip.Addr) {
	const remedy = "give the address that the node's frames come from"
	switch {
	case !a.IsValid():
		c.add(at, remedy, "missing")
	case a.Is4In6():
		c.add(at, "write "+a.Unmap().String(), "%s is an IPv4 address in IPv6 form", a)
	case a.Zone() != "":
		c.add(at, remedy+", without a zone", "%s has a zone", a)
	case a.IsUnspecified() || a.IsMulticast() || a.Is4() && classE.Contains(a):
		c.add(at, remedy, "%s is not the address of a host", a)
	}
}

func (c *checker) listener(at *place, l ListenAddress) {
	switch a := l.Addr; {
	case a.Is4In6():
		c.add(at, "write "+a.Unmap().String(), "%s is an IPv4 address in IPv6 form", a)
	case a.Zone() != "":
		c.add(at, "use a global address", "%s has a zone", a)
	case a.IsValid() && (a.IsMulticast() || a.Is4() && classE.Contains(a)):
		c.add(at, "use an address of the gateway, or none for all", "%s is not the address of a host", a)
	}
}

// collide reports whether two UDP listeners need the same port of the same address.
func collide(a, b ListenAddress) bool {
	if a.Port == 0 || a.Port != b.Port {
		return false
	}
	return a.Addr == b.Addr || coversAll(a.Addr, b.Addr) || coversAll(b.Addr, a.Addr)
}

// coversAll reports whether listening on all includes the address one.
func coversAll(all, one netip.Addr) bool {
	return !all.IsValid() || all.IsUnspecified() && one.IsValid() && all.Is4() == one.Is4()
}

package config

import (
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
)

// firstPort is the first port that a process without privileges can listen on.
const firstPort = 1024

const prefixOrAddressRemedy = "write a prefix like 10.0.9.0/24, or an address"

// proxy checks the prefixes that sockets of the gateway reach for the remote cluster, which must be granted to it.
func (r *ranges) proxy(at *place, p *Proxy, granted []netip.Prefix) {
	grants := new(bart.Lite)
	for _, g := range granted {
		if g.IsValid() {
			grants.Insert(g.Masked())
		}
	}
	for i, prefix := range p.Prefixes {
		if at := at.field("prefixes").item(i); r.prefix(at, prefix) && !grants.LookupPrefix(prefix) {
			r.add(at, "choose a part of local.prefixes, or add it there", "%s is in none of local.prefixes", prefix)
		}
	}
	for i, prefix := range p.Except {
		if at := at.field("except").item(i); r.canonical(at, prefix, prefixOrAddressRemedy) {
			r.disjoint(at, prefix, &r.behind, "remove it, because nodes reach their pods without the proxy")
		}
	}
}

// callers checks the clients of forwards. Without any, forwards would refuse all connections.
func (r *ranges) callers(at *place, c *Callers, forwards int) {
	if forwards > 0 && len(c.Prefixes) == 0 {
		r.add(at.field("prefixes"), "list the prefixes of the clients that may use forwards", "missing, so forwards would refuse all connections")
	}
	for i, prefix := range c.Prefixes {
		r.canonical(at.field("prefixes").item(i), prefix, prefixOrAddressRemedy)
	}
	for i, prefix := range c.Except {
		r.canonical(at.field("except").item(i), prefix, prefixOrAddressRemedy)
	}
}

// forwards checks the targets of forwards, which must be in the remote cluster.
func (r *ranges) forwards(list *place, g *Gateway) {
	if len(g.Forwards) > 0 && len(g.Masquerade.Sources) > 0 {
		r.add(list, "remove masquerade.sources, or run forwards in another gateway",
			"cannot be combined with masquerade.sources: both would use ports of the same external address")
	}
	for i := range g.Forwards {
		targets := list.item(i).field("targets")
		for j, target := range g.Forwards[i].Targets {
			at, a := targets.item(j), target.Addr()
			switch {
			case !r.address(at, a):
			case target.Port() == 0:
				r.add(at, "use "+portRange, "0 is not a port")
			case !r.seen.Contains(a):
				r.add(at, "use an address of the remote cluster as this cluster sees it, or add its prefix to remote.prefixes",
					"%s is in none of remote.prefixes[].seenAs", a)
			case !slices.ContainsFunc(g.Overlay.ExternalAddresses, func(e netip.Addr) bool { return e.Is4() == a.Is4() }):
				r.add(at, "give the gateway an address of that family in overlay.externalAddresses", "%s cannot be reached: there is no external address to connect from", a)
			}
		}
	}
}

// listenPorts checks the ports of forwards, which no other listener may use.
func (c *checker) listenPorts(g *Gateway) {
	type listener struct {
		ListenAddress
		name string
	}
	taken := map[Protocol][]listener{
		UDP: {{g.Overlay.Listen, "overlay.listen"}, {g.Overlay.VXLANListen, "overlay.vxlanListen"}, {ListenAddress{Port: g.WireGuard.ListenPort}, "wireguard.listenPort"}},
		TCP: {{g.Observability.Listen, "observability.listen"}},
	}
	ports := make(map[Protocol]map[uint16][]listener)
	for protocol, all := range taken {
		ports[protocol] = make(map[uint16][]listener)
		for _, l := range all {
			ports[protocol][l.Port] = append(ports[protocol][l.Port], l)
		}
	}
	for i, f := range g.Forwards {
		at := root("forwards").item(i)
		others := ports[f.Protocol]
		if others == nil {
			c.add(at.field("protocol"), "use tcp or udp", "%s is not a protocol", quote(string(f.Protocol)))
			continue
		}
		listen := at.field("listen")
		c.listener(listen, f.Listen)
		if f.Listen.Port < firstPort {
			c.add(listen, "use a port from 1024 to 65535", "%d is not a port that a process without privileges can listen on", f.Listen.Port)
			continue
		}
		for _, other := range others[f.Listen.Port] {
			if collide(f.Listen, other.ListenAddress) {
				c.add(listen, "choose another port", "is taken by %s", other.name)
				break
			}
		}
		others[f.Listen.Port] = append(others[f.Listen.Port], listener{f.Listen, listen.String()})
	}
}

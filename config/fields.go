package config

// The fields of each object, in the order of the documentation.

// Number ranges, as remedies name them.
const (
	vniRange      = "1 to 16777215"
	portRange     = "1 to 65535"
	clampRange    = "a number from 536 to 65495"
	flowRange     = "0 for the default, or a number from 1 to 4194304"
	ordinalRange  = "a number from 0 to 15"
	replicasRange = "0 for 1, or a number from 1 to 16"
	mtuRange      = "0 to derive it from the interfaces, or a number of bytes from 576 to 65535"
)

func (d *decoder) gateway(g *Gateway) reader {
	g.Overlay.Listen = ListenAddress{Port: DefaultOverlayPort}
	g.WireGuard.ListenPort = DefaultWireGuardPort
	return d.object(
		field{"apiVersion", d.text(&g.APIVersion)},
		field{"kind", d.text(&g.Kind)},
		field{"cluster", d.text(&g.Cluster)},
		field{"overlay", d.overlay(&g.Overlay)},
		field{"wireguard", d.wireGuard(&g.WireGuard)},
		field{"local", d.local(&g.Local)},
		field{"remote", d.remote(&g.Remote)},
		field{"masquerade", d.masquerade(&g.Masquerade)},
		field{"mappings", list(d, &g.Mappings, d.mapping)},
		field{"proxy", d.proxy(&g.Proxy)},
		field{"forwards", list(d, &g.Forwards, d.forward)},
		field{"callers", d.callers(&g.Callers)},
		field{"mssClamp", d.clamp(&g.MSSClamp)},
		field{"observability", d.object(
			field{"listen", d.listen(&g.Observability.Listen)},
		)},
	)
}

func (d *decoder) overlay(o *Overlay) reader {
	return d.object(
		field{"listen", d.listen(&o.Listen)},
		field{"vxlanListen", d.listen(&o.VXLANListen)},
		field{"addresses", list(d, &o.Addresses, d.address)},
		field{"externalAddresses", list(d, &o.ExternalAddresses, d.address)},
		field{"mtu", number(d, &o.MTU, mtuRange)},
		field{"nodes", list(d, &o.Nodes, d.node)},
	)
}

func (d *decoder) node(n *Node) reader {
	n.Encapsulation = Geneve
	return d.object(
		field{"name", d.text(&n.Name)},
		field{"underlay", d.address(&n.Underlay)},
		field{"encapsulation", d.text((*string)(&n.Encapsulation))},
		field{"vni", number(d, &n.VNI, vniRange)},
		field{"addresses", list(d, &n.Addresses, d.address)},
		field{"externalAddresses", list(d, &n.ExternalAddresses, d.address)},
		field{"prefixes", list(d, &n.Prefixes, d.prefixOrAddress)},
	)
}

func (d *decoder) wireGuard(w *WireGuard) reader {
	return d.object(
		field{"listenPort", number(d, &w.ListenPort, portRange+", or 0 for any free port")},
		field{"ordinal", number(d, &w.Ordinal, ordinalRange)},
		field{"replicas", number(d, &w.Replicas, replicasRange)},
		field{"privateKeyFile", d.text(&w.PrivateKeyFile)},
		field{"peers", list(d, &w.Peers, d.peer)},
	)
}

func (d *decoder) peer(p *Peer) reader {
	return d.object(
		field{"name", d.text(&p.Name)},
		field{"gateway", d.text(&p.Gateway)},
		field{"publicKey", d.key(&p.PublicKey)},
		field{"privateKeyFile", d.text(&p.PrivateKeyFile)},
		field{"presharedKeyFile", d.text(&p.PresharedKeyFile)},
		field{"endpoint", d.text(&p.Endpoint)},
		field{"moreEndpoints", list(d, &p.MoreEndpoints, d.text)},
		field{"persistentKeepalive", d.duration(&p.PersistentKeepalive)},
	)
}

func (d *decoder) local(l *Local) reader {
	return d.object(
		field{"prefixes", list(d, &l.Prefixes, d.prefix)},
		field{"externalPrefixes", list(d, &l.ExternalPrefixes, d.prefix)},
	)
}

func (d *decoder) remote(r *Remote) reader {
	return d.object(
		field{"cluster", d.text(&r.Cluster)},
		field{"prefixes", list(d, &r.Prefixes, d.remotePrefix)},
	)
}

// remotePrefix decodes a prefix; seenAs defaults to cidr.
func (d *decoder) remotePrefix(p *RemotePrefix) reader {
	read := d.object(
		field{"cidr", d.prefix(&p.CIDR)},
		field{"seenAs", d.prefix(&p.SeenAs)},
	)
	return func(v value) {
		if read(v); !p.SeenAs.IsValid() {
			p.SeenAs = p.CIDR
		}
	}
}

func (d *decoder) masquerade(m *Masquerade) reader {
	return d.object(
		field{"sources", list(d, &m.Sources, d.prefixOrAddress)},
		field{"flows", number(d, &m.Flows, flowRange)},
		field{"flowsPerSource", number(d, &m.FlowsPerSource, flowRange)},
	)
}

func (d *decoder) mapping(m *Mapping) reader {
	return d.object(
		field{"external", d.address(&m.External)},
		field{"target", d.address(&m.Target)},
	)
}

func (d *decoder) proxy(p *Proxy) reader {
	return d.object(
		field{"prefixes", list(d, &p.Prefixes, d.prefix)},
		field{"except", list(d, &p.Except, d.prefixOrAddress)},
	)
}

func (d *decoder) callers(c *Callers) reader {
	return d.object(
		field{"prefixes", list(d, &c.Prefixes, d.prefixOrAddress)},
		field{"except", list(d, &c.Except, d.prefixOrAddress)},
	)
}

func (d *decoder) forward(f *Forward) reader {
	return d.object(
		field{"protocol", d.text((*string)(&f.Protocol))},
		field{"listen", d.listen(&f.Listen)},
		field{"targets", list(d, &f.Targets, d.addressAndPort)},
	)
}

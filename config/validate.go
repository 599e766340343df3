package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Validate checks the configuration as a whole. Its error is a Problems with everything found, in line order if the
// configuration came from Parse. It changes nothing. Its time is proportional to the number of nodes and prefixes.
func (g *Gateway) Validate() error {
	var c checker
	c.document(g)
	c.overlay(&g.Overlay, &g.WireGuard)
	c.wireGuard(&g.WireGuard)
	c.ranges(g)
	c.masquerade(g)
	c.listenPorts(g)
	c.limits(g)
	if len(c.found) == 0 {
		return nil
	}
	return g.source.locate(c.found)
}

// document checks apiVersion, kind and the cluster IDs.
func (c *checker) document(g *Gateway) {
	if g.APIVersion != APIVersion {
		c.add(root("apiVersion"), "use "+APIVersion, "%s is not served", quote(g.APIVersion))
	}
	if g.Kind != Kind {
		c.add(root("kind"), "use "+Kind, "%s is not served", quote(g.Kind))
	}
	c.clusterID(root("cluster"), g.Cluster)
	c.listener(root("observability").field("listen"), g.Observability.Listen)

	remote := root("remote").field("cluster")
	switch {
	case g.Remote.Cluster == "" && len(g.Remote.Prefixes) == 0 && len(g.WireGuard.Peers) == 0:
		// Joined to nothing yet.
	case g.Remote.Cluster == g.Cluster && g.Cluster != "":
		c.add(remote, "give each cluster an ID of its own", "is this cluster's own ID")
	default:
		c.clusterID(remote, g.Remote.Cluster)
	}
}

func (c *checker) clusterID(at *place, id string) {
	switch {
	case id == "":
		c.add(at, "give the cluster its ID", "missing")
	case !isLabel(id):
		c.add(at, labelRemedy, "%s is not an RFC 1123 label", quote(id))
	}
}

// name checks the name of a node or peer, which must not be in taken.
func (c *checker) name(at *place, name string, taken map[string]*place) {
	switch other := taken[name]; {
	case name == "":
		c.add(at, "give it a name of its own", "missing")
	case !isName(name):
		c.add(at, "use up to 253 letters, digits, '-', '_' and '.'", "%s is not a name", quote(name))
	case other != nil:
		c.add(at, "give it a name of its own", "%s is already the name of %s", quote(name), other)
	default:
		taken[name] = at.parent
	}
}

const labelRemedy = "use up to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit"

func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, b := range []byte(s) {
		if b != '-' && (b < '0' || b > '9') && (b < 'a' || b > 'z') {
			return false
		}
	}
	return true
}

// isName reports whether s can appear in logs and metrics without quotes. It accepts more than Kubernetes names, because
// files are also written by hand.
func isName(s string) bool {
	return len(s) <= 253 && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
}

// isDomainName reports whether s consists of labels joined by dots.
func isDomainName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return len(s) <= 253
}

// limits checks numbers whose limits depend on the address families in use.
func (c *checker) limits(g *Gateway) {
	lowest := minMTUv4
	if usesIPv6(g) {
		lowest = minMTUv6
	}
	if mtu := g.Overlay.MTU; mtu != 0 && (mtu < lowest || mtu > 65535) {
		c.add(root("overlay").field("mtu"), fmt.Sprintf("use 0 to derive it from the interfaces, or %d to 65535", lowest), "%d is not an MTU that every packet can rely on", mtu)
	}
	if m := g.MSSClamp; !m.Off && m.Value != 0 && (m.Value < 536 || m.Value > 65495) {
		c.add(root("mssClamp"), "use auto, off or "+clampRange, "%d is not an MSS", m.Value)
	}
	if m := g.MSSClamp; m.Off && m.Value != 0 {
		c.add(root("mssClamp"), "choose one", "is off and %d at once", m.Value)
	}
}

// The smallest MTUs of IPv4 hosts (RFC 791) and of IPv6 links (RFC 8200 section 5), bytes.
const (
	minMTUv4 = 576
	minMTUv6 = 1280
)

// usesIPv6 reports whether any inner packet may be IPv6.
func usesIPv6(g *Gateway) bool {
	is6 := netip.Addr.Is6
	prefixIs6 := func(p netip.Prefix) bool { return p.Addr().Is6() }
	if slices.ContainsFunc(g.Overlay.Addresses, is6) ||
		slices.ContainsFunc(g.Remote.Prefixes, func(p RemotePrefix) bool { return prefixIs6(p.CIDR) }) {
		return true
	}
	for i := range g.Overlay.Nodes {
		n := &g.Overlay.Nodes[i]
		if slices.ContainsFunc(n.Addresses, is6) || slices.ContainsFunc(n.Prefixes, prefixIs6) {
			return true
		}
	}
	return false
}

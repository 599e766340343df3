package translate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// element matches the names of configuration elements that can be left out, for instance
// overlay.nodes[3].prefixes[0].
var element = regexp.MustCompile(`(overlay\.nodes|overlay\.addresses|overlay\.externalAddresses|wireguard\.peers|local\.prefixes|local\.externalPrefixes|remote\.prefixes|masquerade\.sources|mappings|proxy\.prefixes|proxy\.except|forwards)(?:\[(\d+)\](?:\.(\w+)(?:\[(\d+)\])?)?)?`)

// removeInvalid removes invalid elements until the configuration is valid. It returns false
// if an invalid element cannot be removed.
func (t *translation) removeInvalid() bool {
	for {
		var problems config.Problems
		if !errors.As(t.config.Validate(), &problems) {
			return true
		}
		bad := make(faults, len(problems))
		for _, p := range problems {
			object, field := t.name(p.Field)
			t.problem(object, field, t.rename(p.Text), t.rename(p.Remedy))
			if !bad.add(p.Field) {
				return false
			}
		}
		bad.leaveOut(t.config)
	}
}

// faults are the elements to remove, such as overlay.nodes[3].prefixes[0].
type faults map[string]bool

const mtu = "overlay.mtu"

// add adds the smallest removable element that contains a field. It returns false if there
// is none.
func (f faults) add(field string) bool {
	if field == mtu {
		f[mtu] = true
		return true
	}
	m := element.FindStringSubmatch(field)
	if m == nil || m[2] == "" {
		return false
	}
	part := fmt.Sprintf("%s[%s]", m[1], m[2])
	if m[4] != "" && (m[1] == "overlay.nodes" && (m[3] == "prefixes" || m[3] == "externalAddresses") || m[1] == "forwards" && m[3] == "targets") {
		part += fmt.Sprintf(".%s[%s]", m[3], m[4])
	}
	f[part] = true
	return true
}

func (f faults) leaveOut(c *config.Gateway) {
	if f[mtu] {
		c.Overlay.MTU = 0 // derived from the interfaces
	}
	for i := range c.Overlay.Nodes {
		n, at := &c.Overlay.Nodes[i], fmt.Sprintf("overlay.nodes[%d]", i)
		n.Prefixes = without(f, at+".prefixes", n.Prefixes)
		n.ExternalAddresses = without(f, at+".externalAddresses", n.ExternalAddresses)
	}
	c.Overlay.Nodes = without(f, "overlay.nodes", c.Overlay.Nodes)
	c.Overlay.Addresses = without(f, "overlay.addresses", c.Overlay.Addresses)
	c.Overlay.ExternalAddresses = without(f, "overlay.externalAddresses", c.Overlay.ExternalAddresses)
	c.WireGuard.Peers = without(f, "wireguard.peers", c.WireGuard.Peers)
	c.Local.Prefixes = without(f, "local.prefixes", c.Local.Prefixes)
	c.Local.ExternalPrefixes = without(f, "local.externalPrefixes", c.Local.ExternalPrefixes)
	c.Remote.Prefixes = without(f, "remote.prefixes", c.Remote.Prefixes)
	c.Masquerade.Sources = without(f, "masquerade.sources", c.Masquerade.Sources)
	c.Mappings = without(f, "mappings", c.Mappings)
	c.Proxy.Prefixes = without(f, "proxy.prefixes", c.Proxy.Prefixes)
	c.Proxy.Except = without(f, "proxy.except", c.Proxy.Except)
	for i := range c.Forwards {
		c.Forwards[i].Targets = without(f, fmt.Sprintf("forwards[%d].targets", i), c.Forwards[i].Targets)
	}
	c.Forwards = without(f, "forwards", c.Forwards)
}

func without[T any](f faults, list string, items []T) []T {
	i := -1
	return slices.DeleteFunc(items, func(T) bool {
		i++
		return f[list+"["+strconv.Itoa(i)+"]"]
	})
}

// name returns the object and the field that a field of the configuration is derived from.
func (t *translation) name(field string) (object, of string) {
	m := element.FindStringSubmatch(field)
	if m == nil || m[2] == "" {
		switch field {
		case "local.externalPrefixes":
			return network, "spec.externalCIDRs"
		case "overlay.addresses":
			return t.peering(), "status.gateways"
		case mtu:
			return network, "spec.overlay.mtu"
		case "cluster":
			return network, "status.clusterID"
		case "remote.cluster":
			return t.peering(), "spec.clusterID"
		}
		return "gateway " + t.Name, field // of its settings
	}
	i, _ := strconv.Atoi(m[2]) // digits
	switch m[1] {
	case "overlay.nodes":
		return t.nameInNode(&t.config.Overlay.Nodes[i], m[3], m[4])
	case "wireguard.peers":
		return t.peering(), t.peerField(t.config.WireGuard.Peers[i].RemoteGateway())
	case "local.prefixes":
		if !slices.Contains(t.Peering.Spec.LocalPrefixes, v1alpha1.CIDR(t.config.Local.Prefixes[i].String())) {
			return network, "status.podCIDRs" // by spec.localPods
		}
		return t.peering(), "spec.localPrefixes"
	case "local.externalPrefixes":
		return network, "spec.externalCIDRs"
	case "mappings":
		return mapping(t.mapped[t.config.Mappings[i]]), "spec." + m[3]
	case "proxy.prefixes":
		return t.peering(), "spec.localPrefixes"
	case "proxy.except":
		return network, "status"
	case "forwards":
		field := "status.ports"
		if m[3] == "targets" {
			field = "spec.service.endpoints"
		}
		return received(t.forwarded[t.config.Forwards[i].Listen]), field
	case "masquerade.sources":
		return network, "spec.masquerade.sources"
	case "remote.prefixes":
		external := func(p v1alpha1.SeenPrefix) bool { return string(p.CIDR) == t.config.Remote.Prefixes[i].CIDR.String() }
		if slices.ContainsFunc(t.Peering.Status.ExternalPrefixes, external) {
			return t.peering(), "status.externalPrefixes"
		}
		return t.peering(), "status.prefixes"
	}
	return t.peering(), "status.gateways"
}

func (t *translation) nameInNode(n *config.Node, field, index string) (object, of string) {
	switch field {
	case "prefixes":
		if i, err := strconv.Atoi(index); err == nil {
			for _, a := range t.Nodes {
				if a.Name == n.Name && slices.Contains(a.Spec.PodAddresses, v1alpha1.CIDR(n.Prefixes[i].String())) {
					return attachment(n.Name), podAddressesField
				}
			}
		}
		return attachment(n.Name), "spec.podCIDRs"
	case "underlay":
		return attachment(n.Name), "spec.underlayAddresses"
	case "vni":
		return attachment(n.Name), "spec.index"
	case "addresses":
		return attachment(n.Name), "spec.internalAddresses"
	case "externalAddresses":
		return attachment(n.Name), "spec.externalAddresses"
	}
	return attachment(n.Name), ""
}

// rename replaces names of configuration elements in a text by those of objects.
func (t *translation) rename(text string) string {
	return element.ReplaceAllStringFunc(text, func(part string) string {
		object, field := t.name(part)
		if field == "" {
			return object
		}
		return field + " of " + object
	})
}

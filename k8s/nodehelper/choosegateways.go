package nodehelper

import (
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
)

// usability says how good it is to send to a gateway. The zero value is the worst.
type usability int

const (
	silent   usability = iota // it does not answer
	unlinked                  // it has had no link yet
	late                      // it does not answer, but is in use and may still forward
	noLinks                   // it may pass packets on to another gateway
	leaving                   // it forwards for some seconds more
	joining                   // it was out, and is up for less than joinAfter
	usable
)

// group returns the gateways that a peering's packets are spread over: all that forward or, if
// there is none, all of the next best kind. So a node that reaches no gateway keeps sending, and
// a gateway whose answers are lost or late is not replaced by ones that have failed before, or that
// have just started.
func (t *translation) group(p *v1alpha1.Peering) node.Group {
	g := node.Group{Name: p.Name}
	best := silent
	for _, one := range t.linked(p) {
		if g.MTU == 0 || one.MTU < g.MTU {
			g.MTU = one.MTU
		}
		switch u := t.usability(one.Name); {
		case u > best:
			best, g.Gateways = u, []string{one.Name}
		case u == best:
			g.Gateways = append(g.Gateways, one.Name)
		}
	}
	return g
}

// linked returns the gateways of a peering to which the node has links, by name. There is none if
// the peering is being deleted.
func (t *translation) linked(p *v1alpha1.Peering) (all []gateway) {
	for _, g := range t.out.gateways {
		named := func(s v1alpha1.GatewayStatus) bool { return s.Name == g.Name }
		if p.DeletionTimestamp == nil && g.problem == "" && slices.ContainsFunc(p.Status.Gateways, named) {
			all = append(all, g)
		}
	}
	return all
}

func (t *translation) usability(name string) usability {
	state, answers := t.answers[name]
	switch {
	case !answers && t.serving[name]:
		return late
	case !answers:
		return silent
	case t.unlinked[name]:
		return unlinked
	case state == nodeprobe.NoLinks:
		return noLinks
	case state == nodeprobe.Leaving:
		return leaving
	case t.joining[name] && !t.serving[name]:
		return joining
	}
	return usable
}

var states = [...]v1alpha1.NodeGatewayState{
	silent: v1alpha1.NoAnswer, unlinked: v1alpha1.NoLinks, late: v1alpha1.NoAnswer, noLinks: v1alpha1.NoLinks, leaving: v1alpha1.Leaving, joining: v1alpha1.Joining, usable: v1alpha1.Forwarding,
}

package nodehelper

import (
	"net/netip"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
)

// input is the input of computeDesired. Objects belong to the caches and must not be
// changed.
type input struct {
	attachment *v1alpha1.NodeAttachment // nil: there is none
	network    *v1alpha1.ClusterNetwork // nil: there is none
	peerings   []*v1alpha1.Peering
	support    node.Support

	resolvers []netip.Addr // of the node

	sources  map[netip.Addr]netip.Addr  // of overlay packets, by gateway address, as far as known
	answers  map[string]nodeprobe.State // of the gateways that answer, by name
	joining  map[string]bool            // gateways that were out, and are not up for long enough
	unlinked map[string]bool            // gateways that have had no link yet
	serving  map[string]bool            // gateways in use
}

type output struct {
	desired   node.Desired
	gateways  []gateway       // by name
	serving   map[string]bool // as in input
	answers   map[string]nodeprobe.State
	problems  []string                // CIDRs that are left out, with the reason
	reserved  reservedPrefixes        // CIDRs in use
	owners    map[netip.Prefix]string // Peerings by mapped CIDR
	conflicts []node.Takeover         // of mapped CIDRs, according to the kernel
	gone      bool                    // nothing is desired, and nothing of Strait is left
}

// gateway is a gateway that the node has or should have an overlay link to.
type gateway struct {
	node.Gateway
	peering string
	source  netip.Addr // source of overlay packets, if not one of the node's underlay addresses
	problem string     // why there is no link; empty: there is one
	note    string     // why it is not a kernel link; empty: it is
	state   v1alpha1.NodeGatewayState
	inUse   bool     // packets are sent to it
	refused []string // reasons for which packets from it were refused lately
}

func (g gateway) probe(d node.Desired) netip.Addr {
	for _, theirs := range g.Addresses {
		if slices.ContainsFunc(d.Addresses, func(ours netip.Addr) bool { return ours.Is4() == theirs.Is4() }) {
			return theirs
		}
	}
	return netip.Addr{}
}

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// GatewaySpread is how many nodes spread flows over a gateway, and why others do not.
type GatewaySpread struct {
	Gateway string `json:"gateway"`
	Nodes   int    `json:"nodes"` // that report it
	InUse   int    `json:"inUse"` // of these, that send packets to it
	// Out names the first nodes that do not use it, each with the state of the gateway there.
	Out []string `json:"out,omitempty"`
}

// outAtMost is the number of nodes that are named.
const outAtMost = 3

// readSpread adds to a report what the nodes report about the gateways.
func (r *Report) readSpread(ctx context.Context, c Cluster) error {
	nodes, err := c.NodeAttachments(ctx)
	if err != nil {
		return err
	}
	for i := range r.Peerings {
		r.Peerings[i].addSpread(nodes)
	}
	return nil
}

func (s *PeeringReport) addSpread(nodes []v1alpha1.NodeAttachment) {
	for i := range s.Spread {
		g := &s.Spread[i]
		for _, n := range nodes {
			at := slices.IndexFunc(n.Status.Gateways, func(one v1alpha1.NodeGateway) bool { return one.Name == g.Gateway })
			if at < 0 || n.Status.Gateways[at].State == "" { // not reported, or by a helper of an earlier version
				continue
			}
			g.Nodes++
			if is := n.Status.Gateways[at]; is.InUse {
				g.InUse++
			} else if len(g.Out) < outAtMost {
				g.Out = append(g.Out, fmt.Sprintf("%s: %s", n.Name, is.State))
			}
		}
	}
}

func (g GatewaySpread) text() string {
	text := fmt.Sprintf("%d of %d nodes", g.InUse, g.Nodes)
	if len(g.Out) > 0 {
		text += "; not " + strings.Join(g.Out, ", ")
	}
	if more := g.Nodes - g.InUse - len(g.Out); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

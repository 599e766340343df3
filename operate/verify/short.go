package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/operate/operator"
)

// Short checks the objects of one cluster: whether the peerings with these names, or all,
// are ready, and whether the nodes reach their gateways. It starts no pods. A cluster
// without a Peering passes.
func Short(ctx context.Context, c operator.Cluster, names []string) (*Report, error) {
	began := time.Now()
	report, err := operator.ReadReport(ctx, c, names)
	if err != nil {
		return nil, err
	}
	nodes, err := Nodes(ctx, c, report)
	if err != nil {
		return nil, err
	}
	r := &Report{Clusters: []ClusterShape{{ID: string(report.ClusterID), Name: c.Name}}}
	id := string(report.ClusterID)
	if len(report.Peerings) == 0 {
		r.Checks = append(r.Checks, Check{Group: OfPeering, From: id, What: "Peerings", Outcome: Skipped,
			Detail: "this cluster is not joined to another cluster yet; use strait peer, or strait invite here and strait accept in the other cluster"})
	}
	for _, peering := range report.Peerings {
		is, _ := judgePeering(id, peering)
		r.Checks = append(append(r.Checks, is), nodes[peering.Name]...)
	}
	offloaded, err := offloadChecks(ctx, c, report)
	if err != nil {
		return nil, err
	}
	r.Checks = append(r.Checks, offloaded...)
	r.finish(began)
	return r, nil
}

// Nodes checks whether the nodes of a cluster reach the gateways of the peerings in its report. It returns the checks by
// the name of the peering.
func Nodes(ctx context.Context, c operator.Cluster, of *operator.Report) (map[string][]Check, error) {
	attachments, err := c.NodeAttachments(ctx)
	if err != nil {
		return nil, err
	}
	peerings, err := c.Peerings(ctx)
	if err != nil {
		return nil, err
	}
	checks := make(map[string][]Check)
	for i := range peerings {
		if p := &peerings[i]; slices.ContainsFunc(of.Peerings, func(r operator.PeeringReport) bool { return r.Name == p.Name }) {
			checks[p.Name] = reachable(string(of.ClusterID), p, attachments)
		}
	}
	return checks, nil
}

// reachable checks whether the nodes of a cluster reach the gateways of a peering.
func reachable(id string, p *v1alpha1.Peering, nodes []v1alpha1.NodeAttachment) (checks []Check) {
	for _, g := range p.Status.Gateways {
		c := Check{Group: OfPeering, From: id, What: "gateway " + g.Name + " is reachable from all nodes", Outcome: Passed, Detail: fmt.Sprintf("%d nodes", len(nodes))}
		var missing []string
		for _, n := range nodes {
			at := slices.IndexFunc(n.Status.Gateways, func(one v1alpha1.NodeGateway) bool { return one.Name == g.Name })
			switch {
			case at < 0:
				missing = append(missing, n.Name+" (its node helper has not reported it)")
			case !n.Status.Gateways[at].Ready:
				missing = append(missing, strings.TrimSuffix(n.Name+" ("+n.Status.Gateways[at].Message, " (")+")")
			}
		}
		if len(missing) > 0 {
			c.Outcome, c.Detail = Failed, "not from "+strings.Join(missing[:min(len(missing), 5)], ", ")
			if len(missing) > 5 {
				c.Detail += fmt.Sprintf(" and %d more", len(missing)-5)
			}
			c.Cause = "the node helper does not run, or overlay UDP does not pass from the node to the gateway's pod"
			c.Remedy = "check the helper's pod on that node (DaemonSet strait-node in strait-nodes), and allow UDP 6091 and 6092 between nodes and pods"
		}
		checks = append(checks, c)
	}
	return checks
}

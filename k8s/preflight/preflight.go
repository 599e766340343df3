package preflight

import (
	"context"
	"errors"

	"strait.dev/strait/k8s/findings"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/operator"
)

// Options of a preflight.
type Options struct {
	Local    operator.Cluster
	Remote   *operator.Cluster  // that Local is to be joined to; nil: none yet
	NoPods   bool               // only the API servers are asked
	Image    string             // of the pods; empty: that of the Strait that is installed, or else that of the chart
	Progress *operator.Progress // nil: nobody wants to know
}

// Run looks at one cluster or two, and returns what it found, the worst first. The error
// says what was not removed; what could not be looked at is a finding.
func Run(ctx context.Context, o Options) ([]findings.Finding, error) {
	defer o.Progress.Done()
	o.Progress.Say("asking the API server of " + o.Local.Name)
	local, err := read(ctx, o.Local)
	if err != nil {
		return []findings.Finding{findings.New("STRAIT-C001", findings.Error, o.Local.Name, "%v", err)}, nil
	}
	all := clusterFindings(local)
	var remote *facts
	if o.Remote != nil {
		o.Progress.Say("asking the API server of " + o.Remote.Name)
		if remote, err = read(ctx, *o.Remote); err != nil {
			all = append(all, findings.New("STRAIT-C001", findings.Error, o.Remote.Name, "%v", err))
		} else {
			all = append(all, clusterFindings(remote)...)
			all = append(all, pairFindings(local, remote)...)
		}
	}
	if o.NoPods {
		all = append(all, findings.New("STRAIT-C012", findings.Skipped, o.Local.Name, "no pods were wanted: nodes, and UDP between them and the clusters, were not looked at"))
	} else {
		var found []findings.Finding
		found, err = o.withPods(ctx, local, remote)
		all = append(all, found...)
	}
	findings.Sort(all)
	return all, err
}

// withPods looks at what only pods can see. Remote is nil where there is no such cluster.
func (o Options) withPods(ctx context.Context, local, remote *facts) (all []findings.Finding, err error) {
	mine, ended, found := o.agentGroup(ctx, o.Local, local, remote != nil)
	defer func() { err = errors.Join(err, ended()) }()
	all = append(all, found...)
	if remote == nil {
		return all, nil
	}
	theirs, theirsEnded, found := o.agentGroup(ctx, *o.Remote, remote, true)
	defer func() { err = errors.Join(err, theirsEnded()) }()
	all = append(all, found...)
	if mine == nil || theirs == nil {
		return append(all, findings.New("STRAIT-U001", findings.Skipped, local.name+" and "+remote.name, "not tried: there are no pods in both")), nil
	}
	o.Progress.Say("sending from cluster to cluster")
	return append(all, udpFindings(probeCluster(ctx, mine, theirs), probeCluster(ctx, theirs, mine))...), nil
}

// agentGroup runs the agents of a cluster and has them look at their nodes. The crew is nil where
// they cannot run, which is a finding.
func (o Options) agentGroup(ctx context.Context, c operator.Cluster, f *facts, two bool) (is *agentGroup, ended func() error, all []findings.Finding) {
	image := o.Image
	if image == "" {
		image = f.image
	}
	if image == "" {
		image = install.Image
	}
	is, err := start(ctx, c, f, "preflight", image, maxNodes, two, o.Progress.Say)
	if err != nil {
		return nil, func() error { return nil }, []findings.Finding{findings.New("STRAIT-C012", findings.Error, f.name, "no pods of image %s run, so that nodes were not looked at: %v", image, err)}
	}
	ended = func() error {
		o.Progress.Say("removing the pods in " + c.Name)
		return is.End(context.WithoutCancel(ctx))
	}
	o.Progress.Say("looking at the nodes of " + c.Name)
	reports := is.inspect(ctx)
	all = is.allNodeFindings(reports)
	o.Progress.Say("sending from node to node in " + c.Name)
	return is, ended, append(all, is.mesh(ctx, reports)...)
}

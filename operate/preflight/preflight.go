package preflight

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/dns"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
)

// Options configure a preflight.
type Options struct {
	Local        operator.Cluster
	Remote       *operator.Cluster  // to be joined to Local; nil: none
	WithoutNodes bool               // Strait is going to be installed without node helpers in Local
	NoPods       bool               // query only the API servers
	Image        string             // of the pods; empty: that of the installed Strait, or else that of the chart
	Progress     *operator.Progress // nil: not reported

	start startPods // nil: startAgents
}

// Run inspects one cluster or two, and returns the findings, the worst first. The error
// lists what was not removed; failed inspections are findings.
func Run(ctx context.Context, o Options) ([]findings.Finding, error) {
	defer o.Progress.Done()
	o.Progress.Say("querying the API server of " + o.Local.Name)
	local, err := read(ctx, o.Local)
	if err != nil {
		return []findings.Finding{findings.New("STRAIT-C001", findings.Error, o.Local.Name, "%v", err)}, nil
	}
	local.withoutHelpers = local.withoutHelpers || o.WithoutNodes
	all := append(clusterFindings(local), dnsFindings(ctx, o.Local)...)
	var remote *facts
	if o.Remote != nil {
		o.Progress.Say("querying the API server of " + o.Remote.Name)
		if remote, err = read(ctx, *o.Remote); err != nil {
			all = append(all, findings.New("STRAIT-C001", findings.Error, o.Remote.Name, "%v", err))
		} else {
			all = append(all, clusterFindings(remote)...)
			all = append(all, dnsFindings(ctx, *o.Remote)...)
			all = append(all, pairFindings(local, remote)...)
		}
	}
	if o.NoPods {
		all = append(all, findings.New("STRAIT-C012", findings.Skipped, o.Local.Name, "pods are disabled: nodes, and UDP between nodes and clusters, were not checked"))
	} else {
		var found []findings.Finding
		found, err = o.withPods(ctx, local, remote)
		all = append(all, found...)
	}
	findings.Sort(all)
	return all, err
}

func dnsFindings(ctx context.Context, c operator.Cluster) []findings.Finding {
	return dns.Check(ctx, c, dns.Options{Namespace: metav1.NamespaceSystem})
}

// withPods runs the checks that need pods. remote is nil if there is no such cluster.
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
		return append(all, findings.New("STRAIT-U001", findings.Skipped, local.name+" and "+remote.name, "skipped: pods do not run in both clusters")), nil
	}
	o.Progress.Say("probing UDP between the clusters")
	return append(all, udpFindings(probeCluster(ctx, mine, theirs), probeCluster(ctx, theirs, mine))...), nil
}

// agentGroup starts the agents of a cluster and inspects its nodes, unless no node helper can
// run on them. The group is nil if the agents cannot run, which is a finding, or if there is
// nothing to run.
func (o Options) agentGroup(ctx context.Context, c operator.Cluster, f *facts, two bool) (is *agentGroup, ended func() error, all []findings.Finding) {
	image := o.Image
	if image == "" {
		image = f.image
	}
	if image == "" {
		image = install.Image
	}
	none := func() error { return nil }
	if !f.inspects() {
		all = single("STRAIT-N011", findings.Skipped, f.name, "nodes were not inspected: no node helper runs on them")
		if !two {
			return nil, none, all
		}
	}
	run := o.start
	if run == nil {
		run = startAgents
	}
	is, err := run.start(ctx, c, f, "preflight", image, maxNodes, two, o.Progress.Say)
	if Refused(err) && f.inspects() {
		refusal := findings.New(helperCode, findings.Error, f.name, "the cluster refuses a pod with the privileges of the node helper: %v; install with node.enabled=false; then %s", err, lostWithoutHelpers)
		if onAKS(f) {
			refusal.Remedy = "Exclude the node helper's namespace with az aks safeguards update --level Enforce --excluded-ns strait-nodes, and check with --no-pods; or install with the chart's value node.enabled=false."
		}
		f.withoutHelpers = true
		is, ended, all = o.agentGroup(ctx, c, f, two)
		return is, ended, append(all, refusal)
	}
	if err != nil {
		return nil, none, append(all, findings.New("STRAIT-C012", findings.Error, f.name, "pods of image %s do not run, so nodes were not inspected: %v", image, err))
	}
	ended = func() error {
		o.Progress.Say("removing the pods in " + c.Name)
		return is.End(context.WithoutCancel(ctx))
	}
	if !f.inspects() {
		return is, ended, all
	}
	o.Progress.Say("inspecting the nodes of " + c.Name)
	reports := is.inspect(ctx)
	all = is.allNodeFindings(reports)
	o.Progress.Say("probing UDP between the nodes of " + c.Name)
	return is, ended, append(all, is.mesh(ctx, reports)...)
}

package preflight

import (
	"slices"
	"strings"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/findings"
)

// crossProbe is what became of UDP from one cluster to the other.
type crossProbe struct {
	from, to   string   // the clusters
	passes     []string // addresses that answered, with their port
	unanswered []string // those that did not, with what was said
	err        error    // it was not tried
}

// pairFindings are the findings about two clusters that are to be joined.
func pairFindings(local, remote *facts) (all []findings.Finding) {
	subject := local.name + " and " + remote.name
	if local.systemUID != "" && local.systemUID == remote.systemUID {
		return []findings.Finding{findings.New("STRAIT-U004", findings.Error, subject, "both are the same cluster: namespace kube-system has UID %s in both", local.systemUID)}
	}
	all = append(all, findings.New("STRAIT-U004", findings.OK, subject, "they are two clusters"))
	if off := (local.skew - remote.skew).Abs(); off > clockTolerance+local.uncertainty+remote.uncertainty {
		all = append(all, findings.New("STRAIT-U003", findings.Warning, subject, "their clocks are %v apart: invites expire too early or too late", off.Round(time.Second)))
	} else {
		all = append(all, findings.New("STRAIT-U003", findings.OK, subject, "their clocks agree"))
	}
	all = append(all, mappingFindings(local, remote)...)
	return append(all, mappingFindings(remote, local)...)
}

// planned stands for the name of a Peering that there is not: none can have it.
const planned = "(planned)"

// mappingFindings are the findings about where one cluster would see the ranges of the other.
func mappingFindings(by, of *facts) []findings.Finding {
	subject := by.name + " sees " + of.name
	if by.network == nil || of.network == nil {
		return []findings.Finding{findings.New("STRAIT-U002", findings.Skipped, subject, "not known before the ranges of both are")}
	}
	var ranges v1alpha1.RemotePrefixes
	for _, cidr := range slices.Concat(of.network.Status.PodCIDRs, of.network.Spec.ExternalCIDRs) {
		ranges = append(ranges, v1alpha1.RemotePrefix{CIDR: cidr})
	}
	views, err := controller.Preview(by.network, nil, nil, planned, ranges)
	if err != nil {
		return []findings.Finding{findings.New("STRAIT-U002", findings.Skipped, subject, "%v", err)}
	}
	var all []findings.Finding
	for _, v := range views {
		switch {
		case v.SeenAs == "":
			all = append(all, findings.New("STRAIT-U002", findings.Error, subject, "%s is seen nowhere: %s", v.CIDR, v.Reason))
		case v.SeenAs != v.CIDR:
			all = append(all, findings.New("STRAIT-U002", findings.Info, subject, "%s will be seen as %s, address by address: %s", v.CIDR, v.SeenAs, v.Reason))
		default:
			all = append(all, findings.New("STRAIT-U002", findings.OK, subject, "%s is seen as it is", v.CIDR))
		}
	}
	return all
}

// udpFindings are the findings about UDP between the clusters. One way is enough: then the
// gateways of that side are called.
func udpFindings(probes ...crossProbe) (all []findings.Finding) {
	open := slices.ContainsFunc(probes, func(c crossProbe) bool { return len(c.passes) > 0 })
	for _, c := range probes {
		subject := c.from + " to " + c.to
		switch {
		case c.err != nil:
			all = append(all, findings.New("STRAIT-U001", findings.Skipped, subject, "not tried: %v", c.err))
		case len(c.passes) > 0:
			all = append(all, findings.New("STRAIT-U001", findings.OK, subject, "UDP passes to %s", strings.Join(c.passes, ", ")))
		case open:
			all = append(all, findings.New("STRAIT-U001", findings.Info, subject, "UDP does not pass to %s; the other way does, which is enough", strings.Join(c.unanswered, ", ")))
		default:
			all = append(all, findings.New("STRAIT-U001", findings.Warning, subject, "UDP does not pass to %s; a LoadBalancer may be reached where NodePorts are not", strings.Join(c.unanswered, ", ")))
		}
	}
	return all
}

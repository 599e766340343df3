package preflight

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/operate/findings"
)

// crossProbe is the result of probing UDP from one cluster to the other.
type crossProbe struct {
	from, to   string   // the clusters
	passes     []string // addresses that answered, with ports
	unanswered []string // addresses that did not, with the error
	err        error    // the probe could not run
}

func pairFindings(local, remote *facts) (all []findings.Finding) {
	subject := local.name + " and " + remote.name
	if local.systemUID != "" && local.systemUID == remote.systemUID {
		return []findings.Finding{findings.New("STRAIT-U004", findings.Error, subject, "both are the same cluster: namespace kube-system has UID %s in both", local.systemUID)}
	}
	all = append(all, findings.New("STRAIT-U004", findings.OK, subject, "the clusters are different"))
	if off := (local.skew - remote.skew).Abs(); off > clockTolerance+local.uncertainty+remote.uncertainty {
		all = append(all, findings.New("STRAIT-U003", findings.Warning, subject, "their clocks differ by %v: invites expire too early or too late", off.Round(time.Second)))
	} else {
		all = append(all, findings.New("STRAIT-U003", findings.OK, subject, "their clocks agree"))
	}
	all = append(all, mappingFindings(local, remote)...)
	return append(all, mappingFindings(remote, local)...)
}

// planned is the placeholder name of a Peering that does not exist; it is not a valid name.
const planned = "(planned)"

// mappingFindings returns the findings about the mapping of one cluster's CIDRs in the
// other, by a Peering that lists none of them, as strait peer and strait accept create it.
func mappingFindings(by, of *facts) []findings.Finding {
	subject := of.name + " mapped in " + by.name
	if by.network == nil || of.network == nil {
		return []findings.Finding{findings.New("STRAIT-U002", findings.Skipped, subject, "skipped because the CIDRs of both clusters are not known")}
	}
	var ranges v1alpha1.RemotePrefixes
	for _, cidr := range slices.Concat(of.network.Status.PodCIDRs, of.network.Spec.ExternalCIDRs) {
		ranges = append(ranges, v1alpha1.RemotePrefix{CIDR: cidr})
	}
	views, err := allocation.Preview(by.network, nil, nil, planned, ranges, func(v1alpha1.CIDR) bool { return false })
	kept, err2 := allocation.Preview(by.network, nil, nil, planned, ranges, func(v1alpha1.CIDR) bool { return true })
	if err := cmp.Or(err, err2); err != nil {
		return []findings.Finding{findings.New("STRAIT-U002", findings.Skipped, subject, "%v", err)}
	}
	var all []findings.Finding
	for i, v := range views {
		switch {
		case v.SeenAs == "":
			all = append(all, findings.New("STRAIT-U002", findings.Error, subject, "%s cannot be mapped: %s", v.CIDR, v.Reason))
		case kept[i].SeenAs == v.CIDR:
			all = append(all, findings.New("STRAIT-U002", findings.Info, subject, "%s will be mapped to %s, one to one; with --keep-addresses it keeps its addresses", v.CIDR, v.SeenAs))
		default:
			all = append(all, findings.New("STRAIT-U002", findings.Info, subject, "%s will be mapped to %s, one to one: %s", v.CIDR, v.SeenAs, kept[i].Reason))
		}
	}
	return all
}

// udpFindings returns the findings about UDP between the clusters. One direction is
// sufficient: then the gateways of that cluster accept connections.
func udpFindings(probes ...crossProbe) (all []findings.Finding) {
	open := slices.ContainsFunc(probes, func(c crossProbe) bool { return len(c.passes) > 0 })
	for _, c := range probes {
		subject := c.from + " to " + c.to
		switch {
		case c.err != nil:
			all = append(all, findings.New("STRAIT-U001", findings.Skipped, subject, "skipped: %v", c.err))
		case len(c.passes) > 0:
			all = append(all, findings.New("STRAIT-U001", findings.OK, subject, "UDP passes to %s", strings.Join(c.passes, ", ")))
		case open:
			all = append(all, findings.New("STRAIT-U001", findings.Info, subject, "UDP does not pass to %s; the other direction works, which is sufficient", strings.Join(c.unanswered, ", ")))
		default:
			all = append(all, findings.New("STRAIT-U001", findings.Warning, subject, "UDP does not pass to %s; a LoadBalancer may be reachable where NodePorts are not", strings.Join(c.unanswered, ", ")))
		}
	}
	return all
}

package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/findings"
)

// NodeReport is the result of inspecting a node.
type NodeReport struct {
	Node              string
	Is                node.Inspection
	Err               error         // the inspection failed
	skew, uncertainty time.Duration // of its clock relative to the local clock
}

// Tolerances. WireGuard itself only requires that the clock does not go backwards;
// certificates and tokens require more.
const (
	clockTolerance = 10 * time.Second
	smallMTU       = 1400 // leaves the IPv6 minimum of 1280 after overlay and tunnel
	internetMTU    = 1500
	azureMTU       = 1400 // larger packets are fragmented or dropped, though links report 1500
)

// nodeContext is the state of a node's cluster that its findings depend on.
type nodeContext struct {
	name        string         // of the cluster
	installed   bool           // Strait is installed: its ports and kernel objects are expected
	ipv6        bool           // pods have IPv6
	onlyIPv6    bool           // and nothing else
	azure       bool           // nodes are virtual machines of Azure
	openShift   bool           // its operator manages forwarding
	overlayMTU  int32          // as configured; 0: none
	remap, used []netip.Prefix // pools for remote CIDRs, and CIDRs that are never allocated from these
	skew        time.Duration
	uncertainty time.Duration // of the API server's clock
}

func contextOf(f *facts) nodeContext {
	p := nodeContext{name: f.name, installed: f.image != "", azure: f.hasProvider("azure"), openShift: f.gatewayConfig != nil, skew: f.skew, uncertainty: f.uncertainty}
	if f.network != nil {
		ipv4 := false
		for _, cidr := range prefixes(f.network.Status.PodCIDRs) {
			p.ipv6, ipv4 = p.ipv6 || cidr.Addr().Is6(), ipv4 || cidr.Addr().Is4()
		}
		p.onlyIPv6 = p.ipv6 && !ipv4
		spec, status := f.network.Spec, f.network.Status
		p.overlayMTU = spec.Overlay.MTU
		p.remap = prefixes(spec.RemapPools)
		p.used = prefixes(slices.Concat(status.PodCIDRs, status.ServiceCIDRs, status.NodeCIDRs, spec.InternalCIDRs, spec.ExternalCIDRs, spec.ReservedCIDRs))
	}
	return p
}

// prefixes parses CIDRs. Invalid ones are skipped.
func prefixes(texts []v1alpha1.CIDR) (all []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(string(text)); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}

func nodeFindings(p nodeContext, s NodeReport) (all []findings.Finding) {
	subject := fmt.Sprintf("%s, node %s", p.name, s.Node)
	add := func(code string, severity findings.Severity, format string, values ...any) *findings.Finding {
		all = append(all, findings.New(code, severity, subject, format, values...))
		return &all[len(all)-1]
	}
	if s.Err != nil {
		add("STRAIT-N011", findings.Warning, "%v", s.Err)
		return all
	}
	is := s.Is
	switch {
	case is.Geneve || is.VXLAN:
		add("STRAIT-N001", findings.OK, "kernel %s has %s", is.Kernel, deviceNames(is))
	case is.TUN:
		add("STRAIT-N001", findings.Warning, "kernel %s has neither Geneve nor VXLAN; the helper can encapsulate packets in userspace on a TAP device, with the chart's value node.tun=true, which needs more CPU", is.Kernel)
	default:
		add("STRAIT-N001", findings.Error, "kernel %s has neither Geneve nor VXLAN nor TAP devices: %s", is.Kernel, is.Lacks)
	}
	if is.Tables != "" {
		add("STRAIT-N002", findings.Error, "%s", is.Tables)
	} else {
		add("STRAIT-N002", findings.OK, "nftables accepts Strait's table")
	}
	portFindings(p, is, add)
	forwardingFindings(p, is, add)
	bufferFindings(is, add)
	out := exitOf(is)
	switch {
	case out.Link == "":
		add("STRAIT-N006", findings.Skipped, "there is no default route")
	case out.MTU < smallMTU:
		add("STRAIT-N006", findings.Warning, "link %s has MTU %d: packets between clusters are limited to %d bytes", out.Link, out.MTU, out.MTU-headers)
	case p.overlayMTU == 0 && p.azure && out.MTU > azureMTU:
		add("STRAIT-N006", findings.Info, "link %s has MTU %d, but Azure's network carries packets of up to %d bytes: gateways find this by probes, and limit packets between clusters to it", out.Link, out.MTU, azureMTU)
	case p.overlayMTU == 0 && out.MTU > internetMTU:
		add("STRAIT-N006", findings.Info, "link %s has MTU %d, which the Internet does not carry: gateways find by probes what crosses, and limit packets between clusters to it",
			out.Link, out.MTU)
	default:
		add("STRAIT-N006", findings.OK, "link %s has MTU %d", out.Link, out.MTU)
	}
	offloadFindings(is, add)
	spreadFindings(is, add)
	if off := (s.skew - p.skew).Abs(); off > clockTolerance+s.uncertainty+p.uncertainty {
		add("STRAIT-N007", findings.Warning, "its clock differs by %v from that of the API server", off.Round(time.Second))
	} else {
		add("STRAIT-N007", findings.OK, "its clock agrees with that of the API server")
	}
	leftoverFindings(p, is, add)
	if len(is.Preceding) > 0 {
		add("STRAIT-N015", findings.Warning, "%s: packets that match do not reach remote clusters, because Strait's rule of priority %d comes later", ShortList(is.Preceding), node.RulePriority)
	} else {
		add("STRAIT-N015", findings.OK, "no rule takes packets of pods before Strait's")
	}
	destinationFindings(p, is, add)
	return all
}

// headers is the maximum overhead of overlay and tunnel in bytes: IPv6 40, UDP 8, WireGuard
// 32, and 15 of padding.
const headers = 40 + 8 + 32 + 15

func bufferFindings(is node.Inspection, add addFinding) {
	var small, all []string
	for _, name := range []string{"net.core.rmem_max", "net.core.wmem_max"} {
		if v, known := is.Settings[name]; known {
			all = append(all, fmt.Sprintf("%s is %d", name, v))
			if v < config.SocketBuffer {
				small = append(small, all[len(all)-1])
			}
		}
	}
	switch {
	case len(small) > 0:
		add("STRAIT-N005", findings.Warning, "%s: a gateway on this node requests %d bytes, gets less, and loses packets in bursts", strings.Join(small, ", "), config.SocketBuffer)
	case len(all) > 0:
		add("STRAIT-N005", findings.OK, "%s", strings.Join(all, ", "))
	}
}

// addFinding adds a finding and returns it, until the next one is added.
type addFinding func(code string, severity findings.Severity, format string, values ...any) *findings.Finding

func deviceNames(is node.Inspection) string {
	var all []string
	for _, one := range []struct {
		is   bool
		name string
	}{{is.Geneve, "Geneve"}, {is.VXLAN, "VXLAN"}, {is.TUN, "TAP devices"}, {is.WireGuard(), "WireGuard"}} {
		if one.is {
			all = append(all, one.name)
		}
	}
	return strings.Join(all, ", ")
}

// offloadFindings checks the offloads of the link to other networks.
func offloadFindings(is node.Inspection, add addFinding) {
	out := exitOf(is)
	gro, known := out.Offloads["rx-gro"]
	switch {
	case out.Link == "":
		add("STRAIT-N012", findings.Skipped, "there is no default route")
	case !known:
		add("STRAIT-N012", findings.Skipped, "the kernel does not report the offloads of its links")
	case !gro:
		add("STRAIT-N012", findings.Info, "GRO (rx-gro) is disabled on link %s: the node processes each packet from gateways separately, which needs more CPU", out.Link)
	default:
		var on []string
		for name, is := range out.Offloads {
			if is {
				on = append(on, name)
			}
		}
		slices.Sort(on)
		add("STRAIT-N012", findings.OK, "link %s has %s", out.Link, strings.Join(on, ", "))
	}
}

// spreadFindings says by what the kernel spreads flows over gateways.
func spreadFindings(is node.Inspection, add addFinding) {
	for _, family := range []string{"ipv4", "ipv6"} {
		name := "net." + family + ".fib_multipath_hash_policy"
		policy, known := is.Settings[name]
		switch {
		case family == "ipv6" && !is.IPv6:
		case !known:
			add("STRAIT-N014", findings.Skipped, "%s cannot be read", name)
		case policy == 0 && family == "ipv4":
			add("STRAIT-N014", findings.OK, "%s is 0: all flows between two pods take the same gateway", name)
		case policy == 0:
			add("STRAIT-N014", findings.OK, "%s is 0: flows are spread by addresses and flow label", name)
		case policy == 1:
			add("STRAIT-N014", findings.OK, "%s is 1: flows are spread by addresses and ports, fragments by addresses alone", name)
		default:
			add("STRAIT-N014", findings.Info, "%s is %d: flows are spread by the fields that it selects", name, policy)
		}
	}
}

// exitOf returns the link to other networks: that of IPv4, or of IPv6 on a node without IPv4.
func exitOf(is node.Inspection) node.Exit {
	if is.Out.Link == "" {
		return is.Out6
	}
	return is.Out
}

// portFindings checks Strait's ports. If Strait is installed, they are in use by Strait.
func portFindings(p nodeContext, is node.Inspection, add addFinding) {
	switch {
	case len(is.Taken) == 0:
		add("STRAIT-N003", findings.OK, "UDP 6091 and 6092 and TCP %d are free", node.HealthPort)
	case p.installed:
		add("STRAIT-N003", findings.OK, "ports are in use, as Strait is installed")
	default:
		for _, port := range is.Taken {
			if port.Number == node.HealthPort {
				add("STRAIT-N003", findings.Error, "TCP %d, on which the helper serves health and metrics, is in use: %s", port.Number, port.Why)
			} else {
				add("STRAIT-N003", findings.Error, "UDP %d, which Geneve or VXLAN needs, is in use: %s%s", port.Number, port.Why, linkWithPort(is.Strange, port.Number))
			}
		}
	}
}

func linkWithPort(strange []string, port uint16) string {
	for _, s := range strange {
		if strings.HasSuffix(s, fmt.Sprintf("UDP port %d", port)) {
			return "; " + s
		}
	}
	return ""
}

func forwardingFindings(p nodeContext, is node.Inspection, add addFinding) {
	fail := func(format string) {
		if found := add("STRAIT-N004", findings.Error, format); p.openShift {
			found.Remedy = forwardOnOpenShift
		}
	}
	v4, known := is.Settings["net.ipv4.ip_forward"]
	v6 := is.Settings["net.ipv6.conf.all.forwarding"]
	switch {
	case known && v4 == 0 && !p.onlyIPv6:
		fail("net.ipv4.ip_forward is 0: packets of pods are not forwarded")
	case p.ipv6 && !is.IPv6:
		fail("pods have IPv6, but it is disabled on the node")
	case p.ipv6 && v6 == 0:
		fail("net.ipv6.conf.all.forwarding is 0: IPv6 packets of pods are not forwarded")
	default:
		add("STRAIT-N004", findings.OK, "packets are forwarded; the reverse path filter is %d, and loose on Strait's own links", is.Settings["net.ipv4.conf.all.rp_filter"])
	}
}

// leftoverFindings checks for conflicting configuration: of other software, or of an
// earlier Strait.
func leftoverFindings(p nodeContext, is node.Inspection, add addFinding) {
	if len(is.Strange) > 0 {
		add("STRAIT-N008", findings.Error, "%s", strings.Join(is.Strange, "; "))
	} else {
		add("STRAIT-N008", findings.OK, "no conflicts")
	}
	ours := slices.Concat(is.Ours.Links, is.Ours.Nexthops, is.Ours.Routes, is.Ours.Rules)
	if is.Ours.Table {
		ours = append(ours, "nftables table strait")
	}
	switch {
	case len(ours) == 0:
		add("STRAIT-N009", findings.OK, "no leftovers")
	case p.installed:
		add("STRAIT-N009", findings.OK, "Strait's configuration belongs to the installed Strait")
	default:
		add("STRAIT-N009", findings.Warning, "found %s", ShortList(ours))
	}
}

// destinationFindings checks for destinations in the remap pools that the node routes
// itself. CIDRs that the cluster is known to use are not mapped to.
func destinationFindings(p nodeContext, is node.Inspection, add addFinding) {
	if len(p.remap) == 0 {
		add("STRAIT-N013", findings.Skipped, "the remap pools are not known")
		return
	}
	var conflicts []string
	for _, d := range is.Destinations {
		within := func(used netip.Prefix) bool { return used.Bits() <= d.Prefix.Bits() && used.Contains(d.Prefix.Addr()) }
		i := slices.IndexFunc(p.remap, d.Prefix.Overlaps)
		if i >= 0 && !slices.ContainsFunc(p.used, within) {
			conflicts = append(conflicts, fmt.Sprintf("%s overlaps the remap pool %s", d.Text, p.remap[i]))
		}
	}
	if len(conflicts) == 0 {
		add("STRAIT-N013", findings.OK, "no route of the node overlaps the remap pools")
		return
	}
	add("STRAIT-N013", findings.Warning, "%s: the node will not route a CIDR to gateways that is mapped to the same addresses", ShortList(conflicts))
}

// ShortList formats a list for one line.
func ShortList(all []string) string {
	const most = 4
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// mtuFindings checks that the nodes' networks have the same MTU.
func mtuFindings(p nodeContext, reports []NodeReport) (all []findings.Finding) {
	first := -1
	for i, s := range reports {
		switch out := exitOf(s.Is); {
		case s.Err != nil || out.Link == "":
		case first < 0:
			first = i
		case out.MTU != exitOf(reports[first].Is).MTU:
			return []findings.Finding{findings.New("STRAIT-N006", findings.Warning, p.name,
				"nodes have different MTUs: %d on %s, and %d on %s; the MTU of the gateways' nodes applies to all", exitOf(reports[first].Is).MTU, reports[first].Node, out.MTU, s.Node)}
		}
	}
	return nil
}

func canInspect(n *corev1.Node) bool {
	return n.Status.NodeInfo.OperatingSystem == "linux" && forbidsHelper(n) == "" && agents.NodeReady(n) == corev1.ConditionTrue
}

package operator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// recent is the maximum age of the last handshake of a link in use.
const recent = 3 * time.Minute

// stages returns the stages from a Peering to forwarded packets, in the order in which they
// have to be reached.
func stages(n *v1alpha1.ClusterNetwork, p *v1alpha1.Peering, links []Link, now time.Time) []Stage {
	all := []Stage{
		networkStage(n),
		rangesStage(p),
		gatewaysStage(p),
		endpointStage(p, now),
		handshakeStage(p, links, now),
		probesStage(p, links),
		conditionStage("nodes", p, v1alpha1.ConditionRouted, "the routes of the nodes are not known yet"),
		conditionStage("path-mtu", p, v1alpha1.ConditionPathMTU, "no packet of full size has passed yet"),
		announcedStage(p, now),
	}
	if p.Status.Services != nil && p.Spec.Services.ImportFrom != v1alpha1.ImportNone {
		all = append(all, servicesStage(p.Status.Services))
	}
	return all
}

func servicesStage(s *v1alpha1.PeeringServicesStatus) Stage {
	text := fmt.Sprintf("%d imported", s.Imported)
	if s.Refused > 0 {
		text += fmt.Sprintf(", %d refused", s.Refused)
	}
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Refused > 0 || s.Failed > 0 {
		text += "; strait services shows why"
	}
	if s.Receiver == "" {
		return Stage{"services", Pending, "NoReceiver", text + "; no gateway receives the exports of the remote cluster"}
	}
	return Stage{"services", Reached, "Received", text}
}

func networkStage(n *v1alpha1.ClusterNetwork) Stage {
	s := Stage{Name: "cluster-network", State: Reached, Reason: "Known", Message: "pod CIDRs " + join(n.Status.PodCIDRs)}
	for _, t := range []string{v1alpha1.ConditionDetected, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(n.Status.Conditions, t); c != nil && c.Status == metav1.ConditionFalse {
			return Stage{s.Name, Failed, c.Reason, c.Message}
		}
	}
	if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionNodesAttached); c != nil && c.Status == metav1.ConditionFalse {
		s.Message += "; not all nodes are attached: " + c.Message
	}
	return s
}

func rangesStage(p *v1alpha1.Peering) Stage {
	s := Stage{Name: "ranges", State: Pending, Reason: "NotKnown", Message: "the CIDRs of the remote cluster are not known yet"}
	seen := len(p.Status.Prefixes) + len(p.Status.ExternalPrefixes)
	switch c := condition(p, v1alpha1.ConditionCIDRConflict); {
	case c != nil && c.Status == metav1.ConditionTrue:
		return Stage{s.Name, Failed, c.Reason, c.Message}
	case c != nil && c.Status == metav1.ConditionUnknown:
		return Stage{s.Name, Pending, c.Reason, c.Message}
	case c != nil && seen > 0:
		return Stage{s.Name, Reached, c.Reason, c.Message}
	}
	return s
}

func gatewaysStage(p *v1alpha1.Peering) Stage {
	gateways, missing := readyGateways(p)
	wanted := max(int(p.Spec.Gateway.Replicas), 1)
	up := condition(p, v1alpha1.ConditionGatewaysUp)
	switch {
	case up != nil && up.Status == metav1.ConditionFalse && slices.ContainsFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return g.LinkUp }):
		return Stage{"gateways", Pending, up.Reason, up.Message}
	case missing != "":
		return Stage{"gateways", Pending, "NotRunning", missing}
	case len(gateways) > 1:
		return Stage{"gateways", Reached, "Running", fmt.Sprintf("%d of %d have a key", len(gateways), wanted)}
	}
	return Stage{"gateways", Reached, "Running", fmt.Sprintf("%s has a key", gateways[0].Name)}
}

func endpointStage(p *v1alpha1.Peering, now time.Time) Stage {
	remote := peering.RemoteOf(p, now)
	var here, there []string
	for _, g := range p.Status.Gateways {
		for _, e := range g.Endpoints {
			here = append(here, string(e))
		}
	}
	for _, g := range remote.Gateways {
		for _, e := range g.Endpoints {
			there = append(there, string(e))
		}
	}
	switch {
	case len(remote.Gateways) == 0 && len(p.Spec.Peers) > 0:
		return Stage{"endpoint", Failed, "Expired", "the invite expired before it was accepted; create a new one with strait invite " + p.Name}
	case len(remote.Gateways) == 0:
		return Stage{"endpoint", Failed, "NoPeers", "the gateways of the remote cluster are not known; " +
			"add them to spec.peers, as printed by strait status --for-remote in the remote cluster, or use strait peer"}
	case len(there) > 0:
		return Stage{"endpoint", Reached, "Calls", "connects to " + shorten(there)}
	case len(here) > 0:
		text := "accepts connections at " + shorten(here)
		if p.Status.LoadBalancer != "" {
			text += ", with the annotations for load balancers of " + p.Status.LoadBalancer
		}
		return Stage{"endpoint", Reached, "Called", text}
	}
	return Stage{"endpoint", Failed, "NoEndpoint", "neither cluster accepts connections; " +
		"set spec.gateway.service.type to NodePort or LoadBalancer in one of them, and its endpoint in spec.peers of the other"}
}

func handshakeStage(p *v1alpha1.Peering, links []Link, now time.Time) Stage {
	var last *metav1.Time
	for _, l := range links {
		if l.LastHandshake != nil && (last == nil || last.Before(l.LastHandshake)) {
			last = l.LastHandshake
		}
	}
	switch {
	case last == nil && invites(p, now):
		return Stage{"handshake", Pending, "Invited", "the invite has not been accepted yet; it is valid until " +
			p.Spec.Peers[0].NotAfter.UTC().Format(time.RFC3339) + "; accept it in the other cluster with strait accept"}
	case last == nil:
		return Stage{"handshake", Pending, "Never", "no gateway of the remote cluster has answered yet; " +
			"check that UDP passes to the endpoint, and that each cluster has the other's public key"}
	case now.Sub(last.Time) > recent:
		return Stage{"handshake", Failed, "Lost", fmt.Sprintf("the last one was %s ago; "+
			"check that UDP still passes to the endpoint, and that the gateways of both clusters run", age(now.Sub(last.Time)))}
	}
	return Stage{"handshake", Reached, "Recent", age(now.Sub(last.Time)) + " ago"}
}

// invites reports whether a Peering has nothing but a valid invite.
func invites(p *v1alpha1.Peering, now time.Time) bool {
	return len(p.Spec.Peers) == 1 && p.Spec.Peers[0].NotAfter != nil && len(peering.RemoteOf(p, now).Gateways) == 1 && p.Status.Announcement == nil
}

func probesStage(p *v1alpha1.Peering, links []Link) Stage {
	up := 0
	for _, l := range links {
		if l.Up {
			up++
		}
	}
	s := conditionStage("probes", p, v1alpha1.ConditionTunnelUp, "no probe has been answered yet")
	if s.State == Reached {
		s.Message = fmt.Sprintf("%d of %d links answer", up, len(links))
	}
	return s
}

func announcedStage(p *v1alpha1.Peering, now time.Time) Stage {
	s := conditionStage("announced", p, v1alpha1.ConditionAnnounced, "the remote cluster has not announced itself yet")
	if s.Reason == unknown && peering.RemoteOf(p, now).Announced {
		return Stage{s.Name, Reached, "Granted", "the remote cluster announces itself"}
	}
	return s
}

// unknown is the reason of a stage without a reported state.
const unknown = "NotKnown"

func conditionStage(name string, p *v1alpha1.Peering, of, otherwise string) Stage {
	c := condition(p, of)
	if c == nil {
		return Stage{name, Pending, unknown, otherwise}
	}
	state := map[metav1.ConditionStatus]State{metav1.ConditionTrue: Reached, metav1.ConditionFalse: Failed}[c.Status]
	if state == "" {
		state = Pending
	}
	return Stage{name, state, c.Reason, c.Message}
}

func join[S ~string](texts []S) string {
	var all []string
	for _, t := range texts {
		all = append(all, string(t))
	}
	return strings.Join(all, ", ")
}

// shorten returns the first item of a list and the number of further items.
func shorten(texts []string) string {
	if len(texts) == 1 {
		return texts[0]
	}
	return fmt.Sprintf("%s and %d more", texts[0], len(texts)-1)
}

func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// condition returns a condition of a Peering, nil if the controller has not evaluated the
// current generation.
func condition(p *v1alpha1.Peering, of string) *metav1.Condition {
	found := meta.FindStatusCondition(p.Status.Conditions, of)
	if found == nil || found.ObservedGeneration < p.Generation {
		return nil
	}
	return found
}

// notReadyReason explains what a Peering lacks, empty if it is ready.
func notReadyReason(p *v1alpha1.Peering) string {
	switch ready := condition(p, v1alpha1.ConditionReady); {
	case p.DeletionTimestamp != nil:
		return fmt.Sprintf("Peering %s is being deleted; wait until it is deleted", p.Name)
	case ready == nil:
		return fmt.Sprintf("the controller has not processed Peering %s yet; if this persists, check that the controller runs", p.Name)
	case ready.Status != metav1.ConditionTrue:
		return ready.Message
	}
	return ""
}

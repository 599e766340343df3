package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
)

type tunneledPacket struct {
	gateway gatewayRef
	answer  *localsocket.TraceAnswer
	link    localsocket.TraceLink
}

func (t *tunneledPacket) remoteGateway() string {
	if t.link.Gateway != "" {
		return t.link.Gateway
	}
	return t.link.Name
}

// send follows the packet from a host to the tunnel. It returns nil if the packet does not
// reach it.
func (j *packetTrace) send(s *Side, from location) *tunneledPacket {
	if j.ended {
		return nil
	}
	if _, remote := s.gatewayFor(j.packet.Destination); remote && s.withoutNodes() {
		j.drop(Hop{Stage: StageNode, Cluster: s.ID, Where: from.node}, noHelpers, "this cluster has no node helpers: gateways carry connections to imported Services, and no packets")
		return nil
	}
	g, way := j.leaveNode(s, from)
	if j.ended {
		return nil
	}
	outer := s.outer(from.node, g, way)
	h := Hop{Stage: StageOverlay, Cluster: s.ID, Where: from.node + " to " + g.Name}
	h.Outer = &Outer{outer.Source, sameFamily(g.PodAddresses, outer.Source), outer.VNI, outer.Encapsulation}
	if n := s.nodeGateway(from.node, g.Name); n != nil && !n.Ready {
		h.Notes = append(h.Notes, "the gateway does not answer the node: "+n.Message)
	}
	h.Notes = append(h.Notes, s.unusedNotes(from.node, g)...)
	a, err := s.Gateway(j.ctx, g.Name, localsocket.TraceQuestion{Probe: j.packet, Outer: &outer})
	if err != nil {
		j.unknown(Hop{Stage: StageGateway, Cluster: s.ID, Where: g.Name}, err.Error())
		return nil
	}
	if a.Node == nil || slices.Contains(frameReasons, a.Reason) {
		j.drop(h, a.Reason, fmt.Sprintf("no node of the gateway has source %v, VNI %d, %s", outer.Source, outer.VNI, outer.Encapsulation))
		return nil
	}
	if a.Node.Name != from.node {
		h.Notes = append(h.Notes, "the gateway attributes it to node "+a.Node.Name)
	}
	j.pass(h)
	j.recordGateway(Hop{Stage: StageGateway, Cluster: s.ID, Where: g.Name}, a)
	if j.ended {
		return nil
	}
	return j.tunnel(s, g, a)
}

// unusedNotes says why a node does not use other gateways of the peering, as it reports.
func (s *Side) unusedNotes(onNode string, g gatewayRef) (notes []string) {
	for _, other := range g.peering.Status.Gateways {
		if n := s.nodeGateway(onNode, other.Name); n != nil && n.State != "" && !n.InUse {
			notes = append(notes, fmt.Sprintf("the node does not use gateway %s: %s", n.Name, n.State))
		}
	}
	return notes
}

// frameReasons are the reasons for which a gateway drops an outer packet before it parses
// the inner one.
var frameReasons = []string{
	gateway.UnknownSource.String(), gateway.WrongVNI.String(), gateway.FrameTruncated.String(), gateway.FrameLoop.String(),
	gateway.GeneveVersion.String(), gateway.GeneveControl.String(), gateway.GeneveCritical.String(), gateway.GeneveOptions.String(),
	gateway.GeneveProtocol.String(), gateway.VXLANFlags.String(), gateway.FrameEtherType.String(), gateway.FrameNeighbour.String(),
}

// leaveNode finds the gateway that the node's kernel routes the packet to. way is nil if
// the kernel cannot be queried.
func (j *packetTrace) leaveNode(s *Side, from location) (g gatewayRef, way *node.Way) {
	h := Hop{Stage: StageNode, Cluster: s.ID, Where: from.node}
	to, source := j.packet.Destination, j.packet.Source
	asks := source
	if from.host {
		asks = netip.Addr{}
	}
	way, err := s.Way(j.ctx, from.node, to, asks)
	if err != nil {
		g, remote := s.gatewayFor(to)
		if !remote {
			j.drop(h, notRemote, fmt.Sprintf("%v is not in a mapped CIDR of a remote cluster", to))
			return g, nil
		}
		j.unknown(h, err.Error())
		if g.known() {
			j.ended = false
			j.applyNode(s, from, nil)
		}
		return g, nil
	}
	if reason, note := s.refused(to, way); reason != "" {
		j.drop(h, reason, note)
		return g, nil
	}
	if j.packet.Length() > way.MTU && !j.packet.MayFragment {
		j.drop(h, tooBig, fmt.Sprintf("packet of %d bytes; the MTU of the node's route is %d", j.packet.Length(), way.MTU))
		return g, nil
	}
	if g = s.gatewayAt(way.Via); !g.known() {
		j.drop(h, noServing, fmt.Sprintf("the route leads to %v, which is not a gateway of a Peering", way.Via))
		return g, nil
	}
	j.applyNode(s, from, way)
	notes := []string{fmt.Sprintf("%v via %v on %s, MTU %d", way.Range, way.Via, way.Device, way.MTU)}
	if len(way.Gateways) > 1 {
		notes = append(notes, s.spreadNote(way))
	}
	if j.packet.Source != source {
		notes = append(notes, "the source becomes the node's internal address")
	}
	if way.Sources != node.SourcesKept {
		notes = append(notes, "the nftables table is "+way.Sources+": the network plugin may change the source")
	}
	j.pass(h, notes...)
	return g, way
}

// spreadNote names the gateways over which a node spreads flows.
func (s *Side) spreadNote(way *node.Way) string {
	var names []string
	for _, a := range way.Gateways {
		name := a.String()
		if g := s.gatewayAt(a); g.known() {
			name = g.Name
		}
		names = append(names, name)
	}
	all := strings.Join(names, ", ")
	if way.Any {
		return fmt.Sprintf("flows are spread over %s: the kernel also hashes ports or flow label, so this flow may take any of them", all)
	}
	return fmt.Sprintf("flows are spread over %s by addresses", all)
}

// applyNode changes the packet as the node does.
func (j *packetTrace) applyNode(s *Side, from location, way *node.Way) {
	switch {
	case from.host && way != nil && way.Source.IsValid():
		j.packet.Source = way.Source
		return
	case from.host || !s.keepsSource(from.node, j.packet.Source):
		if a := s.internal(from.node, j.packet.Source); a.IsValid() {
			j.packet.Source = a
		}
	}
	if !from.host {
		j.packet.TTL--
	}
}

// refused returns the reason why a node does not route the packet to a gateway, empty if it
// does.
func (s *Side) refused(to netip.Addr, way *node.Way) (reason, note string) {
	_, remote := s.gatewayFor(to)
	switch {
	case way.Overlay != nil && !way.Overlay.Up:
		return nodeLinkDown, way.Device + " is down"
	case way.Overlay != nil:
		return "", ""
	case way.Blackhole && !remote:
		return notRemote, fmt.Sprintf("%v was withdrawn: it is not in a mapped CIDR of a remote cluster, and the node still drops its packets", way.Range)
	case way.Blackhole:
		return noServing, fmt.Sprintf("no gateway serves %v: its packets are dropped", way.Range)
	case way.Range.IsValid() && !way.Rule:
		return noRule, fmt.Sprintf("the node has a route for %v, but no policy rule for the table of that route", way.Range)
	case !remote && !way.Range.IsValid():
		return notRemote, fmt.Sprintf("%v is not in a mapped CIDR of a remote cluster", to)
	case way.Refused != "":
		return noRoute, way.Refused
	case way.Local:
		return noRoute, fmt.Sprintf("%v is an address of the node", to)
	}
	return noRoute, fmt.Sprintf("the packet leaves through %s, not to a gateway", way.Device)
}

// outer returns the outer header of the node's packets to a gateway: from its kernel, or
// else from the objects.
func (s *Side) outer(onNode string, g gatewayRef, way *node.Way) localsocket.TraceOuter {
	o := localsocket.TraceOuter{Encapsulation: config.Geneve}
	if a := s.attachment(onNode); a != nil {
		o.VNI = v1alpha1.VNI(a.Spec.Index, g.Number)
		for _, there := range g.PodAddresses {
			if theirs, err := netip.ParseAddr(string(there)); err == nil && !o.Source.IsValid() {
				o.Source = sameFamily(a.Spec.UnderlayAddresses, theirs)
			}
		}
	}
	if n := s.nodeGateway(onNode, g.Name); n != nil {
		if n.Encapsulation == v1alpha1.VXLAN {
			o.Encapsulation = config.VXLAN
		}
		if from, err := netip.ParseAddr(string(n.Source)); err == nil {
			o.Source = from
		}
	}
	if way == nil || !way.Overlay.Gateway.IsValid() { // for userspace, only the helper knows more
		return o
	}
	if o.VNI = way.Overlay.VNI; way.Overlay.Source.IsValid() {
		o.Source = way.Overlay.Source
	}
	if o.Encapsulation = config.Geneve; way.Overlay.Encapsulation == node.VXLAN {
		o.Encapsulation = config.VXLAN
	}
	return o
}

// recordGateway records what a gateway does with the packet.
func (j *packetTrace) recordGateway(h Hop, a *localsocket.TraceAnswer) {
	h.Entries = a.Entries
	h.Notes = append(h.Notes, entryNotes(a)...)
	switch {
	case a.Verdict == localsocket.TraceDropped && a.Error != nil:
		j.drop(h, a.Reason, fmt.Sprintf("%s; an ICMP error goes back from %v", explain(a), a.Error.Source))
	case a.Verdict == localsocket.TraceDropped:
		j.drop(h, a.Reason, explain(a))
	case a.After == nil || a.Verdict == localsocket.TraceToNode && a.Node == nil:
		j.unknown(h, "the answer of the gateway lacks the outgoing packet; use a strait of its version")
	default:
		j.packet = *a.After
		if a.Before.MSS != a.After.MSS {
			h.Notes = append(h.Notes, fmt.Sprintf("MSS %d becomes %d", a.Before.MSS, a.After.MSS))
		}
		if len(a.Pieces) > 0 {
			h.Notes = append(h.Notes, fmt.Sprintf("fragments of %v bytes", a.Pieces))
		}
		j.pass(h, fmt.Sprintf("MTU %d", a.MTU))
	}
}

// entryNotes describes the matching entries of a gateway's table.
func entryNotes(a *localsocket.TraceAnswer) (notes []string) {
	for _, e := range a.Entries {
		switch {
		case e.Role == gateway.Sender:
		case e.Role == gateway.Grant:
			notes = append(notes, fmt.Sprintf("%v is granted", e.Prefix))
		case e.Of == gateway.OfRemote && e.Role == gateway.Source:
			notes = append(notes, fmt.Sprintf("%v of cluster %s is mapped to %v", e.Prefix, a.Remote, e.Other))
		case e.Of == gateway.OfRemote:
			notes = append(notes, fmt.Sprintf("%v is mapped from %v of cluster %s", e.Prefix, e.Other, a.Remote))
		case e.Of == gateway.OfGateway:
			notes = append(notes, fmt.Sprintf("%v is the gateway itself", e.Prefix))
		case e.Of == gateway.OfProxy:
			notes = append(notes, fmt.Sprintf("%v are pods to which the gateway opens connections of its own; these are not traced", e.Prefix))
		case e.Other.IsValid():
			notes = append(notes, fmt.Sprintf("%v is %v of %s", e.Prefix, e.Other, e.Node))
		default:
			notes = append(notes, fmt.Sprintf("%v is behind %s", e.Prefix, e.Node))
		}
	}
	return notes
}

// explain explains why a gateway drops a packet.
func explain(a *localsocket.TraceAnswer) string {
	p := a.Before
	switch a.Reason {
	case gateway.TooBig.String():
		return fmt.Sprintf("packet of %d bytes; the MTU of the next hop is %d", p.Size, a.MTU)
	case gateway.DestinationNotGranted.String():
		return fmt.Sprintf("no entry of the table grants access to %v", p.Destination)
	case gateway.SourceNotGranted.String():
		return fmt.Sprintf("no entry of the table grants %v access to the remote cluster", p.Source)
	case gateway.SpoofedSource.String():
		return fmt.Sprintf("%v is not an address behind the sending node", p.Source)
	case gateway.NoNode.String():
		return fmt.Sprintf("%v is behind no node", p.Destination)
	}
	return fmt.Sprintf("%v to %v: %s", p.Source, p.Destination, a.Reason)
}

// handshakeFresh is the maximum age of the last handshake of a peer that answers no probes
// because it is not Strait: WireGuard renews it every two minutes.
const handshakeFresh = 3 * time.Minute

// tunnel follows the packet into the link that the gateway uses.
func (j *packetTrace) tunnel(s *Side, g gatewayRef, a *localsocket.TraceAnswer) *tunneledPacket {
	t := &tunneledPacket{gateway: g, answer: a}
	h := Hop{Stage: StageTunnel, Cluster: s.ID, Where: g.Name}
	if a.Verdict == localsocket.TraceToHost {
		j.ended = true // delivered: to the gateway itself
		return nil
	}
	i := slices.IndexFunc(a.Links, func(l localsocket.TraceLink) bool { return l.Active })
	if i < 0 {
		j.drop(h, noPeer, "the gateway has no link to a gateway of cluster "+a.Remote)
		return nil
	}
	t.link = a.Links[i]
	h.Where = g.Name + " to " + t.remoteGateway()
	unanswered := t.link.RTT == 0 && j.now.Sub(t.link.LastHandshake) < handshakeFresh
	switch {
	case !t.link.Endpoint.IsValid():
		j.drop(h, noPeer, "the endpoint of the remote gateway is not known yet")
		return nil
	case !t.link.Up && !unanswered:
		j.drop(h, linkDown, "probes are not answered: the remote gateway is not reached")
		return nil
	case unanswered:
		j.pass(h, "it does not answer probes, but the handshake is recent")
	case t.link.PathMTU == 0:
		j.pass(h, fmt.Sprintf("RTT %v", t.link.RTT.Round(10*time.Microsecond)), "no packet of full size has passed recently")
	default:
		j.pass(h, fmt.Sprintf("RTT %v, packets of %d bytes pass", t.link.RTT.Round(10*time.Microsecond), t.link.PathMTU))
	}
	return t
}

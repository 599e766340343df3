package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
)

// tunneledPacket is a packet on its way through the tunnel.
type tunneledPacket struct {
	gateway gatewayRef
	answer  *daemon.TraceAnswer
	link    daemon.TraceLink
}

// remoteGateway names the remote gateway.
func (t *tunneledPacket) remoteGateway() string {
	if t.link.Gateway != "" {
		return t.link.Gateway
	}
	return t.link.Name
}

// send takes the packet from a host to the tunnel. It returns nil where it does not come
// so far.
func (j *packetTrace) send(s *Side, from location) *tunneledPacket {
	if j.ended {
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
	a, err := s.Gateway(j.ctx, g.Name, daemon.TraceQuestion{Probe: j.packet, Outer: &outer})
	if err != nil {
		j.unknown(Hop{Stage: StageGateway, Cluster: s.ID, Where: g.Name}, err.Error())
		return nil
	}
	if a.Node == nil || slices.Contains(frameReasons, a.Reason) {
		j.drop(h, a.Reason, fmt.Sprintf("the gateway knows no node by %v, VNI %d, %s", outer.Source, outer.VNI, outer.Encapsulation))
		return nil
	}
	if a.Node.Name != from.node {
		h.Notes = append(h.Notes, "the gateway takes it for node "+a.Node.Name)
	}
	j.pass(h)
	j.recordGateway(Hop{Stage: StageGateway, Cluster: s.ID, Where: g.Name}, a)
	if j.ended {
		return nil
	}
	return j.tunnel(s, g, a)
}

// frameReasons are those for which a gateway drops frames before it looks at the packet.
var frameReasons = []string{
	gateway.UnknownSource.String(), gateway.WrongVNI.String(), gateway.FrameTruncated.String(), gateway.FrameLoop.String(),
	gateway.GeneveVersion.String(), gateway.GeneveControl.String(), gateway.GeneveCritical.String(), gateway.GeneveOptions.String(),
	gateway.GeneveProtocol.String(), gateway.VXLANFlags.String(), gateway.FrameEtherType.String(), gateway.FrameNeighbour.String(),
}

// leaveNode finds the gateway that the node's kernel sends the packet to. way is nil where
// the kernel cannot be asked.
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
			j.drop(h, notRemote, fmt.Sprintf("%v is in no range of a remote cluster", to))
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
		j.drop(h, tooBig, fmt.Sprintf("%d bytes; the node's route carries %d", j.packet.Length(), way.MTU))
		return g, nil
	}
	if g = s.gatewayAt(way.Via); !g.known() {
		j.drop(h, noServing, fmt.Sprintf("the route leads to %v, which is no gateway of a Peering", way.Via))
		return g, nil
	}
	j.applyNode(s, from, way)
	notes := []string{fmt.Sprintf("%v via %v on %s, MTU %d", way.Range, way.Via, way.Device, way.MTU)}
	if j.packet.Source != source {
		notes = append(notes, "the source becomes that of the node on the overlay")
	}
	if way.Sources != node.SourcesKept {
		notes = append(notes, "the table of nftables is "+way.Sources+": the network plugin may change the source")
	}
	j.pass(h, notes...)
	return g, way
}

// applyNode does to the packet what the node does.
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

// refused is why a node does not send the packet to a gateway, if it does not.
func (s *Side) refused(to netip.Addr, way *node.Way) (reason, note string) {
	_, remote := s.gatewayFor(to)
	switch {
	case way.Overlay != nil && !way.Overlay.Up:
		return nodeLinkDown, way.Device + " is down"
	case way.Overlay != nil:
		return "", ""
	case way.Blackhole && !remote:
		return notRemote, fmt.Sprintf("%v was withdrawn: it is in no range of a remote cluster, and the node still drops its packets", way.Range)
	case way.Blackhole:
		return noServing, fmt.Sprintf("no gateway serves %v: its packets are dropped", way.Range)
	case way.Range.IsValid() && !way.Rule:
		return noRule, fmt.Sprintf("the node has a route for %v, and no rule that makes it look there", way.Range)
	case !remote && !way.Range.IsValid():
		return notRemote, fmt.Sprintf("%v is in no range of a remote cluster", to)
	case way.Refused != "":
		return noRoute, way.Refused
	case way.Local:
		return noRoute, fmt.Sprintf("%v is the node's own", to)
	}
	return noRoute, fmt.Sprintf("the packet leaves by %s, and not to a gateway", way.Device)
}

// outer is what is around the node's frames to a gateway: by its kernel, or else by the
// objects.
func (s *Side) outer(onNode string, g gatewayRef, way *node.Way) daemon.TraceOuter {
	o := daemon.TraceOuter{Encapsulation: config.Geneve}
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
	if way == nil || !way.Overlay.Gateway.IsValid() { // of userspace only the helper knows more
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

// recordGateway is what a gateway does with the packet.
func (j *packetTrace) recordGateway(h Hop, a *daemon.TraceAnswer) {
	h.Entries = a.Entries
	h.Notes = append(h.Notes, entryNotes(a)...)
	switch {
	case a.Verdict == daemon.TraceDropped && a.Error != nil:
		j.drop(h, a.Reason, fmt.Sprintf("%s; an ICMP error goes back from %v", explain(a), a.Error.Source))
	case a.Verdict == daemon.TraceDropped:
		j.drop(h, a.Reason, explain(a))
	case a.After == nil || a.Verdict == daemon.TraceToNode && a.Node == nil:
		j.unknown(h, "the gateway does not say how the packet leaves; use a strait of its version")
	default:
		j.packet = *a.After
		if a.Before.MSS != a.After.MSS {
			h.Notes = append(h.Notes, fmt.Sprintf("MSS %d becomes %d", a.Before.MSS, a.After.MSS))
		}
		if len(a.Pieces) > 0 {
			h.Notes = append(h.Notes, fmt.Sprintf("in fragments of %v bytes", a.Pieces))
		}
		j.pass(h, fmt.Sprintf("MTU %d", a.MTU))
	}
}

// entryNotes names the entries of a gateway's table that decided.
func entryNotes(a *daemon.TraceAnswer) (notes []string) {
	for _, e := range a.Entries {
		switch {
		case e.Role == gateway.Sender:
		case e.Role == gateway.Grant:
			notes = append(notes, fmt.Sprintf("%v is granted", e.Prefix))
		case e.Of == gateway.OfRemote && e.Role == gateway.Source:
			notes = append(notes, fmt.Sprintf("%v of cluster %s is seen as %v", e.Prefix, a.Remote, e.Other))
		case e.Of == gateway.OfRemote:
			notes = append(notes, fmt.Sprintf("%v is %v of cluster %s", e.Prefix, e.Other, a.Remote))
		case e.Of == gateway.OfGateway:
			notes = append(notes, fmt.Sprintf("%v is the gateway itself", e.Prefix))
		case e.Other.IsValid():
			notes = append(notes, fmt.Sprintf("%v is %v of %s", e.Prefix, e.Other, e.Node))
		default:
			notes = append(notes, fmt.Sprintf("%v is behind %s", e.Prefix, e.Node))
		}
	}
	return notes
}

// explain says why a gateway drops a packet.
func explain(a *daemon.TraceAnswer) string {
	p := a.Before
	switch a.Reason {
	case gateway.TooBig.String():
		return fmt.Sprintf("%d bytes; the next leg carries %d", p.Size, a.MTU)
	case gateway.DestinationNotGranted.String():
		return fmt.Sprintf("the table has nothing that lets anybody reach %v", p.Destination)
	case gateway.SourceNotGranted.String():
		return fmt.Sprintf("the table does not let %v talk to the other cluster", p.Source)
	case gateway.SpoofedSource.String():
		return fmt.Sprintf("%v is not behind the node that sends it", p.Source)
	case gateway.NoNode.String():
		return fmt.Sprintf("%v is behind no node", p.Destination)
	}
	return fmt.Sprintf("%v to %v: %s", p.Source, p.Destination, a.Reason)
}

// handshakeFresh is how old the last handshake may be of a peer that answers no probes
// because it is not Strait: WireGuard makes one every two minutes.
const handshakeFresh = 3 * time.Minute

// tunnel takes the packet into the link that the gateway uses.
func (j *packetTrace) tunnel(s *Side, g gatewayRef, a *daemon.TraceAnswer) *tunneledPacket {
	t := &tunneledPacket{gateway: g, answer: a}
	h := Hop{Stage: StageTunnel, Cluster: s.ID, Where: g.Name}
	if a.Verdict == daemon.TraceToHost {
		j.ended = true // delivered: to the gateway itself
		return nil
	}
	i := slices.IndexFunc(a.Links, func(l daemon.TraceLink) bool { return l.Active })
	if i < 0 {
		j.drop(h, noPeer, "the gateway has no link to a gateway of cluster "+a.Remote)
		return nil
	}
	t.link = a.Links[i]
	h.Where = g.Name + " to " + t.remoteGateway()
	unanswered := t.link.RTT == 0 && j.now.Sub(t.link.LastHandshake) < handshakeFresh
	switch {
	case !t.link.Endpoint.IsValid():
		j.drop(h, noPeer, "nobody knows yet where the remote gateway is")
		return nil
	case !t.link.Up && !unanswered:
		j.drop(h, linkDown, "no probe has come back: the remote gateway is not reached")
		return nil
	case unanswered:
		j.pass(h, "it answers no probes, and agreed on keys lately")
	case t.link.PathMTU == 0:
		j.pass(h, fmt.Sprintf("RTT %v", t.link.RTT.Round(10*time.Microsecond)), "no packet of full size has crossed lately")
	default:
		j.pass(h, fmt.Sprintf("RTT %v, packets of %d bytes cross", t.link.RTT.Round(10*time.Microsecond), t.link.PathMTU))
	}
	return t
}

package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
	"strait.dev/strait/operate/agents"
)

// arrive follows the packet from the tunnel to a host of a side and returns that host. s is
// nil if there is no access to that cluster. from is the other side.
func (j *packetTrace) arrive(s, from *Side, t *tunneledPacket) (there location) {
	if t == nil || j.ended {
		return there
	}
	h := Hop{Stage: StageGateway, Cluster: t.answer.Remote, Where: t.remoteGateway()}
	if s == nil {
		j.unknown(h, noRemoteAccess+"; set --remote-context, or run strait trace from one of its pods")
		return there
	}
	if id := t.answer.Remote; id != "" && s.ID != id {
		j.unknown(h, fmt.Sprintf("the tunnel leads to cluster %s, but --remote-context is cluster %s; select another --remote-context", id, s.ID))
		return there
	}
	g := s.gatewayOf(t.link.RemoteKey)
	if !g.known() {
		j.unknown(h, fmt.Sprintf("no gateway of cluster %s has the key %s; run strait status to see whether it has changed", s.ID, t.link.RemoteKey))
		return there
	}
	there, a := j.enterGateway(s, g.Name)
	if a != nil && !slices.ContainsFunc(a.Links, func(l localsocket.TraceLink) bool { return l.RemoteKey == t.link.OwnKey }) {
		h.Where, h.Cluster = g.Name, s.ID
		j.hops, j.ended = j.hops[:len(j.hops)-1], true
		j.drop(h, unknownKey, fmt.Sprintf("the gateway trusts no gateway of cluster %s with the key %s", from.ID, t.link.OwnKey))
		return location{}
	}
	return j.deliver(s, g.Name, a, there)
}

// enterGateway queries what a gateway does with the packet. The answer is nil if the
// gateway cannot be queried.
func (j *packetTrace) enterGateway(s *Side, name string) (to location, a *localsocket.TraceAnswer) {
	h := Hop{Stage: StageGateway, Cluster: s.ID, Where: name}
	a, err := s.Gateway(j.ctx, name, localsocket.TraceQuestion{Probe: j.packet, FromTunnel: true})
	if err != nil {
		j.unknown(h, err.Error())
		return to, nil
	}
	if a.Reason == sourceNotGiven {
		h.Notes = []string{"WireGuard drops it: it is not in the allowed IPs of the peer"}
	}
	j.recordGateway(h, a)
	if a.Node != nil {
		to.node = a.Node.Name
	}
	return to, a
}

// deliver follows the packet from a gateway to the host behind its node.
func (j *packetTrace) deliver(s *Side, gateway string, a *localsocket.TraceAnswer, to location) location {
	if j.ended || a == nil {
		return location{}
	}
	if a.Verdict == localsocket.TraceToHost {
		j.ended = true // delivered: to the gateway itself
		return location{}
	}
	h := Hop{Stage: StageOverlay, Cluster: s.ID, Where: gateway + " to " + to.node}
	h.Outer = &Outer{Destination: a.Node.Source, VNI: a.Node.VNI, Encapsulation: a.Node.Encapsulation}
	if g := s.gateway(func(_ *v1alpha1.Peering, g *v1alpha1.GatewayStatus) bool { return g.Name == gateway }); g.known() {
		h.Outer.Source = sameFamily(g.PodAddresses, a.Node.Source)
	}
	switch n := s.nodeGateway(to.node, gateway); {
	case s.attachment(to.node) == nil:
		j.drop(h, noNodeThere, "NodeAttachment "+to.node+" does not exist")
		return location{}
	case n == nil:
		h.Notes = []string{"the node has not reported this gateway yet"}
	case uint32(n.VNI) != a.Node.VNI:
		j.drop(h, "wrong_vni", fmt.Sprintf("the gateway sends with VNI %d, but the node uses %d", a.Node.VNI, n.VNI))
		return location{}
	case !n.Ready:
		h.Notes = []string{"the gateway does not answer the node: " + n.Message}
	}
	j.pass(h)
	j.enterNode(s, gateway, &to)
	if j.ended {
		return location{}
	}
	return to
}

// enterNode follows the packet to a pod of the node, or to the node itself.
func (j *packetTrace) enterNode(s *Side, gateway string, to *location) {
	h := Hop{Stage: StageNode, Cluster: s.ID, Where: to.node}
	address := j.packet.Destination
	to.host = s.internal(to.node, address) == address
	way, err := s.Way(j.ctx, to.node, address, j.packet.Source)
	switch {
	case err != nil:
		if h.Verdict, h.Notes = Unknown, []string{err.Error()}; !to.host {
			j.packet.TTL--
		}
		j.hops = append(j.hops, h)
	case way.Refused != "":
		j.drop(h, noRoute, way.Refused)
	case (to.host || way.Local) && !j.reply && !(to.host && s.grantsNodes(gateway)):
		j.drop(h, nodeNotGranted, fmt.Sprintf("%v is the node itself: the remote cluster may answer its connections, but open none", address))
	case to.host || way.Local:
		to.host = true
		j.pass(h, fmt.Sprintf("%v is the node itself", address))
		return
	case way.Overlay != nil:
		j.drop(h, routedBack, fmt.Sprintf("the node routes %v to a gateway through %s", address, way.Device))
	case j.packet.Length() > way.MTU && !j.packet.MayFragment:
		j.drop(h, tooBig, fmt.Sprintf("packet of %d bytes; the MTU of %s is %d", j.packet.Length(), way.Device, way.MTU))
	default:
		j.packet.TTL--
		j.pass(h, podRouteNotes(way)...)
	}
	if j.ended || to.host {
		return
	}
	j.enterPod(s, to)
}

func podRouteNotes(way *node.Way) []string {
	notes := []string{"to the pod through " + way.Device}
	if way.Via.IsValid() {
		notes = []string{fmt.Sprintf("through %s via %v", way.Device, way.Via)}
	}
	return notes
}

// enterPod finds the pod that has the address.
func (j *packetTrace) enterPod(s *Side, to *location) {
	address := j.packet.Destination
	h := Hop{Stage: StagePod, Cluster: s.ID, Where: address.String()}
	pods, err := s.PodsOn(j.ctx, to.node)
	if err != nil {
		j.unknown(h, err.Error())
		return
	}
	pod := podAt(pods, address)
	if pod == nil {
		j.drop(h, noPod, fmt.Sprintf("no pod of node %s has %v", to.node, address))
		return
	}
	to.pod, h.Where = pod, pod.Namespace+"/"+pod.Name
	if pod.Status.Phase != corev1.PodRunning {
		j.drop(h, podNotRunning, "the pod is "+string(pod.Status.Phase))
		return
	}
	if !agents.PodReady(pod) {
		h.Notes = append(h.Notes, "the pod is not ready")
	}
	if declared := ports(pod, j.packet.Protocol); len(declared) > 0 && j.packet.Port != hostPort && !slices.Contains(declared, j.packet.Port) {
		h.Notes = append(h.Notes, fmt.Sprintf("the pod declares %[2]s of %[1]s, not %[3]d; it may still listen on it", strings.ToUpper(j.packet.Protocol), join(declared), j.packet.Port))
	}
	j.pass(h)
}

// podAt returns the pod with that address of its own; of several, the running one.
func podAt(pods []corev1.Pod, address netip.Addr) (found *corev1.Pod) {
	for i := range pods {
		p := &pods[i]
		if !p.Spec.HostNetwork && slices.Contains(agents.Addresses(p), address) && (found == nil || p.Status.Phase == corev1.PodRunning) {
			found = p
		}
	}
	return found
}

// ports returns the ports of a protocol that a pod's containers declare.
func ports(pod *corev1.Pod, protocol string) (all []uint16) {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			of := strings.ToLower(string(p.Protocol))
			if of == protocol || of == "" && protocol == gateway.TCP {
				all = append(all, uint16(p.ContainerPort))
			}
		}
	}
	return all
}

func join(ports []uint16) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ports), " ", ", "), "[]")
}

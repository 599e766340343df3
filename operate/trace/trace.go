package trace

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/gateway"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/operate/agents"
)

// Question describes the packet to trace.
type Question struct {
	Namespace, Pod string
	From           netip.Addr // the source; the zero Addr: the pod's own
	To             netip.Addr
	Port           uint16 // of TCP and UDP
	Protocol       string // see package gateway
	Size           int    // of the IP packet in bytes; 0: no payload
}

// Properties of packets from hosts: the TTL of Linux, an ephemeral port, and the MSS of an
// interface with an MTU of 1500 bytes (RFC 6691).
const (
	hostTTL        = 64
	hostPort       = 40000
	hostMSS        = 1460
	hostMSS6       = 1440
	tunnelHops     = 2 // routers between a host and the tunnel: its node and the gateway
	noRemoteAccess = "skipped: no access to the remote cluster"
)

// Run traces a packet from a pod of the local cluster to a pod of the remote cluster, and
// the reply back. remote is nil if there is no access to it: then both are traced as far as
// possible from the local cluster.
func Run(ctx context.Context, q Question, local, remote *Side, now time.Time) (*Report, error) {
	pod, err := local.Pod(ctx, q.Namespace, q.Pod)
	if err != nil {
		return nil, fmt.Errorf("read pod %s/%s: %w", q.Namespace, q.Pod, err)
	}
	if pod == nil {
		return nil, fmt.Errorf("pod %s does not exist in namespace %s of cluster %s; kubectl get pods -n %[2]s lists the pods", q.Pod, q.Namespace, local.ID)
	}
	if offloaded(pod) {
		return nil, fmt.Errorf("pod %s/%s of cluster %s runs in the cluster for which node %s stands; trace from the pod of the same name there, with the context of that cluster", q.Namespace, q.Pod, local.ID, pod.Spec.NodeName)
	}
	j := &packetTrace{ctx: ctx, now: now, packet: q.Probe()}
	r := &Report{Schema: Schema, From: q.Namespace + "/" + q.Pod, Reply: []Hop{}}
	start := locationOf(pod)
	if j.setSource(local, start, q.From) {
		if err := j.packet.Check(); err != nil {
			return nil, err
		}
	}
	r.Packet = j.packet
	out := j.send(local, start)
	there := j.arrive(remote, local, out)
	r.Hops = j.hops
	back := &packetTrace{ctx: ctx, now: now, packet: answerTo(j.packet), reply: true}
	switch {
	case there.known():
		back.setSource(remote, there, j.packet.Destination)
		home := back.arrive(local, remote, back.send(remote, there))
		back.checkReplyPod(local, start, home)
	case out != nil && remote == nil:
		back.fromTunnel(local, start, out)
	}
	r.Reply = append(r.Reply, back.hops...)
	r.conclude()
	return r, nil
}

func offloaded(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == borrower.Offered })
}

// fromTunnel traces the reply from the tunnel on, if the remote cluster cannot be queried.
func (j *packetTrace) fromTunnel(s *Side, asked location, out *tunneledPacket) {
	h := Hop{Stage: StageTunnel, Cluster: out.answer.Remote, Where: out.remoteGateway() + " to " + out.gateway.Name}
	j.unknown(h, noRemoteAccess+"; the reply is traced from the tunnel on")
	j.ended = false
	j.packet.TTL -= tunnelHops
	name := out.gateway.Name
	home, a := j.enterGateway(s, name)
	j.checkReplyPod(s, asked, j.deliver(s, name, a, home))
}

// Check returns an error if the question does not describe a valid packet.
func (q Question) Check() error {
	p := q.Probe()
	if !p.Source.IsValid() {
		p.Source = p.Destination // of the IP family that the pod's address will have
	}
	return p.Check()
}

// Probe returns the packet of a question. It has no source if the source is to be
// determined.
func (q Question) Probe() gateway.Probe {
	return withMSS(gateway.Probe{Protocol: q.Protocol, Source: q.From, Destination: q.To, SourcePort: sourcePort(q.Protocol), Port: q.Port, TTL: hostTTL, Size: q.Size})
}

func sourcePort(protocol string) uint16 {
	if protocol == gateway.ICMP {
		return 0
	}
	return hostPort
}

func withMSS(p gateway.Probe) gateway.Probe {
	switch {
	case p.Protocol != gateway.TCP:
	case p.Destination.Is4():
		p.MSS = hostMSS
	default:
		p.MSS = hostMSS6
	}
	return p
}

// answerTo returns the reply of a host: with the same payload for an echo, otherwise
// without payload.
func answerTo(p gateway.Probe) gateway.Probe {
	p = withMSS(p.Answer())
	p.TTL = hostTTL
	if p.Protocol != gateway.ICMP {
		p.Size = 0
	}
	return p
}

// location is the start or the end of a packet's path.
type location struct {
	node string
	pod  *corev1.Pod // nil: the node itself
	host bool        // in the network of the node
}

func locationOf(pod *corev1.Pod) location {
	return location{pod.Spec.NodeName, pod, pod.Spec.HostNetwork}
}

func (p location) known() bool { return p.node != "" }

func (p location) name() string {
	if p.pod == nil {
		return p.node
	}
	return p.pod.Namespace + "/" + p.pod.Name
}

// packetTrace is the state of tracing one packet.
type packetTrace struct {
	ctx    context.Context
	now    time.Time // reference time for the age of handshakes
	hops   []Hop
	packet gateway.Probe // as it left the last hop
	ended  bool          // dropped, delivered, or not known
	reply  bool          // to a packet that was traced before
}

func (j *packetTrace) pass(h Hop, notes ...string) {
	p := j.packet
	p.Size = p.Length()
	h.Verdict, h.Packet, h.Notes = Passed, &p, append(h.Notes, notes...)
	j.hops = append(j.hops, h)
}

func (j *packetTrace) drop(h Hop, reason, note string) {
	h.Verdict, h.Reason, h.Remedy, h.Notes = Dropped, reason, Remedy(reason), append(h.Notes, note)
	j.hops, j.ended = append(j.hops, h), true
}

// unknown ends the trace, unless the caller can continue.
func (j *packetTrace) unknown(h Hop, note string) {
	h.Verdict, h.Notes = Unknown, append(h.Notes, note)
	j.hops, j.ended = append(j.hops, h), true
}

// setSource sets the packet's source: the chosen one, or else the host's address of the IP
// family. It reports whether there is one.
func (j *packetTrace) setSource(s *Side, from location, chosen netip.Addr) bool {
	h := Hop{Stage: StagePod, Cluster: s.ID, Where: from.name()}
	if from.pod == nil {
		h.Stage = StageNode
	} else if from.node == "" {
		j.drop(h, noAddress, "the pod is not scheduled to a node yet")
		return false
	} else {
		h.Notes = []string{"on " + from.node}
	}
	if j.packet.Source = chosen; !chosen.IsValid() {
		for _, a := range agents.Addresses(from.pod) {
			if a.Is4() == j.packet.Destination.Is4() && !j.packet.Source.IsValid() {
				j.packet.Source = a
			}
		}
	}
	if !j.packet.Source.IsValid() {
		j.drop(h, noAddress, fmt.Sprintf("the pod has addresses %v: none has the IP family of %v", agents.Addresses(from.pod), j.packet.Destination))
		return false
	}
	if from.host {
		h.Notes = append(h.Notes, "in the node's network namespace")
	}
	if from.pod != nil {
		j.pass(h)
	}
	return true
}

// checkReplyPod checks that the reply reaches the requesting pod.
func (j *packetTrace) checkReplyPod(s *Side, asked, home location) {
	if j.ended || asked.host || home.pod != nil && home.pod.UID == asked.pod.UID && home.pod.Name == asked.pod.Name && home.pod.Namespace == asked.pod.Namespace {
		return
	}
	j.drop(Hop{Stage: StagePod, Cluster: s.ID, Where: home.name()}, otherPod, "the reply reaches "+home.name()+", but "+asked.name()+" waits for it")
}

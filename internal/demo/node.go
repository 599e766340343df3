package demo

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/pipe"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"strait.dev/strait/internal/plan"
	"strait.dev/strait/packet"
)

// node is the node of a cluster: a host, and the router between its pod and the
// gateway:
//
//	pod ── receiver ─┐
//	                 ├─ node ── overlay ══ gateway
//	host ─ receiver ─┘
//
// It does not use netstack's forwarding, which forwards IPv4 packets with a TTL
// of 1 (RFC 1812 section 5.3.1 forbids that) and reads the TTL from a buffer that
// it has released.
type node struct {
	*host
	cluster  *plan.Cluster
	pod, own *pipe.Endpoint
	overlay  *overlaySocket
}

// newNode returns a node, and the pod's end of the link to the pod.
func newNode(p *plan.Cluster, overlay *overlaySocket) (n *node, podLink *pipe.Endpoint, err error) {
	n = &node{cluster: p, overlay: overlay}
	if n.host, err = newHost(); err != nil {
		return nil, nil, err
	}
	var hostLink *pipe.Endpoint
	podLink, n.pod = pipe.New("", "", podMTU)
	hostLink, n.own = pipe.New("", "", plan.InnerMTU)
	if err := n.attach(hostLink, plan.NodeInternal, p.Router); err != nil {
		n.close()
		return nil, nil, err
	}
	n.pod.Attach(receiver(n.forward))
	n.own.Attach(receiver(n.send))
	overlay.start(n.forward)
	return n, podLink, nil
}

// forward forwards a packet from the pod or the gateway. It modifies b.
func (n *node) forward(b []byte) {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone {
		return
	}
	b = b[:ip.Len]
	switch {
	case n.isOwn(ip.Dst):
		write(n.own, b)
	case ip.TTL > 1:
		packet.DecrementTTL(b, &ip)
		n.send(b)
	case packet.MayAnswer(b, &ip):
		n.send(packet.AppendICMPError(nil, packet.TimeExceeded, 0, n.addressTowards(ip.Src), b, &ip))
	}
}

// send sends a packet to the pod if it is the destination, else to the gateway.
func (n *node) send(b []byte) {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone {
		return
	}
	if n.isPod(ip.Dst) {
		write(n.pod, b)
		return
	}
	n.overlay.send(b, ip.Version)
}

func (n *node) isPod(a netip.Addr) bool {
	return n.cluster.NodePods[plan.V4].Contains(a) || n.cluster.NodePods[plan.V6].Contains(a)
}

func (n *node) isOwn(a netip.Addr) bool {
	f := packet.FamilyIndex(a)
	return a == plan.NodeInternal[f] || a == n.cluster.Router[f]
}

// addressTowards returns the node's address on the interface that leads to a.
func (n *node) addressTowards(a netip.Addr) netip.Addr {
	if n.isPod(a) {
		return n.cluster.Router[packet.FamilyIndex(a)]
	}
	return plan.NodeInternal[packet.FamilyIndex(a)]
}

// receiver is the node's end of a link. It is called with a copy of each packet.
type receiver func(b []byte)

// DeliverNetworkPacket implements stack.NetworkDispatcher.
func (r receiver) DeliverNetworkPacket(_ tcpip.NetworkProtocolNumber, b *stack.PacketBuffer) {
	r(b.Data().AsRange().ToSlice())
}

// DeliverLinkPacket implements stack.NetworkDispatcher. It serves packet sockets,
// which a node does not have.
func (receiver) DeliverLinkPacket(tcpip.NetworkProtocolNumber, *stack.PacketBuffer) {}

// write sends a copy of a packet through a link.
func write(link *pipe.Endpoint, b []byte) {
	p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
	defer p.DecRef()
	p.NetworkProtocolNumber = networkProtocols[b[0]>>4]
	var list stack.PacketBufferList
	list.PushBack(p)
	_, _ = link.WritePackets(list) // a pipe accepts every packet
}

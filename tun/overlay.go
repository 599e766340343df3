package tun

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// sourcePorts is how many sockets frames to nodes leave from, per address
// family. Each has its own source port, so that nodes and switches can spread
// flows; more of them would cut batches smaller.
const sourcePorts = 4

// Overlay is the gateway's side of the node network: the sockets that frames
// from nodes arrive on and those that frames to nodes leave from.
//
// Sending is safe for concurrent use, each sender with its own Batch. Reading is
// for one link at a time: whoever reads holds mu, which nobody else wants as
// long as the active link does not change.
type Overlay struct {
	senders [2][]*underlay.Socket // IPv4 and IPv6 underlay; nil = not in use
	ports   [2]uint16             // by gateway.Encapsulation: where nodes listen
	sockets []*underlay.Socket    // everything we listen on

	mu      sync.Mutex
	sources []*source
	current int // the source whose datagrams are being read
	// pieces of the packet in hand, when bufs were full before its end. They
	// stay here, with the receive memory they lie in, when another link goes on.
	pieces *packet.Pieces

	tapping tapping
	panics  panics
}

// source is one listening socket.
type source struct {
	receiver      *underlay.Receiver
	encapsulation gateway.Encapsulation
	local         netip.AddrPort

	// The message being cut: frames of size bytes, the last may be shorter.
	rest  []byte
	size  int
	from  netip.AddrPort
	outer gateway.Outer
}

// next is the next frame of the last Fill. A message that the kernel says to cut
// is as a rule many frames that it coalesced. But when a node on this very
// machine sends UDP that its kernel left unsegmented, it is one frame, and what
// is to be cut is the UDP packet in it, into datagrams of that many bytes.
func (s *source) next() (frame []byte, datagram int, ok bool) {
	if len(s.rest) == 0 {
		message, size, from, ok := s.receiver.Message()
		if !ok {
			return nil, 0, false
		}
		s.from = from
		s.outer = gateway.Outer{Source: from.Addr(), Encapsulation: s.encapsulation, ECN: s.receiver.ECN()}
		if size >= len(message) {
			return message, 0, true
		}
		if gateway.SpansFrame(message, s.encapsulation) {
			return message, size, true
		}
		s.rest, s.size = message, size
	}
	n := min(s.size, len(s.rest))
	frame, s.rest = s.rest[:n:n], s.rest[n:]
	return frame, 0, true
}

// OverlayConfig says where to listen. A port of 0 means that the encapsulation
// is not in use; an invalid address means all addresses of both families.
type OverlayConfig struct {
	Geneve, VXLAN netip.AddrPort
	Options       underlay.Options
}

// OpenOverlay opens all sockets or none. They are told the outer ECN field of frames (RFC
// 6040) and make no outer fragments (RFC 7348 section 4.3, RFC 8926 section 4.4.1): what a
// node's leg cannot carry is cut or refused as an inner packet, by gateway.MTUs.Overlay.
func OpenOverlay(c OverlayConfig) (*Overlay, error) {
	c.Options.ECN, c.Options.DontFragment = true, true
	o := &Overlay{ports: [2]uint16{gateway.Geneve: c.Geneve.Port(), gateway.VXLAN: c.VXLAN.Port()}}
	for encapsulation, listen := range [...]netip.AddrPort{gateway.Geneve: c.Geneve, gateway.VXLAN: c.VXLAN} {
		if listen.Port() == 0 {
			continue
		}
		if err := o.listen(gateway.Encapsulation(encapsulation), listen, c.Options); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o, nil
}

// listen opens the listening socket of one encapsulation, and the sending
// sockets of its families where they are not open yet.
func (o *Overlay) listen(e gateway.Encapsulation, at netip.AddrPort, options underlay.Options) error {
	addresses := []netip.Addr{at.Addr()}
	if !at.Addr().IsValid() {
		addresses = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	var failed error
	opened := 0
	for _, a := range addresses {
		s, err := underlay.Listen(netip.AddrPortFrom(a, at.Port()), options)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		opened++
		o.sockets = append(o.sockets, s)
		o.sources = append(o.sources, &source{receiver: underlay.NewReceiver(s), encapsulation: e, local: s.LocalAddr()})
		if err := o.openSenders(a, options); err != nil {
			return err
		}
	}
	if opened == 0 {
		return fmt.Errorf("listen for frames from nodes on %v: %w", at, failed)
	}
	return nil
}

func (o *Overlay) openSenders(local netip.Addr, options underlay.Options) error {
	f := packet.FamilyIndex(local)
	for len(o.senders[f]) < sourcePorts {
		s, err := underlay.Listen(netip.AddrPortFrom(local, 0), options)
		if err != nil {
			return fmt.Errorf("open a socket to send to nodes from %v: %w", local, err)
		}
		o.senders[f] = append(o.senders[f], s)
	}
	return nil
}

// Handle gives a node the destination that frames to it are sent to. It is what
// gateway.NewTable wants.
func (o *Overlay) Handle(n *gateway.Node) any {
	address := netip.AddrPortFrom(n.Underlay, o.ports[n.Encapsulation])
	return &peer{family: packet.FamilyIndex(n.Underlay), address: address, destination: underlay.NewDestination(address)}
}

// peer is a node as the overlay sends to it: the Handle of a gateway.Node.
type peer struct {
	family      int
	address     netip.AddrPort
	destination underlay.Destination
}

// send adds a datagram for the node of a Result to a batch, in sight of t unless that is
// nil. The memory must stay until the batch is flushed.
//
// The outer ECN field is that of the inner packet: RFC 6040's normal mode. The outer DSCP is
// 0, whatever the inner one is: RFC 2983's pipe model, section 3.1. Nodes get inner DSCPs as
// they were sent, and nobody's inner DSCP buys a place in the underlay's queues.
func (o *Overlay) send(t *taps, batch *underlay.Batch, r *gateway.Result, head, body []byte) {
	p := r.Node.Handle.(*peer)
	senders := o.senders[p.family]
	if len(senders) == 0 {
		return // no socket of the node's family: configuration is refused before it comes to this
	}
	s := senders[r.Hash%uint32(len(senders))]
	if t != nil {
		if len(head) == gateway.EncapLen { // else body has an Ethernet header, as answers of neighbours do
			t.seeIP(gateway.IntoNode, body)
		}
		t.see(gateway.OverlayOut, s.LocalAddr(), p.address, head, body)
	}
	batch.AddMarked(s, &p.destination, r.ECN, head, body)
}

// Serves reports whether frames can be sent to nodes with this underlay address.
func (o *Overlay) Serves(node netip.Addr) bool { return len(o.senders[packet.FamilyIndex(node)]) > 0 }

// Overflows counts datagrams from nodes that the kernel dropped because we did
// not read fast enough.
func (o *Overlay) Overflows() (n uint64) {
	for _, s := range o.sockets {
		n += s.Overflows()
	}
	return n
}

// Close closes all sockets.
func (o *Overlay) Close() error {
	var err error
	for _, s := range o.sockets {
		err = errors.Join(err, s.Close())
	}
	for _, family := range o.senders {
		for _, s := range family {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

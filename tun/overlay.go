package tun

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// sourcePorts is the number of sockets, per address family, that send frames to nodes. Each has
// its own source port, so that nodes and switches can spread flows; more sockets would make
// batches smaller.
const sourcePorts = 4

// Overlay is the gateway's side of the node network: the sockets that receive frames from nodes
// and those that send frames to nodes.
//
// Sending is safe for concurrent use, with one Batch per sender. One device receives.
type Overlay struct {
	senders  [2][]*underlay.Socket // IPv4 and IPv6 underlay; nil = not in use
	ports    [2]uint16             // by gateway.Encapsulation: where nodes listen
	incoming incoming

	tapping tapping
	panics  panics

	receiveFailures atomic.Uint64
}

// OverlayConfig says where to listen. A port of 0 disables the encapsulation; an invalid address
// means all addresses of both families.
type OverlayConfig struct {
	Geneve, VXLAN netip.AddrPort
	Options       underlay.Options
}

// OpenOverlay opens all sockets or none. The sockets report the outer ECN field of frames (RFC
// 6040) and send no outer fragments (RFC 7348 section 4.3, RFC 8926 section 4.4.1): packets that
// do not fit the node leg are fragmented or refused as inner packets, by gateway.MTUs.Overlay.
func OpenOverlay(c OverlayConfig) (*Overlay, error) {
	c.Options.ECN, c.Options.DontFragment = true, true
	o := &Overlay{ports: [2]uint16{gateway.Geneve: c.Geneve.Port(), gateway.VXLAN: c.VXLAN.Port()}, incoming: incoming{turns: underlay.NewTurns()}}
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

// listen opens the listening sockets of one encapsulation, and the sending sockets of its families unless they are open.
func (o *Overlay) listen(e gateway.Encapsulation, at netip.AddrPort, options underlay.Options) error {
	addresses := []netip.Addr{at.Addr()}
	if !at.Addr().IsValid() {
		addresses = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	var unsupported error
	opened := 0
	for _, a := range addresses {
		s, err := underlay.Listen(netip.AddrPortFrom(a, at.Port()), options)
		switch {
		case errors.Is(err, syscall.EAFNOSUPPORT):
			unsupported = errors.Join(unsupported, err)
			continue
		case err != nil:
			return fmt.Errorf("listen for frames from nodes on %v: %w", at, err)
		}
		opened++
		s.Classify(underlay.BySource)
		o.incoming.add(s, e)
		if err := o.openSenders(a, options); err != nil {
			return err
		}
	}
	if opened == 0 {
		return fmt.Errorf("listen for frames from nodes on %v: %w", at, unsupported)
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

// incoming is the sockets that receive frames from nodes, and what they have received. One device reads them.
type incoming struct {
	mu      sync.Mutex // held by the reading device; contended only while another one takes over
	sources []*source
	turns   *underlay.Turns // of sources
	// pieces are those left of the current packet when bufs were full. They stay here, with the
	// receive memory that they alias, when another device continues.
	pieces packet.Pieces
}

// source is one listening socket.
type source struct {
	socket        *underlay.Socket
	encapsulation gateway.Encapsulation
	// isFrame reports whether a message with a segment size is one frame: a node on this machine sent UDP that its kernel
	// left unsegmented, and the size is that of the inner UDP packet. Usually the message consists of several frames that
	// the kernel coalesced.
	isFrame func(message []byte) bool
}

func (in *incoming) add(s *underlay.Socket, e gateway.Encapsulation) {
	in.sources = append(in.sources, &source{s, e, func(message []byte) bool { return gateway.SpansFrame(message, e) }})
	in.turns.Add(s)
}

// current returns the source whose datagrams are being read.
func (in *incoming) current() *source { return in.sources[in.turns.Current()] }

// Handle returns the destination of frames to a node, for gateway.NewTable.
func (o *Overlay) Handle(n *gateway.Node) any {
	address := netip.AddrPortFrom(n.Underlay, o.ports[n.Encapsulation])
	return &peer{family: packet.FamilyIndex(n.Underlay), address: address, destination: underlay.NewDestination(address)}
}

// peer is the Handle of a gateway.Node: where frames to the node are sent.
type peer struct {
	family      int
	address     netip.AddrPort
	destination underlay.Destination
}

// send adds a datagram for the node of a Result to a batch and passes it to t, unless t is nil.
// The memory must stay unchanged until the batch is flushed. It reports false if there is no
// socket of the node's family; validation refuses such a configuration.
//
// The outer ECN field is that of the inner packet: RFC 6040's normal mode. The outer DSCP is
// always 0: RFC 2983's pipe model, section 3.1. Nodes get inner DSCPs unchanged, and no inner
// DSCP affects the underlay's queues.
func (o *Overlay) send(t *taps, batch *underlay.Batch, r *gateway.Result, head, body []byte) bool {
	p := r.Node.Handle.(*peer)
	senders := o.senders[p.family]
	if len(senders) == 0 {
		return false
	}
	s := senders[r.Hash%uint32(len(senders))]
	if t != nil {
		if len(head) == gateway.EncapLen { // else body starts with an Ethernet header: an ARP reply or neighbour advertisement
			t.seeIP(gateway.IntoNode, body)
		}
		t.see(gateway.OverlayOut, s.LocalAddr(), p.address, head, body)
	}
	batch.AddMarked(s, &p.destination, r.ECN, head, body)
	return true
}

// manyNodes is from how many nodes on it costs less to receive their probes every few milliseconds than one by one.
const manyNodes = 128

// pace says whether probes of nodes may wait for a moment, to be received together.
func (o *Overlay) pace(on bool) {
	for _, s := range o.incoming.sources {
		s.socket.Pace(on)
	}
}

// Serves reports whether frames can be sent to nodes with this underlay address.
func (o *Overlay) Serves(node netip.Addr) bool { return len(o.senders[packet.FamilyIndex(node)]) > 0 }

// OverlayCounters count losses between the network and the packet path. They never decrease.
type OverlayCounters struct {
	Overflows       uint64 // datagrams from nodes that the kernel dropped because they were not read fast enough
	ReceiveFailures uint64 // system calls that failed to receive from nodes
}

func (o *Overlay) counters() OverlayCounters {
	n := OverlayCounters{ReceiveFailures: o.receiveFailures.Load()}
	for _, s := range o.incoming.sources {
		n.Overflows += s.socket.Overflows()
	}
	return n
}

// countFailure counts an error of receiving. The poller reports a closed socket and ends Read.
func (o *Overlay) countFailure(err error) {
	if !errors.Is(err, net.ErrClosed) {
		o.receiveFailures.Add(1)
	}
}

// Close closes all sockets.
func (o *Overlay) Close() error {
	var err error
	for _, s := range o.incoming.sources {
		err = errors.Join(err, s.socket.Close())
	}
	for _, s := range slices.Concat(o.senders[:]...) {
		err = errors.Join(err, s.Close())
	}
	return err
}

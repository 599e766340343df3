package tun

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/relay"
	"strait.dev/strait/underlay"
)

const (
	hostNIC = 1
	// hostQueue limits the packets sent by the host stack that wait to be taken. They are taken
	// at once, so the queue fills only while one is being sent.
	hostQueue = 512
)

// Host is the gateway's own host stack: a netstack that owns the gateway's addresses, answers
// ping, carries the streams of links, and serves mapped addresses. Neither forwarded packets nor the probes
// and claims of links pass through it. Safe for concurrent use.
type Host struct {
	stack   *stack.Stack
	link    *channel.Endpoint
	relay   *relay.Relay
	gateway *gateway.Gateway
	overlay *Overlay
	owned   map[netip.Addr]bool // addresses; of the caller of setAddresses

	mu      sync.Mutex // protects the fields below
	origin  *gateway.Origin
	batch   *underlay.Batch
	scratch []byte                                         // the packet that is being sent
	segment []byte                                         // a segment of it
	tunnel  func(src, dst netip.Addr, flow uint32) *Device // the link whose tunnel carries the packet
}

// newHost starts a host stack without addresses. It calls tunnel for every packet that goes into
// the tunnel, with the hash of its flow; tunnel may return nil.
func newHost(g *gateway.Gateway, o *Overlay, tunnel func(src, dst netip.Addr, flow uint32) *Device, dial relay.Dialer) (*Host, error) {
	h := &Host{
		stack: stack.New(stack.Options{
			NetworkProtocols: []stack.NetworkProtocolFactory{
				ipv4.NewProtocol,
				// No router solicitations, no duplicate address detection: no other host on this link
				// could answer.
				ipv6.NewProtocolWithOptions(ipv6.Options{}),
			},
			TransportProtocols: []stack.TransportProtocolFactory{icmp.NewProtocol4, icmp.NewProtocol6, udp.NewProtocol, tcp.NewProtocol},
		}),
		link:    channel.New(hostQueue, uint32(g.Table().MTU()), ""),
		gateway: g,
		overlay: o,
		origin:  gateway.NewOrigin(g),
		batch:   underlay.NewBatch(1),
		segment: make([]byte, packet.MaxLen),
		tunnel:  tunnel,
		owned:   make(map[netip.Addr]bool),
	}
	h.batch.NeverWait()
	h.link.SupportedGSOKind = stack.HostGSOSupported // TCP sends up to 32 KiB at a time, which send segments
	if err := limitStack(h.stack); err != nil {
		return nil, err
	}
	source := func(to netip.Addr) netip.Addr { return g.Table().Source(to) }
	h.relay = relay.New(relay.Config{Stack: h.stack, NIC: hostNIC, Dial: dial, Source: source})
	h.link.AddNotify(h)
	if err := h.stack.CreateNIC(hostNIC, h.link); err != nil {
		return nil, fmt.Errorf("host stack: create interface: %v", err)
	}
	h.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, NIC: hostNIC},
		{Destination: header.IPv6EmptySubnet, NIC: hostNIC},
	})
	return h, nil
}

// setAddresses sets the addresses of the host: those of links, of the gateway's table, and of mappings. Not for concurrent
// use.
func (h *Host) setAddresses(ofLinks []netip.Addr) error {
	addresses := slices.Concat(ofLinks, h.gateway.Table().Addresses())
	for _, m := range h.relay.Mappings() {
		addresses = append(addresses, m.External)
	}
	wanted := make(map[netip.Addr]bool, len(addresses))
	for _, a := range addresses {
		wanted[a] = true
		if h.owned[a] {
			continue
		}
		protocol := tcpip.ProtocolAddress{Protocol: networkProtocol(a), AddressWithPrefix: tcpip.AddrFromSlice(a.AsSlice()).WithPrefix()}
		if err := h.stack.AddProtocolAddress(hostNIC, protocol, stack.AddressProperties{}); err != nil {
			return fmt.Errorf("host stack: add address %v: %v", a, err)
		}
		h.owned[a] = true
	}
	for a := range h.owned {
		if wanted[a] {
			continue
		}
		if err := h.stack.RemoveAddress(hostNIC, tcpip.AddrFromSlice(a.AsSlice())); err != nil {
			return fmt.Errorf("host stack: remove address %v: %v", a, err)
		}
		delete(h.owned, a)
	}
	return nil
}

// setMTU sets the MTU of the host's interface, in bytes of IP packet.
func (h *Host) setMTU(mtu int) { h.link.SetMTU(uint32(mtu)) }

// deliver passes a copy of an IP packet to the host stack: of b, followed by more.
func (h *Host) deliver(b []byte, more ...[]byte) {
	payload := buffer.MakeWithData(b)
	for _, m := range more {
		_ = payload.Append(buffer.NewViewWithData(m)) // fails for nil only
	}
	protocol := header.IPv4ProtocolNumber
	if b[0]>>4 == 6 {
		protocol = header.IPv6ProtocolNumber
	}
	p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: payload})
	h.link.InjectInbound(protocol, p)
	p.DecRef()
}

// WriteNotify is called by the host stack's link when there are packets to send.
func (h *Host) WriteNotify() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := h.link.Read(); p != nil; p = h.link.Read() {
		h.scratch = h.scratch[:0]
		views, skip := p.AsViewList()
		for v := views.Front(); v != nil; v = v.Next() {
			b := v.AsSlice()
			n := min(skip, len(b))
			h.scratch = append(h.scratch, b[n:]...)
			skip -= n
		}
		offload := p.GSOOptions
		p.DecRef()
		if offload.Type == stack.GSONone {
			h.send(h.origin.Packet(h.scratch))
		} else {
			h.send(h.origin.SuperPacket(h.scratch, int(offload.MSS)))
		}
	}
}

// send forwards one packet of the host, or its segments. h.mu is held.
func (h *Host) send(r gateway.Result) {
	if r.Verdict == gateway.Drop {
		return
	}
	if r.Pieces == nil {
		h.sendWhole(&r, r.Packet)
		return
	}
	for r.Pieces.Left() {
		h.sendWhole(&r, h.segment[:r.Pieces.Next(h.segment)])
	}
}

// sendWhole forwards a packet of at most the host's MTU as r says.
func (h *Host) sendWhole(r *gateway.Result, b []byte) {
	switch r.Verdict {
	case gateway.ToTunnel:
		src, dst := addresses(b)
		kind := ownPacket
		if dst.IsLinkLocalUnicast() {
			kind = controlPacket
		}
		switch d := h.tunnel(src, dst, r.Hash); {
		case d == nil:
			h.origin.CountDropped(gateway.NoPeer, 1)
		case d.inject(&h.origin.Counters, b, kind):
			h.origin.CountForwarded(1, uint64(len(b)))
		}
	case gateway.ToNode:
		sent, dropped := 0, 1
		if h.overlay.send(h.overlay.tapping.now.Load(), h.batch, r, r.Node.Header(r.Version), b) {
			sent, dropped = h.batch.Flush()
		}
		h.origin.CountForwarded(uint64(sent), uint64(sent*len(b)))
		h.origin.CountDropped(gateway.UnderlaySend, uint64(dropped))
	}
}

// addresses returns source and destination of a valid IP packet.
func addresses(b []byte) (src, dst netip.Addr) {
	if b[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	}
	return netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
}

// streamBacklog is how many TCP connections may wait for Accept: there are few far ends, and
// each opens one or two.
const streamBacklog = 16

// listenTCP accepts TCP connections to one of the host's link-local addresses.
func (h *Host) listenTCP(at netip.AddrPort) (*gonet.TCPListener, error) {
	var queue waiter.Queue
	e, err := h.stack.NewEndpoint(tcp.ProtocolNumber, networkProtocol(at.Addr()), &queue)
	if err != nil {
		return nil, errors.New(err.String())
	}
	if err = e.Bind(fullAddress(at)); err == nil {
		err = e.Listen(streamBacklog)
	}
	if err != nil {
		e.Close()
		return nil, errors.New(err.String())
	}
	return gonet.NewTCPListener(h.stack, &queue, e), nil
}

// dialTCP opens a TCP connection from one of the host's link-local addresses.
func (h *Host) dialTCP(ctx context.Context, from netip.Addr, to netip.AddrPort) (*gonet.TCPConn, error) {
	return gonet.DialTCPWithBind(ctx, h.stack, fullAddress(netip.AddrPortFrom(from, 0)), fullAddress(to), networkProtocol(from))
}

func fullAddress(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: hostNIC, Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}
}

// close ends the stack and waits for its goroutines.
func (h *Host) close() {
	h.relay.Close()
	h.stack.Close()
	h.link.Close()
	h.stack.Wait()
}

func networkProtocol(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Is4() {
		return header.IPv4ProtocolNumber
	}
	return header.IPv6ProtocolNumber
}

package bench

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"strait.dev/strait/bench/traffic"
	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/plan"
	"strait.dev/strait/underlay"
)

// pod is a node and its pod: an in-memory network stack. Safe for concurrent use.
type pod struct {
	stack    *stack.Stack
	nic      *nic
	listener *traffic.Listener
}

const nicID tcpip.NICID = 1

// nic is the interface of a pod. It overrides sending only: the embedded endpoint passes
// received packets to the stack and does everything else.
type nic struct {
	*channel.Endpoint
	socket *underlay.Socket
	to     underlay.Destination
	head   []byte // of every frame, EncapLen bytes

	mu     sync.Mutex // protects the fields below
	batch  *underlay.Batch
	frames [frameCount][gateway.EncapLen + plan.InnerMTU]byte
}

// frameCount is the number of frames sent at once: the segments of 64 KiB of TCP.
const frameCount = 48

// startPod starts a pod with an address behind a node's socket, which sends frames that
// start with head to the address to. window is the TCP window in bytes.
func startPod(own netip.Addr, s *underlay.Socket, to netip.AddrPort, head []byte, window int) (*pod, error) {
	p := &pod{
		stack: stack.New(stack.Options{
			NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
			TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
		}),
		nic: &nic{
			Endpoint: channel.New(0, plan.InnerMTU, ""), socket: s, to: underlay.NewDestination(to), head: head,
			batch: underlay.NewBatch(frameCount),
		},
	}
	p.nic.SupportedGSOKind = stack.GVisorGSOSupported // TCP hands over many segments at once
	if err := p.attach(own, window); err != nil {
		p.close()
		return nil, err
	}
	var err error
	if p.listener, err = traffic.Listen(s, p.nic.receive); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pod) attach(own netip.Addr, window int) error {
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 1, Default: window, Max: window}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 1, Default: 2 * window, Max: 2 * window}
	sack := tcpip.TCPSACKEnabled(true)
	for _, o := range []tcpip.SettableTransportProtocolOption{&receive, &send, &sack} {
		if err := p.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("network stack: set up TCP: %v", err)
		}
	}
	if err := p.stack.CreateNIC(nicID, p.nic); err != nil {
		return fmt.Errorf("network stack: create interface: %v", err)
	}
	address := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(own.As4()).WithPrefix()}
	if err := p.stack.AddProtocolAddress(nicID, address, stack.AddressProperties{}); err != nil {
		return fmt.Errorf("network stack: add address %v: %v", own, err)
	}
	p.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nicID}})
	return nil
}

// WritePackets implements stack.LinkEndpoint: each packet becomes a frame.
func (n *nic) WritePackets(packets stack.PacketBufferList) (int, tcpip.Error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := packets.AsSlice()
	for i, p := range all {
		frame := append(n.frames[i%frameCount][:0], n.head...)
		for _, part := range p.AsSlices() {
			frame = append(frame, part...)
		}
		n.batch.Add(n.socket, &n.to, nil, frame)
		if i%frameCount == frameCount-1 {
			n.batch.Flush()
		}
	}
	n.batch.Flush()
	return len(all), nil // what the kernel did not take is lost, as on any wire
}

// receive passes the packet of a frame to the stack, which keeps a copy.
func (n *nic) receive(frame []byte, _ netip.AddrPort) {
	if len(frame) <= gateway.EncapLen {
		return
	}
	p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame[gateway.EncapLen:])})
	n.InjectInbound(ipv4.ProtocolNumber, p)
	p.DecRef()
}

func (p *pod) listen(at netip.AddrPort) (net.Listener, error) {
	return gonet.ListenTCP(p.stack, fullAddress(at), ipv4.ProtocolNumber)
}

func (p *pod) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return gonet.DialContextTCP(ctx, p.stack, fullAddress(to), ipv4.ProtocolNumber)
}

func fullAddress(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{Addr: tcpip.AddrFrom4(a.Addr().As4()), Port: a.Port()}
}

// close ends the pod and waits for it. Its node's socket stays open.
func (p *pod) close() {
	if p.listener != nil {
		p.listener.Close()
	}
	p.stack.Close()
	p.stack.Wait()
}

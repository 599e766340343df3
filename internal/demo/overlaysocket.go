package demo

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"strait.dev/strait/geneve"
	"strait.dev/strait/internal/plan"
	"strait.dev/strait/packet"
)

const (
	// overlayBuffer is the requested receive buffer in bytes, limited by net.core.rmem_max.
	overlayBuffer = 4 << 20

	encapLen = geneve.HeaderLen + packet.EthernetHeaderLen
)

// overlaySocket is a node's Geneve device on a UDP socket. Like the kernel's
// device it accepts frames from its gateway only. Safe for concurrent use.
type overlaySocket struct {
	socket  *net.UDPConn
	gateway netip.AddrPort
	vni     uint32
	done    sync.WaitGroup

	mu    sync.Mutex // protects frame
	frame []byte
}

// openOverlay opens a socket on a free port, on which the gateway must listen, too.
func openOverlay(local, gateway netip.Addr, vni uint32) (*overlaySocket, error) {
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return nil, fmt.Errorf("open the node's socket on loopback: %w", err)
	}
	_ = socket.SetReadBuffer(overlayBuffer) // a smaller buffer only reduces throughput
	port := socket.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return &overlaySocket{
		socket:  socket,
		gateway: netip.AddrPortFrom(gateway, port),
		vni:     vni,
		frame:   make([]byte, encapLen+packet.MaxLen),
	}, nil
}

func (o *overlaySocket) port() uint16 { return o.gateway.Port() }

// send sends an IP packet to the gateway, or loses it, as on a network.
func (o *overlaySocket) send(b []byte, version uint8) {
	etherType := uint16(packet.EtherTypeIPv4)
	if version == 6 {
		etherType = packet.EtherTypeIPv6
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	geneve.Put(o.frame, o.vni)
	packet.PutEthernet(o.frame[geneve.HeaderLen:], packet.MACOf(plan.GatewayInternal[plan.V4]), packet.MACOf(plan.NodeInternal[plan.V4]), etherType)
	n := copy(o.frame[encapLen:], b)
	_, _ = o.socket.WriteToUDPAddrPort(o.frame[:encapLen+n], o.gateway)
}

// start passes every packet from the gateway to deliver, which must not retain it.
func (o *overlaySocket) start(deliver func(b []byte)) {
	o.done.Go(func() { o.receive(deliver) })
}

func (o *overlaySocket) receive(deliver func(b []byte)) {
	datagram := make([]byte, packet.MaxLen)
	for {
		n, from, err := o.socket.ReadFromUDPAddrPort(datagram)
		if err != nil {
			return // closed
		}
		if from.Addr() != o.gateway.Addr() {
			continue
		}
		vni, protocol, frame, fault := geneve.Decode(datagram[:n])
		if fault != geneve.FaultNone || vni != o.vni || protocol != geneve.ProtocolEthernet {
			continue
		}
		to, _, etherType, b, ok := packet.ParseEthernet(frame)
		if ok && to == packet.MACOf(plan.NodeInternal[plan.V4]) && (etherType == packet.EtherTypeIPv4 || etherType == packet.EtherTypeIPv6) {
			deliver(b)
		}
	}
}

// close closes the socket and waits until deliver has returned.
func (o *overlaySocket) close() {
	o.socket.Close()
	o.done.Wait()
}

//go:build linux

package userspace

import (
	"net/netip"

	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
)

// table maps outer source and VNI of frames to devices. It is immutable once in use.
type table map[netip.Addr]map[uint32]*device

func (t table) add(w Way, d *device) {
	if t[w.Gateway] == nil {
		t[w.Gateway] = map[uint32]*device{}
	}
	t[w.Gateway][w.VNI] = d
}

// accept returns the frame in a datagram, which it aliases, and its device or the drop reason.
func (t table) accept(datagram []byte, from netip.Addr) (to *device, frame []byte, why Reason) {
	devices := t[from]
	if devices == nil {
		return nil, nil, UnknownSource
	}
	vni, protocol, frame, fault := geneve.Decode(datagram)
	if fault != geneve.FaultNone {
		return nil, nil, reasonOf[fault]
	}
	to = devices[vni]
	switch {
	case protocol != geneve.ProtocolEthernet:
		return nil, nil, GeneveProtocol
	case to == nil:
		return nil, nil, WrongVNI
	case len(frame) < packet.EthernetHeaderLen:
		return nil, nil, FrameTruncated
	}
	return to, frame, NoReason
}

package userspace

import (
	"sync/atomic"

	"strait.dev/strait/geneve"
)

// Reason says why a frame went no further. The zero value means that it did.
type Reason uint8

// Reasons, in the order in which a frame meets them. Those that gateways have too have
// the same names there.
const (
	NoReason Reason = iota

	// From a gateway to the node.
	UnknownSource  // the outer source is the address of no gateway
	FrameTruncated // shorter than its headers
	GeneveVersion  // RFC 8926, section 3.4: the version is not 0
	GeneveControl  // a control packet (O bit)
	GeneveCritical // a critical option; none is known here
	GeneveOptions  // option lengths that do not add up
	GeneveProtocol // not Ethernet inside
	WrongVNI       // the outer source is a gateway, but has another VNI
	DeviceWrite    // the device did not take it: it is down or gone

	// From the node to a gateway.
	UnderlaySend // the kernel did not send the datagram
	reasonsEnd
)

var reasonNames = [reasonsEnd]string{
	UnknownSource: "unknown_source", FrameTruncated: "frame_truncated", GeneveVersion: "geneve_version",
	GeneveControl: "geneve_control", GeneveCritical: "geneve_critical", GeneveOptions: "geneve_options",
	GeneveProtocol: "geneve_protocol", WrongVNI: "wrong_vni", DeviceWrite: "device_write", UnderlaySend: "underlay_send",
}

func (r Reason) String() string { return reasonNames[r] }

// reasonOf maps what geneve.Decode finds.
var reasonOf = [...]Reason{
	geneve.FaultTruncated: FrameTruncated, geneve.FaultVersion: GeneveVersion, geneve.FaultControl: GeneveControl,
	geneve.FaultCritical: GeneveCritical, geneve.FaultOptions: GeneveOptions,
}

// drops counts frames by reason. It may be used concurrently.
type drops [reasonsEnd]atomic.Uint64

func (d *drops) add(why Reason, frames int) { d[why].Add(uint64(frames)) }

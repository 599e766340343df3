//go:build linux

package userspace

import (
	"sync/atomic"

	"strait.dev/strait/geneve"
)

// Reason is why a frame was dropped. The zero value means that it was not.
type Reason uint8

// Reasons, in the order of the checks. Reasons that gateways also have use the same names
// there.
const (
	NoReason Reason = iota

	// From a gateway to the node.
	UnknownSource  // the outer source is the address of no gateway
	FrameTruncated // shorter than its headers
	GeneveVersion  // RFC 8926, section 3.4: the version is not 0
	GeneveControl  // a control packet, which has no frame
	GeneveCritical // a critical option; none is supported
	GeneveOptions  // inconsistent option lengths
	GeneveProtocol // the content is not Ethernet
	WrongVNI       // the outer source is a gateway, but the VNI is not its own
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

// reasonOf maps the faults of geneve.Decode.
var reasonOf = [...]Reason{
	geneve.FaultTruncated: FrameTruncated, geneve.FaultVersion: GeneveVersion, geneve.FaultControl: GeneveControl,
	geneve.FaultCritical: GeneveCritical, geneve.FaultOptions: GeneveOptions,
}

// drops counts frames by reason. Safe for concurrent use.
type drops [reasonsEnd]atomic.Uint64

func (d *drops) add(why Reason, frames int) { d[why].Add(uint64(frames)) }

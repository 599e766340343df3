package demo

import (
	"fmt"
	"slices"
	"sync"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// pathRecorder records the first echo request with an identifier, and its reply,
// at every stage of both gateways.
type pathRecorder struct {
	id           uint16
	gateways     []*gateway.Gateway
	mu           sync.Mutex // the taps run in several goroutines
	observations []Observation
}

// recordPath starts recording. The caller must call stop.
func recordPath(id uint16, clusters ...*cluster) *pathRecorder {
	f := &pathRecorder{id: id}
	for _, c := range clusters {
		g := c.gateway.Fabric().Gateway
		f.gateways = append(f.gateways, g)
		g.SetTap(func(s gateway.Stage, ip []byte) { f.record(c.Name, s, ip) })
	}
	return f
}

func (f *pathRecorder) record(gateway string, stage gateway.Stage, b []byte) {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone || ip.Proto != packet.ProtoICMP && ip.Proto != packet.ProtoICMPv6 {
		return
	}
	u := ip.Upper(b)
	if echoNumbers(u) != [2]uint16{f.id, 1} {
		return
	}
	name := request
	if u[0] == 0 || u[0] == 129 { // echo reply: RFC 792, RFC 4443 section 4.2
		name = reply
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observations = append(f.observations, Observation{name, gateway, stage.String(), ip.Src.String(), ip.Dst.String()})
}

// stop ends the recording and returns the observations in order.
func (f *pathRecorder) stop() []Observation {
	for _, g := range f.gateways {
		g.SetTap(nil)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.observations)
}

// The names of the two packets.
const (
	request = "request"
	reply   = "reply"
)

// expectedPath is the path of a ping from pod a to pod b and of its reply. Each
// gateway translates the destination of outgoing packets and the source of
// incoming packets.
func (d *Demo) expectedPath(f int) []Observation {
	a, b := d.a.Address[f].String(), d.b.Address[f].String()         // real addresses
	aSeen, bSeen := d.a.PodSeen[f].String(), d.b.PodSeen[f].String() // as the other cluster maps them
	return []Observation{
		{request, "a", gateway.FromNode.String(), a, bSeen},
		{request, "a", gateway.IntoTunnel.String(), a, b},
		{request, "b", gateway.FromTunnel.String(), a, b},
		{request, "b", gateway.IntoNode.String(), aSeen, b},
		{reply, "b", gateway.FromNode.String(), b, aSeen},
		{reply, "b", gateway.IntoTunnel.String(), b, a},
		{reply, "a", gateway.FromTunnel.String(), b, a},
		{reply, "a", gateway.IntoNode.String(), bSeen, a},
	}
}

// compare returns the first difference between two paths.
func compare(seen, expected []Observation) error {
	for i, e := range expected {
		if i >= len(seen) {
			return &mismatch{e.String(), "nothing after " + fmt.Sprint(i) + " stages"}
		}
		if seen[i] != e {
			return &mismatch{e.String(), seen[i].String()}
		}
	}
	if len(seen) > len(expected) {
		return &mismatch{fmt.Sprint(len(expected), " stages"), "also " + seen[len(expected)].String()}
	}
	return nil
}

func (s Observation) String() string {
	return fmt.Sprintf("the %s at gateway %s, %s, from %s to %s", s.Packet, s.Gateway, s.Stage, s.Source, s.Destination)
}

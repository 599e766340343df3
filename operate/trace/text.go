package trace

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/columns"
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/api/v1alpha1"
)

var marks = map[Verdict]string{Passed: "✓", Dropped: "✗", Unknown: "?"}

// Table writes a report as text.
func Table(w io.Writer, r *Report) error {
	var b strings.Builder
	p := r.Packet
	fmt.Fprintf(&b, "%s (%s) to %s, %s, %d bytes\n\n", r.From, columns.OrDash(p.Source), to(p), p.Protocol, p.Length())
	hopTable(&b, r.Hops)
	if len(r.Reply) > 0 {
		b.WriteString("\nthe reply\n\n")
		hopTable(&b, r.Reply)
	}
	fmt.Fprintf(&b, "\n%s\n", r.Conclusion())
	_, err := io.WriteString(w, b.String())
	return err
}

// Conclusion returns the result in one line.
func (r *Report) Conclusion() string {
	stage := fmt.Sprintf("%s of cluster %s", r.Stage, r.Cluster)
	if r.Back {
		stage = "the reply's " + stage
	}
	switch r.Verdict {
	case Dropped:
		return fmt.Sprintf("dropped at %s: %s: %s; %s", stage, r.Reason, r.Message, r.Remedy)
	case Unknown:
		return fmt.Sprintf("unknown at %s: %s", stage, r.Message)
	}
	if r.Message != "" {
		return fmt.Sprintf("%s: %s", r.Verdict, r.Message)
	}
	return string(r.Verdict)
}

// hopTable writes hops. Writing to a strings.Builder cannot fail.
func hopTable(b *strings.Builder, hops []Hop) {
	var table columns.Table
	table.Row("  STAGE", "CLUSTER", "WHERE", "SOURCE", "DESTINATION", "TTL", "NOTE")
	for _, h := range hops {
		source, destination, ttl := "", "", ""
		if h.Packet != nil {
			source, destination, ttl = columns.OrDash(h.Packet.Source), to(*h.Packet), fmt.Sprint(h.Packet.TTL)
		}
		table.Row(fmt.Sprintf("%s %s", marks[h.Verdict], h.Stage), h.Cluster, h.Where, source, destination, ttl, cmp.Or(h.note(), columns.Blank))
	}
	_, _ = table.WriteTo(b)
}

func (h Hop) note() string {
	notes := h.Notes
	if o := h.Outer; o != nil {
		notes = append([]string{fmt.Sprintf("%s %s to %s, VNI %d", o.Encapsulation, columns.OrDash(o.Source), columns.OrDash(o.Destination), o.VNI)}, notes...)
	}
	text := strings.Join(notes, "; ")
	if h.Reason != "" {
		text = h.Reason + ": " + text
	}
	return text
}

// to returns the destination of a packet, with the port if it has one.
func to(p gateway.Probe) string {
	if p.Protocol == gateway.ICMP || !p.Destination.IsValid() {
		return columns.OrDash(p.Destination)
	}
	return net.JoinHostPort(p.Destination.String(), strconv.Itoa(int(p.Port)))
}

// Single returns the report of a single gateway and its tunnel, for queries inside of its
// pod.
func Single(q localsocket.TraceQuestion, a *localsocket.TraceAnswer, now time.Time) *Report {
	const here = "this one"
	j := &packetTrace{packet: q.Probe, now: now}
	if j.recordGateway(Hop{Stage: StageGateway, Cluster: a.Cluster, Where: here}, a); a.Verdict == localsocket.TraceToTunnel {
		j.tunnel(&Side{ID: a.Cluster}, gatewayRef{GatewayStatus: &v1alpha1.GatewayStatus{Name: here}}, a)
	}
	r := &Report{Schema: Schema, From: "a host", Packet: a.Before, Hops: j.hops, Reply: []Hop{}}
	if r.conclude(); r.Verdict != Delivered {
		return r
	}
	r.Verdict = Passed
	switch a.Verdict {
	case localsocket.TraceToTunnel:
		r.Message = "forwarded into the tunnel to cluster " + a.Remote
	case localsocket.TraceToNode:
		r.Message = "forwarded to node " + a.Node.Name
	case localsocket.TraceToHost:
		r.Message = "addressed to the gateway itself"
	}
	return r
}

//go:build linux

package node

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Table is the content of the nftables table: the source addresses of packets that leave the
// node, and the packets from gateways that it accepts.
type Table struct {
	Sources Sources
	Ingress Ingress
}

// tableVersion changes when the rules made from a Table change.
const tableVersion = 5

func (d Desired) table() Table { return Table{d.sources(), d.ingress()} }

func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pods %v internal %v remote %v frames %v local pods %v", t.Sources.Pods, t.Sources.Internal, t.Sources.Remote, t.Ingress.Frames, t.Ingress.Pods)
	for _, l := range t.Ingress.Links {
		fmt.Fprintf(&b, " from %s %v", l.Link, l.Sources)
		if l.Nodes {
			b.WriteString(" to nodes")
		}
	}
	return b.String()
}

// fingerprint identifies the content of a Table. Each rule in the kernel carries it.
func (t Table) fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", tableVersion, t))
	return fmt.Sprintf("%x", sum[:8])
}

package gateway

// Stage is a point on a packet's path through a gateway at which a tap sees it.
type Stage uint8

// The stages, in the order of a packet's path out of one gateway and into another.
// A Tap of this package sees IP packets only: FromNode, IntoTunnel, FromTunnel and
// IntoNode.
const (
	OverlayIn    Stage = iota // datagrams from nodes
	FromNode                  // egress: IP packets, decapsulated, as the node sent them
	IntoTunnel                // egress: IP packets, translated, for WireGuard to encrypt
	WireGuardOut              // datagrams to the remote cluster
	WireGuardIn               // datagrams from the remote cluster
	FromTunnel                // ingress: IP packets, decrypted, as the remote cluster sent them
	IntoNode                  // ingress: IP packets, translated
	OverlayOut                // datagrams to nodes
	Stages                    // the number of stages
)

// String returns the name of the stage, as reports print it.
func (s Stage) String() string {
	return [Stages]string{
		OverlayIn: "overlay in", FromNode: "from node", IntoTunnel: "into tunnel", WireGuardOut: "wireguard out",
		WireGuardIn: "wireguard in", FromTunnel: "from tunnel", IntoNode: "to node", OverlayOut: "overlay out",
	}[s]
}

// Tap sees IP packets in transit. It is called on the packet path: it must not
// block, keep the packet, or change it.
type Tap func(s Stage, ip []byte)

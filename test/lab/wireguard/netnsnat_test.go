//go:build lab || nightly

package wireguard

import (
	"net/netip"
	"testing"

	"strait.dev/strait/test/lab"
)

// The scenario with NAT in front of the tunnel.

// The node masquerades packets of its pods to the gateway, as kube-proxy may. The gateway's
// replies are translated back to the pod, with the gateway's address as source.
func TestNetns15_UnreachableIsSaidThroughNATByTheRightRouter(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		l.a.Node.Run(t, "nft", "add table inet nat; add chain inet nat out { type nat hook postrouting priority srcnat; }; "+
			"add rule inet nat out oifname strait0 masquerade")
		lab.Ping(t, l.a.Pod, l.a.Sees(referenceInner[0]), 3, "-i", "0.01") // packets cross with NAT
		for f, unassigned := range lab.Addrs("10.75.0.1", "fd00:75::1") {
			l.a.Node.IP(t, "route add "+unassigned.String()+" via "+lab.GatewayInternal[f].String()+" dev strait0")
			answers := lab.ListenOn(t, l.a.Pod, "eth0", func(frame []byte) bool {
				e, ok := lab.ICMPErrorOf(frame)
				return ok && e.Quoted.Dst == unassigned
			})
			out, err := l.a.Pod.Try("ping", "-n", "-c", "1", "-W", "5", unassigned.String())
			if err == nil {
				t.Errorf("an unassigned address answers:\n%s", out)
			}
			e, _ := lab.ICMPErrorOf(answers.First(t, "unreachable"))
			if want := lab.GatewayInternal[f]; e.Src != want || e.Kind != [2]byte{3, 1}[f] {
				t.Errorf("type %d code %d from %s, want unreachable from %s", e.Kind, e.Code, e.Src, want)
			}
			if pod := [2]netip.Addr{l.a.Pod4, l.a.Pod6}[f]; e.Dst != pod || e.Quoted.Src != pod {
				t.Errorf("it went to %s and quotes a packet of %s, want both %s", e.Dst, e.Quoted.Src, pod)
			}
		}
	})
}

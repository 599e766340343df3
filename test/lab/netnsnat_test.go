//go:build lab || nightly

package lab

import (
	"net/netip"
	"testing"
)

// The scenario with NAT in front of the tunnel.

// The node masquerades packets of its pods to the gateway, as kube-proxy may. The gateway's
// replies are translated back to the pod, with the gateway's address as source.
func TestNetns15_UnreachableIsSaidThroughNATByTheRightRouter(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		l.a.node.run(t, "nft", "add table inet nat; add chain inet nat out { type nat hook postrouting priority srcnat; }; "+
			"add rule inet nat out oifname strait0 masquerade")
		ping(t, l.a.pod, l.a.sees(referenceInner[0]), 3, "-i", "0.01") // packets cross with NAT
		for f, unassigned := range addrs("10.75.0.1", "fd00:75::1") {
			l.a.node.ip(t, "route add "+unassigned.String()+" via "+gatewayInternal[f].String()+" dev strait0")
			answers := listenOn(t, l.a.pod, "eth0", func(frame []byte) bool {
				e, ok := icmpErrorOf(frame)
				return ok && e.quoted.dst == unassigned
			})
			out, err := l.a.pod.try("ping", "-n", "-c", "1", "-W", "5", unassigned.String())
			if err == nil {
				t.Errorf("an unassigned address answers:\n%s", out)
			}
			e, _ := icmpErrorOf(answers.first(t, "unreachable"))
			if want := gatewayInternal[f]; e.src != want || e.kind != [2]byte{3, 1}[f] {
				t.Errorf("type %d code %d from %s, want unreachable from %s", e.kind, e.code, e.src, want)
			}
			if pod := [2]netip.Addr{l.a.pod4, l.a.pod6}[f]; e.dst != pod || e.quoted.src != pod {
				t.Errorf("it went to %s and quotes a packet of %s, want both %s", e.dst, e.quoted.src, pod)
			}
		}
	})
}

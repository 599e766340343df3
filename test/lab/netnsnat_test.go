//go:build lab || nightly

package lab

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// The scenarios about NAT: outside of the tunnel, and in front of it.

func TestNetns11_KeepalivesHoldANATOpen(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		t.Run("in front of the gateway", func(t *testing.T) {
			l := buildNetns(t, k, netnsOptions{})
			l.translate(t, "ref")
			l.setPeers(t, l.peer("b-0", l.ref.key.public)) // with a keepalive of 1 s
			waitForPing(t, l.a.pod, l.a.sees(referenceInner[0]))
			l.pingBothWays(t)
			if at := l.gatewayAt(t); !strings.HasPrefix(at, referenceVia[0].String()+":") {
				t.Errorf("the reference believes the gateway at %s, want the NAT's address, %s", at, referenceVia[0])
			}
			time.Sleep(idle)
			ping(t, l.ref.ns, l.a.pod4, 1)
		})
		t.Run("in front of the reference", func(t *testing.T) {
			l := buildNetns(t, k, netnsOptions{referenceCalls: true})
			l.translate(t, "gw")
			l.ref.peer(t, l.key.public, "persistent-keepalive", "1")
			waitForPing(t, l.ref.ns, l.a.pod4)
			time.Sleep(idle)
			ping(t, l.a.pod, l.a.sees(referenceInner[0]), 1)
		})
	})
}

// idle is longer than the NAT remembers what is not in use.
const idle = 3 * time.Second

// translate makes a NAT of the internet: what leaves by a device has the router's address there, for 2 s after the last packet.
func (l *netnsLab) translate(t *testing.T, dev string) {
	t.Helper()
	l.net.run(t, "nft", "add table ip nat; add chain ip nat out { type nat hook postrouting priority srcnat; }; "+
		"add rule ip nat out oifname "+dev+" meta l4proto udp masquerade")
	for _, timeout := range []string{"nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"} {
		if err := l.net.in(func() error { return os.WriteFile("/proc/sys/net/netfilter/"+timeout, []byte("2"), 0) }); err != nil {
			t.Fatal(err)
		}
	}
}

// The node gives packets of its pods its own address on their way to the gateway, as kube-proxy may. What the gateway answers
// finds back to the pod, from the gateway's address.
func TestNetns15_UnreachableIsSaidThroughNATByTheRightRouter(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		l.a.node.run(t, "nft", "add table inet nat; add chain inet nat out { type nat hook postrouting priority srcnat; }; "+
			"add rule inet nat out oifname strait0 masquerade")
		ping(t, l.a.pod, l.a.sees(referenceInner[0]), 3, "-i", "0.01") // with NAT packets cross
		for f, nobody := range addrs("10.75.0.1", "fd00:75::1") {
			l.a.node.ip(t, "route add "+nobody.String()+" via "+gatewayInternal[f].String()+" dev strait0")
			answers := listenOn(t, l.a.pod, "eth0", func(frame []byte) bool {
				e, ok := icmpErrorOf(frame)
				return ok && e.quoted.dst == nobody
			})
			out, err := l.a.pod.try("ping", "-n", "-c", "1", "-W", "5", nobody.String())
			if err == nil {
				t.Errorf("an address that no peer has answers:\n%s", out)
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

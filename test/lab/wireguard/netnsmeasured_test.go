//go:build nightly

package wireguard

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/test/lab"
)

// The scenarios whose verdict is a rate, or that need a keepalive in time. They must run
// alone on the machine.

// The gateway's packets to the reference are routed to a node, and return to the gateway as
// packets for the tunnel. Each round adds headers, until the packet exceeds the MTU.
func TestNetns10_ARoutingLoopIsBounded(t *testing.T) {
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{configure: grantTheReferencesNetwork})
		l.loop(t, "add")
		before, began := l.sentToNode(t), time.Now()
		if out, err := l.a.Pod.Try("ping", "-n", "-c", "1", "-W", "1", l.a.Sees(referenceInner[0]).String()); err == nil {
			t.Errorf("a ping was answered although the tunnel's packets loop:\n%s", out)
		}
		perSecond := float64(l.sentToNode(t)-before) / time.Since(began).Seconds()
		l.loop(t, "del")
		t.Logf("%.0f bytes per second looped", perSecond)
		// A packet could make 23 rounds, 60 bytes longer each, until it exceeds the MTU: 20
		// KB. There are two probes per second and the ping.
		if perSecond > 70_000 {
			t.Fatalf("%.0f bytes per second looped, want at most 70000", perSecond)
		}
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		l.pingBothDirections(t)
	})
}

// sentToNode returns the number of bytes that left the gateway's namespace towards the
// node.
func (l *netnsLab) sentToNode(t *testing.T) int {
	t.Helper()
	var links []struct {
		Stats struct {
			TX struct{ Bytes int } `json:"tx"`
		} `json:"stats64"`
	}
	out := l.a.GW.Run(t, "ip", "-s", "-json", "link", "show", "dev", "eth0")
	if err := json.Unmarshal([]byte(out), &links); err != nil || len(links) != 1 {
		t.Fatalf("ip -s -json link: %v\n%s", err, out)
	}
	return links[0].Stats.TX.Bytes
}

func TestNetns11_KeepalivesHoldANATOpen(t *testing.T) {
	withEachReference(t, func(t *testing.T, k kind) {
		t.Run("in front of the gateway", func(t *testing.T) {
			l := buildNetns(t, k, netnsOptions{})
			l.translate(t, "ref")
			l.setPeers(t, l.peer("b-0", l.ref.key.Public)) // with a keepalive of 1 s
			lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
			l.pingBothDirections(t)
			if at := l.gatewayAt(t); !strings.HasPrefix(at, referenceVia[0].String()+":") {
				t.Errorf("the reference has the gateway at %s, want the NAT's address, %s", at, referenceVia[0])
			}
			time.Sleep(idle)
			lab.Ping(t, l.ref.ns, l.a.Pod4, 1)
		})
		t.Run("in front of the reference", func(t *testing.T) {
			l := buildNetns(t, k, netnsOptions{referenceCalls: true})
			l.translate(t, "gw")
			l.ref.peer(t, l.key.Public, "persistent-keepalive", "1")
			lab.WaitForPing(t, l.ref.ns, l.a.Pod4)
			time.Sleep(idle)
			lab.Ping(t, l.a.Pod, l.a.Sees(referenceInner[0]), 1)
		})
	})
}

// idle is longer than the NAT's timeout.
const idle = 3 * time.Second

// translate adds a NAT to the network: packets that leave by a device get the router's
// address, with a timeout of 2 s.
func (l *netnsLab) translate(t *testing.T, dev string) {
	t.Helper()
	l.net.Run(t, "nft", "add table ip nat; add chain ip nat out { type nat hook postrouting priority srcnat; }; "+
		"add rule ip nat out oifname "+dev+" meta l4proto udp masquerade")
	for _, timeout := range []string{"nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"} {
		if err := l.net.In(func() error { return os.WriteFile("/proc/sys/net/netfilter/"+timeout, []byte("2"), 0) }); err != nil {
			t.Fatal(err)
		}
	}
}

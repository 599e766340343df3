//go:build lab

package node

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/wait"
)

// masquerade is the configuration of a CNI, and of kube-proxy for a Service whose endpoint
// is in the other cluster: packets from the node itself to it are marked, and marked
// packets are masqueraded.
const masquerade = `
table ip cni {
	counter frames {}
	chain postrouting {
		type nat hook postrouting priority srcnat
		meta mark & 0x4000 == 0x4000 udp dport { 6091, 6092 } counter name frames
		ip saddr 10.0.0.0/16 ip daddr != 10.0.0.0/16 masquerade
		meta mark & 0x4000 == 0x4000 meta mark set meta mark ^ 0x4000 masquerade fully-random
	}
	chain prerouting {
		type nat hook prerouting priority dstnat
		ip daddr 10.96.0.10 udp dport 7 dnat to 10.71.2.9:7000
	}
	chain output {
		type nat hook output priority -100
		ip daddr 10.96.0.10 udp dport 7 meta mark set meta mark | 0x4000 dnat to 10.71.2.9:7000
	}
}
table ip6 cni {
	chain postrouting {
		type nat hook postrouting priority srcnat
		ip6 saddr fd00:10::/48 ip6 daddr != fd00:10::/48 masquerade
	}
}`

func TestSourcesReachTheOtherCluster(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.node.NFT(t, masquerade)
		w.apply(t, w.desired())
		echo(t, w.gateway, "10.71.2.9:7000")
		echo(t, w.gateway, "[fd00:71::9]:7000")
		for _, c := range []struct {
			name       string
			asks       *netns.Namespace
			from, to   string
			wantSeenAs string
		}{
			{"a pod keeps its address", w.pod, "", "10.71.2.9:7000", "10.0.1.5"},
			{"a pod keeps its IPv6 address", w.pod, "", "[fd00:71::9]:7000", "fd00:10:0:1::5"},
			{"a pod keeps its address towards a ClusterIP and gets replies", w.pod, "", "10.96.0.10:7", "10.0.1.5"},
			{"the node has its internal address towards a ClusterIP and gets replies", w.node, "", "10.96.0.10:7", "10.80.0.11"},
			{"the node has its internal address", w.node, "", "10.71.2.9:7000", "10.80.0.11"},
			{"the node has its internal address from any source", w.node, "192.0.2.21", "10.71.2.9:7000", "10.80.0.11"},
			{"the node has its internal IPv6 address from any source", w.node, "2001:db8::21", "[fd00:71::9]:7000", "fd00:80::11"},
		} {
			t.Run(c.name, func(t *testing.T) {
				if got := seenAs(t, c.asks, c.from, c.to); got != c.wantSeenAs {
					t.Errorf("the source is %s, want %s", got, c.wantSeenAs)
				}
			})
		}
		// A frame inherits the mark of its inner packet. It would be masqueraded, and
		// arrive with a wrong checksum if the kernel had already computed it.
		if frames := w.node.Run(t, "nft", "list", "counter", "ip", "cni", "frames"); !strings.Contains(frames, "packets 0 ") {
			t.Errorf("frames are marked:\n%s", frames)
		}
	})
}

// OVN-Kubernetes sets the source of what it delivers to pods of the node to its own address
// (go-controller/pkg/node, chain mgmtport-snat). kube-proxy masquerades connections to a
// NodePort, and must: their replies have to return to this node.
func TestPodsSeeTheSourcesOfOtherClusters(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.node.NFT(t, `
table inet ovn-kubernetes {
	chain mgmtport-snat {
		type nat hook postrouting priority srcnat
		oifname pod0 ip saddr != 10.0.1.1 counter snat ip to 10.0.1.1
		oifname pod0 ip6 saddr != fd00:10:0:1::1 counter snat ip6 to fd00:10:0:1::1
	}
	chain prerouting {
		type nat hook prerouting priority dstnat
		ip daddr 10.80.0.11 udp dport 30007 dnat ip to 10.0.1.5:7000
	}
}`)
		d := w.desired()
		d.Gateways[0].LocalNodes = true // for the NodePort
		w.apply(t, d)
		echo(t, w.pod, "10.0.1.5:7000")
		echo(t, w.pod, "[fd00:10:0:1::5]:7000")
		for _, c := range []struct{ name, from, to, wantSeenAs string }{
			{"a pod of another cluster", "10.71.2.9", "10.0.1.5:7000", "10.71.2.9"},
			{"a pod of another cluster with IPv6", "fd00:71::9", "[fd00:10:0:1::5]:7000", "fd00:71::9"},
			{"a pod of another cluster to a NodePort", "10.71.2.9", "10.80.0.11:30007", "10.0.1.1"},
			{"the gateway itself, which is in no range of another cluster", "10.80.0.1", "10.0.1.5:7000", "10.0.1.1"},
		} {
			t.Run(c.name, func(t *testing.T) {
				if got := seenAs(t, w.gateway, c.from, c.to); got != c.wantSeenAs {
					t.Errorf("the source is %s, want %s", got, c.wantSeenAs)
				}
			})
		}
	})
}

// A gateway is a pod like any other, and CNIs masquerade its packets to other nodes. Their
// kernels would reject such frames.
func TestFramesOfGatewaysToOtherNodesKeepTheirSource(t *testing.T) {
	w := newWorld(t, Support{})
	w.node.NFT(t, masquerade)
	w.gateway.IP(t, "route replace 10.0.1.0/24 via 192.0.2.21") // a real gateway has another route for replies
	d := w.desired()
	d.Gateways, d.Groups, d.Routes = nil, nil, nil // the table is set up before gateways exist
	w.apply(t, d)
	frames := map[Encapsulation]string{Geneve: "192.0.2.10:6092", VXLAN: "192.0.2.10:6091"}[w.encapsulation] // the port that is free
	for to, want := range map[string]string{
		frames:            "10.0.1.5",
		"192.0.2.10:6093": "192.0.2.21", // other traffic is still masqueraded
	} {
		echo(t, w.gateway, to)
		if got := seenAs(t, w.pod, "", to); got != want {
			t.Errorf("to %s: the source is %s, want %s", to, got, want)
		}
	}
}

func TestT14_NothingLeaksByTheDefaultRoute(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.gateway.NFT(t, `
table inet leak {
	chain prerouting {
		type filter hook prerouting priority raw
		iifname eth0 ip daddr 10.71.0.0/16 counter drop
		iifname eth0 ip6 daddr fd00:71::/48 counter drop
	}
}`)
		leaks := func() bool {
			for _, to := range []string{"10.71.2.9", "fd00:71::9"} {
				_, _ = w.pod.Try("ping", "-c1", "-W0.2", to) // a reply is not required
			}
			return strings.Count(w.gateway.Run(t, "nft", "list", "table", "inet", "leak"), "packets 0 bytes 0") < 2
		}
		fenceOnly := w.desired()
		fenceOnly.Gateways, fenceOnly.Groups[0].Gateways = nil, nil
		link := target(w.desired(), State{}).Links[0].Name
		for _, stage := range []struct {
			name string
			do   func()
		}{
			{"before there is a gateway", func() { w.apply(t, fenceOnly) }},
			{"with a gateway", func() { w.apply(t, w.desired()) }},
			{"with the link down", func() { w.node.IP(t, "link set "+link+" down") }},
			{"without the link", func() { w.node.IP(t, "link del "+link) }},
			{"with the main table flushed", func() {
				w.node.IP(t, "route flush table main\nroute add 192.0.2.10 dev gw0\nroute add default via 192.0.2.10")
			}},
			{"after the gateway", func() { w.apply(t, fenceOnly) }},
		} {
			stage.do()
			if leaks() {
				t.Fatalf("packets leak %s", stage.name)
			}
		}
		must(t, w.kernel.Remove())
		if !leaks() {
			t.Error("no packet took the default route even without Strait: this test detects nothing")
		}
	})
}

// A gateway moves while packets are in transit, as often as it likes. Answers of its former address
// are refused from then on, like any frame from an address that is no gateway's; all other
// packets are answered.
func TestF10_AGatewayMovesWithoutLossButOfItsFormerAddress(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		echo(t, w.gateway, "10.71.2.9:7")
		echo(t, w.moved, "10.71.2.9:7")
		moved := w.desired()
		moved.Gateways[0].Underlay = netip.MustParseAddr("192.0.2.12")
		w.apply(t, w.desired())
		if from := seenAs(t, w.pod, "", "10.71.2.9:7"); from != "10.0.1.5" {
			t.Fatalf("the gateway receives packets from %s", from)
		}
		var conn *net.UDPConn
		must(t, w.pod.In(func() (err error) {
			conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.71.2.9:7")))
			return err
		}))
		defer conn.Close()
		var sent, answered, refused atomic.Int64
		var answers, questions sync.WaitGroup
		answers.Go(func() {
			for b := make([]byte, 64); ; {
				if _, err := conn.Read(b); errors.Is(err, net.ErrClosed) {
					return
				} else if err == nil {
					answered.Add(1)
				}
			}
		})
		open := func() int64 {
			w.kernel.counters.Lock()
			counted, err := refusedIn(w.kernel.counters.tables)
			w.kernel.counters.Unlock()
			if err != nil {
				t.Error(err)
			}
			// What is counted as a packet may be several frames with one header, not segmented yet.
			const headers, frame = 20 + 8, 8 + 14 + 20 + 8 + len("10.0.1.5")
			c := counted[Refused{chainFrames, RefusedFrame}]
			refused.Store(int64((c.Bytes - headers*c.Packets) / uint64(frame)))
			return sent.Load() - answered.Load() - refused.Load()
		}
		ended := make(chan struct{})
		questions.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				if sent.Load()-answered.Load()-refused.Load() >= 32 && open() >= 32 { // so that no queue overflows
					time.Sleep(100 * time.Microsecond)
					continue
				}
				if _, err := conn.Write([]byte("hello")); err != nil {
					t.Error(err)
					return
				}
				sent.Add(1)
			}
		})
		more := func() {
			before := answered.Load()
			wait.Until(t, "packets are answered", func() bool { return answered.Load() > before+100 })
		}
		for range 10 {
			more()
			w.apply(t, moved)
			more()
			w.apply(t, w.desired())
		}
		close(ended)
		questions.Wait()
		wait.Until(t, "all packets are answered, or their answers refused", func() bool { return open() <= 0 }) // less: the kernel of the former gateway sends packets of its own
		conn.Close()
		answers.Wait()
	})
}

func TestRemoveDeletesOwnObjectsOnly(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.node.NFT(t, masquerade)
		w.node.IP(t, `
link add strait0 type veth peer name strait-000000
route add 10.99.0.0/16 dev gw0 table 6091
rule add pref 104 lookup 6091
nexthop add id 7 via 192.0.2.10 dev gw0 onlink proto 91
nexthop add id 1342177537 via 192.0.2.12 dev gw1 onlink
nexthop add id 8 group 7/1342177537
`)
		everything := func() (all string) {
			for _, command := range []string{
				"ip -br link", "ip -br addr show scope global", "ip route show table all", "ip -6 route show table all", "ip nexthop", "ip rule", "ip -6 rule", "nft list ruleset",
			} {
				fields := strings.Fields(command)
				for line := range strings.Lines(w.node.Run(t, fields[0], fields[1:]...)) {
					if !strings.Contains(line, "fe80:") { // the kernel adds link-local addresses at any time
						all += line
					}
				}
			}
			return all
		}
		before := everything()
		w.apply(t, w.desired())
		if everything() == before {
			t.Fatal("nothing was configured")
		}
		must(t, w.kernel.Remove())
		if after := everything(); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		must(t, w.kernel.Remove())
	})
}

func TestSupportMatchesTheKernel(t *testing.T) {
	w := newWorld(t, Support{})
	w.node.IP(t, "link add strait-probe type veth peer name other") // left by a process that was killed
	got, err := w.kernel.Support()
	must(t, err)
	_, err = w.node.Try("ip", "link", "add", "probe", "type", "geneve", "id", "1", "remote", "192.0.2.1")
	_, noTUN := os.Stat("/dev/net/tun")
	want := Support{Geneve: err == nil, VXLAN: true, Userspace: noTUN == nil}
	var lacks []string
	if err != nil {
		lacks = append(lacks, "no Geneve (rtnetlink: operation not supported)")
	}
	if noTUN != nil {
		lacks = append(lacks, "no TAP device (open /dev/net/tun: no such file or directory; mount it from the node into the container, and load the module tun on the node)")
	}
	want.Lacks = strings.Join(lacks, ", ")
	if got != want {
		t.Errorf("Support() = %+v, want %+v", got, want)
	}
	if links := w.node.Run(t, "ip", "-br", "link"); strings.Contains(links, LinkPrefix) {
		t.Errorf("a link was left:\n%s", links)
	}
}

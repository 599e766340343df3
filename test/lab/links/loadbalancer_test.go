//go:build lab || nightly

package links

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"strait.dev/strait/test/lab"
)

// A provider's load balancer in front of gateway B, and the provider's NAT behind which
// gateway A is, where the provider has one: a namespace with nftables and conntrack.
//
//	gateway A 198.51.100.2 ── 192.0.2.80:51840 load balancer ── gateway B 198.18.0.2, later 198.18.0.3
//
// Idle times are a sixtieth of the provider's, 1 s at least, which is the kernel's unit.
var loadBalancers = []struct {
	name   string
	idle   time.Duration // of a UDP flow
	source bool          // gateway B sees gateway A's own address
	health bool          // it chooses the target by a health check; else the provider's controller does
}{
	{"AWS Network Load Balancer, 120 s", 2 * time.Second, true, true},
	{"GKE passthrough, behind Cloud NAT, 30 s", time.Second, false, false},
	{"AKS Standard Load Balancer, NAT gateway 4 min", 4 * time.Second, true, false},
	{"DigitalOcean, source not kept", time.Second, false, true},
}

var (
	balanced       = netip.MustParseAddrPort("192.0.2.80:51840")
	balancedSource = lab.Addr("198.51.100.2")
	balancedTo     = lab.Addrs("198.18.0.2", "198.18.0.3")
)

// A load balancer forgets a UDP flow without packets. A link without traffic has probes.
func TestLinksOutliveTheIdleTimeOfLoadBalancers(t *testing.T) {
	t.Parallel()
	forEachLoadBalancer(t, func(t *testing.T, l *balancedLinks, idle time.Duration) {
		send, silent := l.silentFlow(t)
		var before []string
		lab.Eventually(t, "the load balancer has both flows", func() bool {
			send()
			before = l.linkFlows(t)
			return l.flow(t, silent) && len(before) == 1
		})
		time.Sleep(idle)
		lab.Eventually(t, "the load balancer forgets a flow without packets", func() bool { return !l.flow(t, silent) })
		if now := l.linkFlows(t); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Errorf("the link's flow is %v, was %v", now, before)
		}
		lab.Ping(t, l.B.Pod, l.B.Sees(l.A.Pod4), 5) // towards the side that no one could call
		lab.Ping(t, l.A.Pod, l.A.Sees(l.B.Pod4), 5)
	})
}

// A provider replaces its machines without notice.
func TestLinksReturnAfterALoadBalancerForgotItsFlows(t *testing.T) {
	t.Parallel()
	forEachLoadBalancer(t, func(t *testing.T, l *balancedLinks, _ time.Duration) {
		lab.Ping(t, l.B.Pod, l.B.Sees(l.A.Pod4), 5)
		if err := l.balancer.In(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) }); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		lab.WaitForPing(t, l.B.Pod, l.B.Sees(l.A.Pod4))
		lab.WaitForPing(t, l.A.Pod, l.A.Sees(l.B.Pod4))
		t.Logf("pings crossed in both directions after %v", time.Since(begun).Round(10*time.Millisecond))
	})
}

// The flow of the link has packets all the time, so the load balancer keeps it at the old
// target for ever.
func TestLinksReturnAfterTheTargetOfALoadBalancerMoved(t *testing.T) {
	t.Parallel()
	forEachLoadBalancer(t, func(t *testing.T, l *balancedLinks, _ time.Duration) {
		lab.Ping(t, l.A.Pod, l.A.Sees(l.B.Pod4), 5)
		before := l.linkFlows(t)
		l.B.GW.IP(t, fmt.Sprintf("addr del %s/24 dev balancer\naddr add %s/24 dev balancer\nroute add 198.51.100.0/24 via 198.18.0.1", balancedTo[0], balancedTo[1]))
		begun := time.Now()
		if !l.health {
			l.setTarget(t, balancedTo[1])
		}
		lab.WaitForPing(t, l.A.Pod, l.A.Sees(l.B.Pod4))
		lab.WaitForPing(t, l.B.Pod, l.B.Sees(l.A.Pod4))
		t.Logf("pings crossed in both directions after %v; flows before %v, now %v", time.Since(begun).Round(10*time.Millisecond), before, l.linkFlows(t))
	})
}

func forEachLoadBalancer(t *testing.T, f func(t *testing.T, l *balancedLinks, idle time.Duration)) {
	for _, of := range loadBalancers {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			f(t, balance(t, of.idle, of.source, of.health), of.idle)
		})
	}
}

// balancedLinks is the topology with a load balancer between the gateways.
type balancedLinks struct {
	*lab.Topology
	balancer *lab.Namespace
	health   bool
}

func balance(t *testing.T, idle time.Duration, source, health bool) *balancedLinks {
	t.Helper()
	l := &balancedLinks{Topology: lab.Wire(t, lab.Options{}), health: health}
	l.balancer = lab.NewNamespace(t, "balancer", map[string]string{"ipv4/ip_forward": "1"})
	lab.Connect(t, l.A.GW, "balancer", l.balancer, "front")
	lab.Connect(t, l.B.GW, "balancer", l.balancer, "back")
	l.balancer.IP(t, "addr add 198.51.100.1/24 dev front\naddr add 198.18.0.1/24 dev back")
	l.A.GW.IP(t, fmt.Sprintf("addr add %s/24 dev balancer\nroute add %s via 198.51.100.1", balancedSource, balanced.Addr()))
	l.B.GW.IP(t, fmt.Sprintf("addr add %s/24 dev balancer\nroute add 198.51.100.0/24 via 198.18.0.1", balancedTo[0]))
	// The sender learns nothing of a target that is gone.
	rules := "add table ip balancer; add chain ip balancer in { type nat hook prerouting priority dstnat; }; " +
		"add chain ip balancer out { type nat hook postrouting priority srcnat; }; " +
		"add chain ip balancer errors { type filter hook output priority filter; }; add rule ip balancer errors oifname front icmp type destination-unreachable drop"
	if !source {
		rules += "; add rule ip balancer out oifname back masquerade"
	}
	l.balancer.Run(t, "nft", rules)
	for _, timeout := range []string{"nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"} {
		if err := l.balancer.In(func() error {
			return os.WriteFile("/proc/sys/net/netfilter/"+timeout, fmt.Appendf(nil, "%d", idle/time.Second), 0)
		}); err != nil {
			t.Fatal(err)
		}
	}

	keys := [2]lab.KeyPair{lab.NewKeyPair(t), lab.NewKeyPair(t)}
	for i, s := range []*lab.Site{l.A, l.B} {
		s.Gateway = lab.NewGateway(t, s, l.Other(s), keys[i], keys[1-i].Public)
		s.Gateway.Config.PeerEndpoint = ""
		s.Gateway.Config.Observability = "0.0.0.0:8080"
	}
	l.A.Gateway.Config.PeerEndpoint = balanced.String()
	for _, s := range []*lab.Site{l.A, l.B} {
		s.Gateway.WriteConfig(t)
		s.Gateway.Start(t)
	}
	if health {
		l.followHealth(t)
	} else {
		l.setTarget(t, balancedTo[0])
	}
	for _, s := range []*lab.Site{l.A, l.B} {
		s.Gateway.WaitReady(t)
	}
	lab.WaitForPing(t, l.A.Pod, l.A.Sees(l.B.Pod4))
	return l
}

// setTarget leads new flows to a gateway; those that exist stay where they are.
func (l *balancedLinks) setTarget(t *testing.T, target netip.Addr) {
	t.Helper()
	if out, err := l.redirect(target); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (l *balancedLinks) redirect(target netip.Addr) (string, error) {
	return l.balancer.Try("nft", fmt.Sprintf("flush chain ip balancer in; add rule ip balancer in ip daddr %s udp dport { %d, %d } dnat to %s",
		balanced.Addr(), balanced.Port(), balanced.Port()+1, target))
}

// followHealth leads new flows to the target that answers GET /healthz with 200, until the
// test ends.
func (l *balancedLinks) followHealth(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	running.Go(func() {
		var current netip.Addr
		for ctx.Err() == nil {
			for _, target := range balancedTo {
				if target == current || !l.healthy(ctx, target) {
					continue
				}
				if out, err := l.redirect(target); err != nil {
					t.Errorf("%v\n%s", err, out)
					return
				}
				current = target
			}
			time.Sleep(5 * lab.Pause)
		}
	})
}

func (l *balancedLinks) healthy(ctx context.Context, target netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = l.balancer.In(func() error {
			c, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:8080/healthz", target), nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// silentFlow returns a function that sends a datagram from gateway A's machine to another port of the
// load balancer, and its source port.
func (l *balancedLinks) silentFlow(t *testing.T) (send func(), source uint16) {
	t.Helper()
	c := l.A.GW.Dial(t, "udp", netip.AddrPortFrom(balanced.Addr(), balanced.Port()+1))
	send = func() {
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
	return send, c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// flow reports whether the load balancer knows a flow with this source port.
func (l *balancedLinks) flow(t *testing.T, source uint16) bool {
	t.Helper()
	for _, f := range l.flows(t) {
		if f.Forward.SrcPort == source {
			return true
		}
	}
	return false
}

// linkFlows are the source ports and targets of the link's flows.
func (l *balancedLinks) linkFlows(t *testing.T) (all []string) {
	t.Helper()
	for _, f := range l.flows(t) {
		if f.Forward.DstPort == balanced.Port() && f.Forward.DstIP.Equal(balanced.Addr().AsSlice()) {
			all = append(all, fmt.Sprintf("%d to %s", f.Forward.SrcPort, f.Reverse.SrcIP))
		}
	}
	return all
}

func (l *balancedLinks) flows(t *testing.T) (all []*netlink.ConntrackFlow) {
	t.Helper()
	if err := l.balancer.In(func() (err error) {
		all, err = netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

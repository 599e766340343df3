//go:build lab || nightly

package lab

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
	balancedSource = addr("198.51.100.2")
	balancedTo     = addrs("198.18.0.2", "198.18.0.3")
)

// A load balancer forgets a UDP flow without packets. A link without traffic has probes.
func TestLinksOutliveTheIdleTimeOfLoadBalancers(t *testing.T) {
	t.Parallel()
	forEachLoadBalancer(t, func(t *testing.T, l *balancedLinks, idle time.Duration) {
		send, silent := l.silentFlow(t)
		var before []string
		eventually(t, "the load balancer has both flows", func() bool {
			send()
			before = l.linkFlows(t)
			return l.flow(t, silent) && len(before) == 1
		})
		time.Sleep(idle)
		eventually(t, "the load balancer forgets a flow without packets", func() bool { return !l.flow(t, silent) })
		if now := l.linkFlows(t); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Errorf("the link's flow is %v, was %v", now, before)
		}
		ping(t, l.b.pod, l.b.sees(l.a.pod4), 5) // towards the side that no one could call
		ping(t, l.a.pod, l.a.sees(l.b.pod4), 5)
	})
}

// A provider replaces its machines without notice.
func TestLinksReturnAfterALoadBalancerForgotItsFlows(t *testing.T) {
	t.Parallel()
	forEachLoadBalancer(t, func(t *testing.T, l *balancedLinks, _ time.Duration) {
		ping(t, l.b.pod, l.b.sees(l.a.pod4), 5)
		if err := l.balancer.in(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) }); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		waitForPing(t, l.b.pod, l.b.sees(l.a.pod4))
		waitForPing(t, l.a.pod, l.a.sees(l.b.pod4))
		t.Logf("pings crossed in both directions after %v", time.Since(begun).Round(10*time.Millisecond))
	})
}

// The flow of the link has packets all the time, so the load balancer keeps it at the old
// target for ever.
func TestLinksReturnAfterTheTargetOfALoadBalancerMoved(t *testing.T) {
	t.Parallel()
	forEachLoadBalancer(t, func(t *testing.T, l *balancedLinks, _ time.Duration) {
		ping(t, l.a.pod, l.a.sees(l.b.pod4), 5)
		before := l.linkFlows(t)
		l.b.gw.ip(t, fmt.Sprintf("addr del %s/24 dev balancer\naddr add %s/24 dev balancer\nroute add 198.51.100.0/24 via 198.18.0.1", balancedTo[0], balancedTo[1]))
		begun := time.Now()
		if !l.health {
			l.setTarget(t, balancedTo[1])
		}
		waitForPing(t, l.a.pod, l.a.sees(l.b.pod4))
		waitForPing(t, l.b.pod, l.b.sees(l.a.pod4))
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
	*topology
	balancer *namespace
	health   bool
}

func balance(t *testing.T, idle time.Duration, source, health bool) *balancedLinks {
	t.Helper()
	l := &balancedLinks{topology: wire(t, options{}), health: health}
	l.balancer = newNamespace(t, "balancer", map[string]string{"ipv4/ip_forward": "1"})
	connect(t, l.a.gw, "balancer", l.balancer, "front")
	connect(t, l.b.gw, "balancer", l.balancer, "back")
	l.balancer.ip(t, "addr add 198.51.100.1/24 dev front\naddr add 198.18.0.1/24 dev back")
	l.a.gw.ip(t, fmt.Sprintf("addr add %s/24 dev balancer\nroute add %s via 198.51.100.1", balancedSource, balanced.Addr()))
	l.b.gw.ip(t, fmt.Sprintf("addr add %s/24 dev balancer\nroute add 198.51.100.0/24 via 198.18.0.1", balancedTo[0]))
	// The sender learns nothing of a target that is gone.
	rules := "add table ip balancer; add chain ip balancer in { type nat hook prerouting priority dstnat; }; " +
		"add chain ip balancer out { type nat hook postrouting priority srcnat; }; " +
		"add chain ip balancer errors { type filter hook output priority filter; }; add rule ip balancer errors oifname front icmp type destination-unreachable drop"
	if !source {
		rules += "; add rule ip balancer out oifname back masquerade"
	}
	l.balancer.run(t, "nft", rules)
	for _, timeout := range []string{"nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"} {
		if err := l.balancer.in(func() error {
			return os.WriteFile("/proc/sys/net/netfilter/"+timeout, fmt.Appendf(nil, "%d", idle/time.Second), 0)
		}); err != nil {
			t.Fatal(err)
		}
	}

	keys := [2]keyPair{newKeyPair(t), newKeyPair(t)}
	for i, s := range []*site{l.a, l.b} {
		s.gateway = newGateway(t, s, l.other(s), keys[i], keys[1-i].public)
		s.gateway.config.PeerEndpoint = ""
		s.gateway.config.Observability = "0.0.0.0:8080"
	}
	l.a.gateway.config.PeerEndpoint = balanced.String()
	for _, s := range []*site{l.a, l.b} {
		s.gateway.writeConfig(t)
		s.gateway.start(t)
	}
	if health {
		l.followHealth(t)
	} else {
		l.setTarget(t, balancedTo[0])
	}
	for _, s := range []*site{l.a, l.b} {
		s.gateway.waitReady(t)
	}
	waitForPing(t, l.a.pod, l.a.sees(l.b.pod4))
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
	return l.balancer.try("nft", fmt.Sprintf("flush chain ip balancer in; add rule ip balancer in ip daddr %s udp dport { %d, %d } dnat to %s",
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
			time.Sleep(5 * pause)
		}
	})
}

func (l *balancedLinks) healthy(ctx context.Context, target netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = l.balancer.in(func() error {
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
	c := l.a.gw.dial(t, "udp", netip.AddrPortFrom(balanced.Addr(), balanced.Port()+1))
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
	if err := l.balancer.in(func() (err error) {
		all, err = netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

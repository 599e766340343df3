//go:build lab || nightly

package lab

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// waitForPing pings until the first reply: then the path works.
func waitForPing(t *testing.T, from *namespace, to netip.Addr, args ...string) {
	t.Helper()
	args = append([]string{"-n", "-c", "1", "-W", "1", to.String()}, args...)
	eventually(t, fmt.Sprintf("%s answers a ping from %s", to, from.role), func() bool {
		_, err := from.try("ping", args...)
		return err == nil
	})
}

// ping expects a reply to each of the first count requests. It continues until that many
// are answered, so that a late reply does not count as lost.
func ping(t *testing.T, from *namespace, to netip.Addr, count int, args ...string) {
	t.Helper()
	args = append([]string{"-n", "-c", fmt.Sprint(count), "-i", "0.05", "-w", "3600", to.String()}, args...)
	out := from.run(t, "ping", args...)
	for request := 1; request <= count; request++ {
		if !strings.Contains(out, fmt.Sprintf(" icmp_seq=%d ttl=", request)) {
			t.Errorf("in %s: ping %s: request %d was not answered\n%s", from.role, strings.Join(args, " "), request, out)
			return
		}
	}
	if strings.Contains(out, "DUP!") {
		t.Errorf("in %s: ping %s: answered twice\n%s", from.role, strings.Join(args, " "), out)
	}
}

func TestPingCrosses(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		ping(t, w.from, w.seen, 10)
		ping(t, w.from, w.seen, 3, "-s", "0")
		ping(t, w.from, w.seen, 3, "-s", "1300")
	})
}

func TestFragmentedPingCrosses(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		if w.src.Is6() { // only the sender fragments IPv6: it must learn the path MTU first
			waitForPing(t, w.from, w.seen, "-s", "8000")
		}
		ping(t, w.from, w.seen, 5, "-s", "8000")
	})
}

func TestPodWithTheGatewaysOwnAddressIsReachable(t *testing.T) {
	t.Parallel()
	// The gateway of A is a pod with the underlay address 10.0.1.2. B uses the same pod
	// CIDR, so one of its pods may have the same address.
	top := build(t, options{configure: func(s *site, c *gatewayConfig) {
		if s.name == "b" {
			c.Nodes[0].Prefixes = append(c.Nodes[0].Prefixes, netip.MustParsePrefix("10.0.1.2/32"))
		}
	}})
	top.b.addPodAddress(t, top.a.gw4)
	ping(t, top.a.pod, top.a.sees(top.a.gw4), 5)
}

func TestIPv6UnderlayCarriesBothFamilies(t *testing.T) {
	t.Parallel()
	for name, sameMachine := range map[string]bool{"same machine": true, "another machine": false} {
		t.Run(name, func(t *testing.T) {
			top := build(t, options{underlay6: true, sameMachine: sameMachine})
			exchangeBothDirections(t, top)
		})
	}
}

func TestGeneveAndVXLANClustersConnect(t *testing.T) {
	t.Parallel()
	if leftOut != "" {
		t.Skip(leftOut)
	}
	if kernelEncapsulation(newNamespace(t, serial.Add(1), "scratch", nil)) != "geneve" {
		t.Skip("mixed encapsulation left out: this kernel has no Geneve; run: test/guest/run-lab")
	}
	top := build(t, options{encapsulation: [2]string{"geneve", "vxlan"}})
	exchangeBothDirections(t, top)
}

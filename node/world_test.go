//go:build lab || nightly

package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/node/userspace"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/wait"
)

// world is a node between a pod and two gateways:
//
//	pod ──────────── node ───────────── gateway
//	10.0.1.5   10.0.1.1  192.0.2.21   192.0.2.10, the other one 192.0.2.12
//	                10.80.0.11 ═══ 10.80.0.1    10.71.2.9: what the other cluster has
//
// IPv6 has the same topology. The other gateway is the same one after it has moved: it has
// all addresses except the underlay address. The node's default route leads to the
// gateway's machine as well, so leaked packets are visible there. The gateways' ends of the
// overlay are of the same type as the node's: the kernel's Geneve or, if it has none,
// VXLAN; or TAP devices that the test serves.
type world struct {
	pod, node, gateway, moved *netns.Namespace
	kernel                    *Kernel
	encapsulation             Encapsulation
	kept                      bool // by another Kernel than kernel
}

const worldVNI = 257

// inEachWorld runs a test with the kernel's encapsulation and with Geneve in user space.
func inEachWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Run("kernel", func(t *testing.T) { test(t, newWorld(t, Support{})) })
	t.Run("userspace", func(t *testing.T) { test(t, userspaceWorld(t)) })
}

// newWorld creates a world with the encapsulations in has, or, if has is zero, with those
// of the kernel.
func newWorld(t *testing.T, has Support) *world {
	t.Helper()
	w := &world{pod: netns.New(t), node: netns.New(t), gateway: netns.New(t), moved: netns.New(t)}
	must(t, w.node.In(func() error {
		for key, value := range map[string]string{"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1", "ipv4/conf/all/rp_filter": "1"} {
			if err := writeSysctl(key, value); err != nil {
				return err
			}
		}
		return nil
	}))
	w.node.IP(t, fmt.Sprintf(`
link add pod0 type veth peer name eth0 %s
link add gw0 type veth peer name eth0 %s
link add gw1 type veth peer name eth0 %s
addr add 10.0.1.1/24 dev pod0
addr add fd00:10:0:1::1/64 dev pod0 nodad
addr add 192.0.2.21/32 dev gw0
addr add 2001:db8::21/128 dev gw0 nodad
link set pod0 up
link set gw0 up
link set gw1 up
route add 192.0.2.10 dev gw0 src 192.0.2.21
route add 192.0.2.12 dev gw1 src 192.0.2.21
route add default via 192.0.2.10
route add 2001:db8::10 dev gw0
route add default via 2001:db8::10
`, w.pod.Here(), w.gateway.Here(), w.moved.Here()))
	w.pod.IP(t, `
addr add 10.0.1.5/24 dev eth0
addr add fd00:10:0:1::5/64 dev eth0 nodad
link set eth0 up
route add default via 10.0.1.1
route add default via fd00:10:0:1::1
`)
	w.kernel = openIn(t, w.node)
	var err error
	if has == (Support{}) {
		has, err = w.kernel.Support()
		must(t, err)
	}
	w.encapsulation, err = has.Choose("")
	must(t, err)
	w.makeGateway(t, w.gateway, "192.0.2.10")
	w.makeGateway(t, w.moved, "192.0.2.12")
	w.gateway.IP(t, "addr add 2001:db8::10/128 dev eth0 nodad\nroute add 2001:db8::21 dev eth0")
	return w
}

// userspaceWorld has TAP devices at all ends.
func userspaceWorld(t *testing.T) *world {
	t.Helper()
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("TAP devices left out: this kernel has none (%v)", err)
	}
	return newWorld(t, Support{Userspace: true})
}

func (w *world) makeGateway(t *testing.T, n *netns.Namespace, underlay string) {
	t.Helper()
	device := fmt.Sprintf("link add overlay type %s id %d remote 192.0.2.21 dstport %d", w.encapsulation, worldVNI, w.encapsulation.port())
	switch w.encapsulation {
	case VXLAN:
		device += " nolearning"
	case Userspace:
		device = "tuntap add overlay mode tap"
	}
	n.IP(t, fmt.Sprintf(`
addr add %s/32 dev eth0
link set eth0 up
route add 192.0.2.21 dev eth0 src %[1]s
addr add 10.71.2.9/32 dev lo
addr add fd00:71::9/128 dev lo nodad
%s
link set overlay address 0a:58:0a:50:00:01 mtu 1400
addr add 10.80.0.1/32 dev overlay
addr add fd00:80::1/128 dev overlay nodad
link set overlay up
neigh add 10.80.0.11 lladdr 0a:58:0a:50:00:0b dev overlay nud permanent
neigh add fd00:80::11 lladdr 0a:58:0a:50:00:0b dev overlay nud permanent
route add 10.80.0.11/32 dev overlay src 10.80.0.1
route add fd00:80::11/128 dev overlay src fd00:80::1
route add 10.0.1.0/24 via 10.80.0.11 dev overlay onlink
route add fd00:10:0:1::/64 via fd00:80::11 dev overlay onlink
`, underlay, device))
	if w.encapsulation == Userspace {
		serveIn(t, n, "overlay", userspace.Way{VNI: worldVNI, Gateway: netip.MustParseAddr("192.0.2.21")})
	}
}

// serveIn serves a TAP device in a namespace until the test ends.
func serveIn(t *testing.T, n *netns.Namespace, device string, way userspace.Way) {
	t.Helper()
	e := userspace.New(Userspace.port(), userspace.Grace)
	t.Cleanup(e.Close)
	must(t, n.In(func() error {
		link, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		return e.Serve(device, link.Index, way)
	}))
}

// desired is the desired state of the node in this topology.
func (w *world) desired() Desired {
	return Desired{
		Addresses: addrs("10.80.0.11", "fd00:80::11"),
		Pods:      prefixes("10.0.0.0/16", "fd00:10::/48"),
		LocalPods: prefixes("10.0.1.0/24", "fd00:10:0:1::/64"),
		Gateways: []Gateway{{
			Name: "b-0", Underlay: netip.MustParseAddr("192.0.2.10"), Addresses: addrs("10.80.0.1", "fd00:80::1"),
			VNI: worldVNI, Encapsulation: w.encapsulation, MTU: 1400, Remote: prefixes("10.71.0.0/16", "fd00:71::/48"),
		}},
		Groups: []Group{{Name: "b", Gateways: []string{"b-0"}, MTU: 1400}},
		Routes: []Route{
			{netip.MustParsePrefix("10.71.0.0/16"), "b"},
			{netip.MustParsePrefix("fd00:71::/48"), "b"},
		},
	}
}

// keep runs Keep in the namespace until the test ends, and returns the channels for desired
// states and reports.
func (w *world) keep(t *testing.T) (chan<- Desired, <-chan Report) {
	t.Helper()
	w.kept = true
	w.kernel.userspace.Close()
	k := openIn(t, w.node)
	desired, reports, ended := make(chan Desired), make(chan Report, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- k.Keep(ctx, desired, func(r Report) { reports <- r })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return desired, reports
}

// apply brings the node's kernel to the desired state.
func (w *world) apply(t *testing.T, d Desired) {
	t.Helper()
	must(t, d.Validate())
	_, _, err := w.kernel.achieve(d)
	must(t, err)
	w.check(t, d)
	for _, a := range d.Addresses {
		if w.node != nil && len(d.Gateways) > 0 && a.Is6() {
			// Linux adds the local route of an IPv6 address later, in a worker, even without duplicate address detection.
			wait.Until(t, a.String()+" is local", func() bool { return w.way(t, a.String(), "").Local })
		}
	}
}

// check fails if operations are left to do.
func (w *world) check(t *testing.T, d Desired) {
	t.Helper()
	if left, observed := w.left(t, d); len(left) > 0 {
		t.Errorf("operations left:\n%s\nobserved: %+v", text(left), observed)
	}
}

// left returns the operations left to do.
func (w *world) left(t *testing.T, d Desired) ([]Operation, State) {
	t.Helper()
	observed, err := w.kernel.observeFor(d)
	must(t, err)
	left := Plan(d, observed)
	if w.kept {
		left = slices.DeleteFunc(left, isServe)
	}
	return left, observed
}

// isServe matches operations whose effect only this process can observe: serving a TAP
// device.
func isServe(o Operation) bool { return strings.HasPrefix(o.String(), "serve link") }

// isRestart matches the operations of a restart. Without a process that serves it, a TAP device
// has no carrier, and the kernel deletes its nexthops.
func (w *world) isRestart(o Operation) bool {
	return w.encapsulation == Userspace && (isServe(o) || strings.Contains(o.String(), "nexthop "))
}

// openIn opens the kernel in a namespace.
func openIn(t *testing.T, n *netns.Namespace) *Kernel {
	t.Helper()
	var k *Kernel
	must(t, n.In(func() (err error) {
		k, err = Open()
		return err
	}))
	t.Cleanup(k.Close)
	return k
}

// writeSysctl writes a value below /proc/sys/net of the calling thread's namespace.
func writeSysctl(key, value string) error {
	return os.WriteFile("/proc/sys/net/"+key, []byte(value), 0)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// way looks up a route on the node of a world.
func (w *world) way(t *testing.T, to, from string) Way {
	t.Helper()
	var source netip.Addr
	if from != "" {
		source = netip.MustParseAddr(from)
	}
	var way Way
	must(t, w.node.In(func() (err error) { way, err = FindWay(netip.MustParseAddr(to), source); return err }))
	return way
}

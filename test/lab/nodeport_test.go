//go:build lab || nightly

package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// A node with kube-proxy's rules, and a client outside of all clusters:
//
//	client 198.51.100.7 ── 198.51.100.1 node A ── gateway A ══ gateway B ── pod B 10.0.2.9
//	                                     └ pod A 10.0.1.5
//
// A Service of cluster A has pod B as its endpoint, with the address to which A maps it:
// 10.71.2.9. kube-proxy runs for IPv4 only.
const (
	nodePortCluster, nodePortLocal = 30080, 30081

	clusterIPOfCluster, clusterIPOfLocal = "10.96.0.80", "10.96.0.81"
)

var (
	lanNode, lanClient = addr("198.51.100.1"), addr("198.51.100.7")
	lan                = netip.MustParsePrefix("198.51.100.0/24")
)

// nodePorts is the topology with kube-proxy.
type nodePorts struct {
	*topology
	client *namespace
	server netip.AddrPort // of pod B, its real address

	// The sources of packets from A, as B sees them.
	node, pod, gateway netip.Addr
}

func buildNodePorts(t *testing.T, program, mode string) *nodePorts {
	t.Helper()
	p := &nodePorts{topology: build(t, options{})}
	a, b := p.a, p.b
	p.client = newNamespace(t, "client", nil)
	connect(t, p.client, "eth0", a.node, "lan0")
	p.client.ip(t, fmt.Sprintf("addr add %s/24 dev eth0", lanClient))
	a.node.ip(t, fmt.Sprintf("addr add %s/24 dev lan0\nroute add default via %s dev lan0", lanNode, lanClient))

	p.server = netip.AddrPortFrom(b.pod4, 8080)
	serveNames(t, b.pod, p.server)
	p.node, p.pod, p.gateway = b.sees(nodeExternal[0]), b.sees(a.pod4), b.sees(gatewayExternal[0])

	endpoint := netip.AddrPortFrom(a.sees(b.pod4), p.server.Port())
	startKubeProxy(t, program, mode, a.node, lanNode,
		nodePortService{"cluster", addr(clusterIPOfCluster), nodePortCluster, "Cluster", endpoint},
		nodePortService{"local", addr(clusterIPOfLocal), nodePortLocal, "Local", endpoint})
	eventually(t, "kube-proxy has made its rules", func() bool {
		return a.node.in(func() error {
			// A connection that starts before the rules would never be translated.
			c, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", addrPort(clusterIPOfLocal, 80).String())
			if err == nil {
				err = c.Close()
			}
			return err
		}) == nil
	})
	return p
}

func forEachProxyMode(t *testing.T, f func(t *testing.T, p *nodePorts)) {
	needLab(t)
	program := kubeProxy(t)
	for _, mode := range []string{"iptables", "nftables"} {
		t.Run(mode, func(t *testing.T) { f(t, buildNodePorts(t, program, mode)) })
	}
}

// For any kube-proxy mode, a packet that leaves with its node's or its pod's own address
// needs no state in a gateway, and these gateways are configured to keep none: the node has
// its external address, by which it is reached.
func TestF18_KubeProxysTrafficOfNodesAndPodsIsStateless(t *testing.T) {
	t.Parallel()
	forEachProxyMode(t, func(t *testing.T, p *nodePorts) {
		node, pod, client := p.a.node, p.a.pod, p.client
		direct := netip.AddrPortFrom(p.a.sees(p.b.pod4), p.server.Port())
		for _, path := range []struct {
			name string
			from *namespace
			to   netip.AddrPort
			seen netip.Addr
		}{
			{"host network to the remote pod", node, direct, p.node},
			{"pod to the remote pod", pod, direct, p.pod},
			{"host network to the ClusterIP", node, addrPort(clusterIPOfCluster, 80), p.node},
			{"pod to the ClusterIP", pod, addrPort(clusterIPOfCluster, 80), p.pod},
			{"client to the NodePort, policy Cluster", client, netip.AddrPortFrom(lanNode, nodePortCluster), p.node},
			{"host network to its NodePort, policy Cluster", node, netip.AddrPortFrom(lanNode, nodePortCluster), p.node},
			{"pod to its node's NodePort, policy Cluster", pod, netip.AddrPortFrom(lanNode, nodePortCluster), p.node},
			{"host network to the ClusterIP, policy Local", node, addrPort(clusterIPOfLocal, 80), p.node},
			{"pod to the ClusterIP, policy Local", pod, addrPort(clusterIPOfLocal, 80), p.pod},
			{"host network to its NodePort, policy Local", node, netip.AddrPortFrom(lanNode, nodePortLocal), p.node},
			{"pod to its node's NodePort, policy Local", pod, netip.AddrPortFrom(lanNode, nodePortLocal), p.pod},
		} {
			for _, network := range []string{"tcp", "udp"} {
				t.Run(network+"/"+path.name, func(t *testing.T) {
					expectSeen(t, path.from, network, path.to, path.seen)
				})
			}
		}
	})
}

// A restarted gateway has no state of existing connections, and they continue.
func TestNodePortConnectionsSurviveNewGateways(t *testing.T) {
	t.Parallel()
	forEachProxyMode(t, func(t *testing.T, p *nodePorts) {
		c := p.client.dial(t, "tcp", netip.AddrPortFrom(lanNode, nodePortCluster))
		if seen, err := ask(c); err != nil || seen != p.node {
			t.Fatalf("the pod answers %v, %v, want %v", seen, err, p.node)
		}
		for _, s := range []*site{p.a, p.b} {
			s.gateway.kill()
			s.gateway.start(t)
			s.gateway.waitReady(t)
		}
		if seen, err := ask(c); err != nil || seen != p.node {
			t.Errorf("after both gateways were killed and started the pod answers %v, %v, want %v", seen, err, p.node)
		}
	})
}

// With the policy Local kube-proxy keeps the client's address, which is unknown to the
// clusters: the gateway masquerades it, and translates replies back.
func TestClientsOfALocalNodePortAreMasqueraded(t *testing.T) {
	t.Parallel()
	forEachProxyMode(t, func(t *testing.T, p *nodePorts) {
		to := netip.AddrPortFrom(lanNode, nodePortLocal)
		c := p.client.dial(t, "udp", to)
		if _, err := c.Write([]byte("who am I?")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the client's packet is dropped as spoofed_source", func() bool {
			return p.a.gateway.drops(t, "egress", "spoofed_source") > 0
		})

		g := p.a.gateway
		text, err := os.ReadFile(g.configFile())
		if err != nil {
			t.Fatal(err)
		}
		g.reload(t, "ok", func() { g.replaceConfigFile(t, string(text)+"masquerade:\n  sources: ["+lan.String()+"]\n") })
		for _, network := range []string{"tcp", "udp"} {
			expectSeen(t, p.client, network, to, p.gateway)
		}
		if flows := g.metric(t, "strait_masquerade_flows"); flows < 2 {
			t.Errorf("the gateway keeps %v flows, want one for each connection", flows)
		}
		// All other sources are unchanged.
		expectSeen(t, p.client, "tcp", netip.AddrPortFrom(lanNode, nodePortCluster), p.node)
		expectSeen(t, p.a.pod, "tcp", to, p.pod)
		expectSeen(t, p.a.node, "tcp", addrPort(clusterIPOfLocal, 80), p.node)
	})
}

func addrPort(a string, port uint16) netip.AddrPort { return netip.AddrPortFrom(addr(a), port) }

// expectSeen connects to a name server, to which the caller must appear as want.
func expectSeen(t *testing.T, from *namespace, network string, to netip.AddrPort, want netip.Addr) {
	t.Helper()
	if seen, err := call(from, network, to); err != nil {
		t.Errorf("from %s to %s: %v", from.role, to, err)
	} else if seen != want {
		t.Errorf("from %s to %s: the pod sees %v, want %v", from.role, to, seen, want)
	}
}

// call requests the caller's address from a name server.
func call(from *namespace, network string, to netip.AddrPort) (seen netip.Addr, err error) {
	var c net.Conn
	if err := from.in(func() (err error) {
		c, err = net.Dial(network, to.String())
		return err
	}); err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return ask(c)
}

func ask(c net.Conn) (netip.Addr, error) {
	answer := make([]byte, 64)
	_, err := c.Write([]byte("who am I?"))
	n, failed := c.Read(answer)
	if err = errors.Join(err, failed); err != nil {
		return netip.Addr{}, err
	}
	return netip.ParseAddr(string(answer[:n]))
}

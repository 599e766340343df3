//go:build lab || nightly

package nodes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"strait.dev/strait/test/lab"
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
	lanNode, lanClient = lab.Addr("198.51.100.1"), lab.Addr("198.51.100.7")
	lan                = netip.MustParsePrefix("198.51.100.0/24")
)

// nodePorts is the topology with kube-proxy.
type nodePorts struct {
	*lab.Topology
	client *lab.Namespace
	server netip.AddrPort // of pod B, its real address

	// The sources of packets from A, as B sees them.
	node, pod, gateway netip.Addr
}

func buildNodePorts(t *testing.T, program, mode string) *nodePorts {
	t.Helper()
	p := &nodePorts{Topology: lab.Build(t, lab.Options{})}
	a, b := p.A, p.B
	p.client = lab.NewNamespace(t, "client", nil)
	lab.Connect(t, p.client, "eth0", a.Node, "lan0")
	p.client.IP(t, fmt.Sprintf("addr add %s/24 dev eth0", lanClient))
	a.Node.IP(t, fmt.Sprintf("addr add %s/24 dev lan0\nroute add default via %s dev lan0", lanNode, lanClient))

	p.server = netip.AddrPortFrom(b.Pod4, 8080)
	serveNames(t, b.Pod, p.server)
	p.node, p.pod, p.gateway = b.Sees(lab.NodeExternal[0]), b.Sees(a.Pod4), b.Sees(lab.GatewayExternal[0])

	endpoint := netip.AddrPortFrom(a.Sees(b.Pod4), p.server.Port())
	startKubeProxy(t, program, mode, a.Node, lanNode,
		nodePortService{"cluster", lab.Addr(clusterIPOfCluster), nodePortCluster, "Cluster", endpoint},
		nodePortService{"local", lab.Addr(clusterIPOfLocal), nodePortLocal, "Local", endpoint})
	lab.Eventually(t, "kube-proxy has made its rules", func() bool {
		return a.Node.In(func() error {
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
	lab.Need(t)
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
		node, pod, client := p.A.Node, p.A.Pod, p.client
		direct := netip.AddrPortFrom(p.A.Sees(p.B.Pod4), p.server.Port())
		for _, path := range []struct {
			name string
			from *lab.Namespace
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
		c := p.client.Dial(t, "tcp", netip.AddrPortFrom(lanNode, nodePortCluster))
		if seen, err := ask(c); err != nil || seen != p.node {
			t.Fatalf("the pod answers %v, %v, want %v", seen, err, p.node)
		}
		for _, s := range []*lab.Site{p.A, p.B} {
			s.Gateway.Kill()
			s.Gateway.Start(t)
			s.Gateway.WaitReady(t)
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
		c := p.client.Dial(t, "udp", to)
		if _, err := c.Write([]byte("who am I?")); err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, "the client's packet is dropped as spoofed_source", func() bool {
			return p.A.Gateway.Drops(t, "egress", "spoofed_source") > 0
		})

		g := p.A.Gateway
		text, err := os.ReadFile(g.ConfigFile())
		if err != nil {
			t.Fatal(err)
		}
		g.Reload(t, "ok", func() { g.ReplaceConfigFile(t, string(text)+"masquerade:\n  sources: ["+lan.String()+"]\n") })
		for _, network := range []string{"tcp", "udp"} {
			expectSeen(t, p.client, network, to, p.gateway)
		}
		if flows := g.Metric(t, "strait_masquerade_flows"); flows < 2 {
			t.Errorf("the gateway keeps %v flows, want one for each connection", flows)
		}
		// All other sources are unchanged.
		expectSeen(t, p.client, "tcp", netip.AddrPortFrom(lanNode, nodePortCluster), p.node)
		expectSeen(t, p.A.Pod, "tcp", to, p.pod)
		expectSeen(t, p.A.Node, "tcp", addrPort(clusterIPOfLocal, 80), p.node)
	})
}

func addrPort(a string, port uint16) netip.AddrPort { return netip.AddrPortFrom(lab.Addr(a), port) }

// expectSeen connects to a name server, to which the caller must appear as want.
func expectSeen(t *testing.T, from *lab.Namespace, network string, to netip.AddrPort, want netip.Addr) {
	t.Helper()
	if seen, err := call(from, network, to); err != nil {
		t.Errorf("from %s to %s: %v", from.Role, to, err)
	} else if seen != want {
		t.Errorf("from %s to %s: the pod sees %v, want %v", from.Role, to, seen, want)
	}
}

// call requests the caller's address from a name server.
func call(from *lab.Namespace, network string, to netip.AddrPort) (seen netip.Addr, err error) {
	var c net.Conn
	if err := from.In(func() (err error) {
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

package rig

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/netns"
)

const (
	unprivileged = 65534 // user ID of strait's gateways
	straitPort   = 51840 // their WireGuard port
)

// straitShape is how a pair of gateways differs from the default.
type straitShape struct {
	v6         bool // node links and the tunnel run over IPv6
	extraNodes int  // configured in addition to the existing one; nodes use VXLAN then
	idlePeers  int  // of gateway A, in addition to the existing one
}

// straitSubject is a pair of `strait gateway` with default settings, as user nobody and
// without capabilities.
func straitSubject(name, binary string, shape straitShape) *Subject {
	return &Subject{
		Name: name, translated: true, v6: shape.v6, dualStack: true,
		up: func(r *Rig, t *topology) error {
			encapsulation := t.a.node.Encapsulation()
			if shape.extraNodes > 0 {
				encapsulation = "vxlan"
			}
			keys, err := newKeyPairs(2)
			if err != nil {
				return err
			}
			idle, err := newKeyPairs(shape.idlePeers)
			if err != nil {
				return err
			}
			for i, s := range t.sites() {
				if err := s.joinNode(encapsulation, shape.v6); err != nil {
					return err
				}
				if err := s.routeNode(t.other(s).seenAs); err != nil {
					return err
				}
				c := straitConfig(s, t.other(s), encapsulation, shape, keys[1-i].public)
				if s == t.a {
					addIdlePeers(c, idle)
				}
				if err := r.startStrait(t, s, binary, c, keys[i].private); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (r *Rig) startStrait(t *topology, s *site, binary string, c *config.Gateway, private [32]byte) error {
	dir, err := r.folder(t, s)
	if err != nil {
		return err
	}
	c.WireGuard.PrivateKeyFile = filepath.Join(dir, "private.key")
	if err := os.WriteFile(c.WireGuard.PrivateKeyFile, []byte(base64.StdEncoding.EncodeToString(private[:])+"\n"), 0o400); err != nil {
		return err
	}
	if err := os.Chown(c.WireGuard.PrivateKeyFile, unprivileged, unprivileged); err != nil {
		return err
	}
	text, err := c.YAML()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	id := strconv.Itoa(unprivileged)
	return t.startGateway(s, dir, nil,
		"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--inh-caps=-all", "--ambient-caps=-all",
		"--bounding-set=-all", "--no-new-privs", "--pdeathsig", "KILL", binary, "gateway", "--config", file)
}

// folder creates a directory for the files of one gateway, which every user may enter.
func (r *Rig) folder(t *topology, s *site) (string, error) {
	dir := filepath.Join(r.dir, fmt.Sprintf("%s-%s", t.subject, s.Name))
	return dir, os.MkdirAll(dir, 0o755)
}

// straitConfig returns the configuration of a site's gateway, without its private key.
func straitConfig(s, other *site, encapsulation string, shape straitShape, peer config.Key) *config.Gateway {
	outer := 0
	if shape.v6 {
		outer = 1
	}
	c := s.Config(netns.TunnelPorts["geneve"], config.WireGuard{ListenPort: straitPort, Peers: []config.Peer{{
		Name: other.Name + "-0", PublicKey: peer, PersistentKeepalive: 25 * time.Second,
		Endpoint: netip.AddrPortFrom(other.wan[outer], straitPort).String(),
	}}})
	c.Observability.Listen = config.ListenAddress{Addr: netip.MustParseAddr("127.0.0.1"), Port: 8080}
	o := &c.Overlay
	o.MTU = 0
	o.Listen.Addr = s.gwUnderlay[outer]
	o.VXLANListen = config.ListenAddress{Addr: s.gwUnderlay[outer], Port: netns.TunnelPorts["vxlan"]}
	o.Nodes[0].Underlay, o.Nodes[0].VNI = s.nodeUnderlay[outer], vni
	o.Nodes = append(o.Nodes, extraNodes(shape.extraNodes)...)
	for i := range o.Nodes {
		o.Nodes[i].Encapsulation = config.Encapsulation(encapsulation)
	}
	return c
}

// addIdlePeers adds peers that never connect.
func addIdlePeers(c *config.Gateway, keys []keyPair) {
	for i, k := range keys {
		c.WireGuard.Peers = append(c.WireGuard.Peers, config.Peer{Name: fmt.Sprintf("idle-%d", i), PublicKey: k.public})
	}
}

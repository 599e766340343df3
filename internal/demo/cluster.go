package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip/link/pipe"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/internal/plan"
)

// cluster is a cluster with one pod on one node, and its gateway.
type cluster struct {
	plan.Cluster
	pod       *host
	node      *node
	overlay   *overlaySocket
	gateway   *daemon.Daemon
	wireGuard netip.AddrPort // endpoint of its gateway
}

// startCluster starts a cluster whose gateway has the given private key and peer.
func startCluster(p plan.Cluster, privateKeyFile string, peer config.Peer, log *slog.Logger) (c *cluster, err error) {
	c = &cluster{Cluster: p}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cluster %s: %w", p.Name, errors.Join(err, c.close()))
			c = nil
		}
	}()
	w := config.WireGuard{PrivateKeyFile: privateKeyFile, Peers: []config.Peer{peer}}
	if err := c.startGateway(w, log); err != nil {
		return c, err
	}
	var podLink *pipe.Endpoint
	if c.node, podLink, err = newNode(&c.Cluster, c.overlay); err != nil {
		return c, err
	}
	if c.pod, err = newHost(); err != nil {
		return c, err
	}
	return c, c.pod.attach(podLink, p.Address)
}

// startGateway starts the gateway and the node's overlay socket on one port number.
func (c *cluster) startGateway(w config.WireGuard, log *slog.Logger) error {
	err := plan.Retry(func() (err error) {
		if w.ListenPort, err = plan.FreeUDP(); err != nil {
			return err
		}
		if c.overlay, err = openOverlay(c.NodeUnderlay, c.GatewayUnderlay, c.VNI); err != nil {
			return err
		}
		settings := c.Config(c.overlay.port(), w)
		if err := settings.Validate(); err != nil {
			return err
		}
		if c.gateway, err = daemon.Start(settings, daemon.Options{Log: log}); err != nil {
			c.overlay.close()
			c.overlay = nil
			return fmt.Errorf("start the gateway: %w", err)
		}
		return nil
	})
	c.wireGuard = netip.AddrPortFrom(c.GatewayUnderlay, w.ListenPort)
	return err
}

func (c *cluster) close() error {
	var err error
	if c.gateway != nil {
		err = c.gateway.Close()
	}
	if c.overlay != nil {
		c.overlay.close()
	}
	if c.node != nil {
		c.node.close()
	}
	if c.pod != nil {
		c.pod.close()
	}
	return err
}

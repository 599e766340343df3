package demo

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"syscall"

	"gvisor.dev/gvisor/pkg/tcpip/link/pipe"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/internal/freeport"
)

// portAttempts is how often the gateway is started on a new port because another
// process took the port that was free.
const portAttempts = 10

// cluster is a cluster with one pod on one node, and its gateway.
type cluster struct {
	plan
	pod       *host
	node      *node
	overlay   *overlaySocket
	gateway   *daemon.Daemon
	wireGuard netip.AddrPort // endpoint of its gateway
}

// startCluster starts a cluster whose gateway has the given private key and peer.
func startCluster(p plan, privateKeyFile, remote string, peer config.Peer, log *slog.Logger) (c *cluster, err error) {
	c = &cluster{plan: p}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cluster %s: %w", p.name, errors.Join(err, c.close()))
			c = nil
		}
	}()
	w := config.WireGuard{PrivateKeyFile: privateKeyFile, Peers: []config.Peer{peer}}
	if err := c.startGateway(remote, w, log); err != nil {
		return c, err
	}
	var podLink *pipe.Endpoint
	if c.node, podLink, err = newNode(&c.plan, c.overlay); err != nil {
		return c, err
	}
	if c.pod, err = newHost(); err != nil {
		return c, err
	}
	return c, c.pod.attach(podLink, p.address)
}

// startGateway starts the gateway and the node's overlay socket, which use the
// same port number.
func (c *cluster) startGateway(remote string, w config.WireGuard, log *slog.Logger) error {
	for attempt := 1; ; attempt++ {
		var err error
		if w.ListenPort, err = freeport.UDP(); err != nil {
			return err
		}
		if c.overlay, err = openOverlay(c.nodeUnderlay, c.gatewayUnderlay, c.vni); err != nil {
			return err
		}
		settings := c.config(remote, c.overlay.port(), w)
		if err := settings.Validate(); err != nil {
			return err
		}
		c.gateway, err = daemon.Start(settings, daemon.Options{Log: log})
		if err == nil {
			c.wireGuard = netip.AddrPortFrom(c.gatewayUnderlay, w.ListenPort)
			return nil
		}
		c.overlay.close()
		c.overlay = nil
		if attempt == portAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("start the gateway: %w", err)
		}
	}
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

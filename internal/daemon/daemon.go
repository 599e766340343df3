package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/tun"
	"strait.dev/strait/underlay"
)

// Daemon is one running gateway. Safe for concurrent use.
type Daemon struct {
	log     *slog.Logger
	fabric  *tun.Fabric
	rtt     *rttHistogram
	quiet   quiet // what the fabric has to say
	started time.Time
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu        sync.Mutex // one change at a time
	config    *config.Gateway
	public    config.Key // the default of its own
	announced int        // inner MTU that the remote announced, 0 = none yet
}

// Options of a gateway that are no part of its configuration.
type Options struct {
	Log *slog.Logger
	// Sockets may do without what the kernel offers, where it offers it broken.
	Sockets underlay.Options
	// Labels are those that all metrics of the gateway get in addition to their own. Only a Process
	// has metrics.
	Labels map[string]string
	// Socket is where a unix socket is made for strait capture and strait trace; empty:
	// none. Only a Process has one.
	Socket string
}

// Start runs a gateway on a valid configuration. Key files are read; nothing
// else is. Close it to end it.
func Start(c *config.Gateway, o Options) (*Daemon, error) {
	secrets, err := readKeys(c)
	if err != nil {
		return nil, err
	}
	overlay, err := tun.OpenOverlay(tun.OverlayConfig{
		Geneve:  addrPort(c.Overlay.Listen),
		VXLAN:   addrPort(c.Overlay.VXLANListen),
		Options: o.Sockets,
	})
	if err != nil {
		return nil, err
	}
	d := &Daemon{log: o.Log, quiet: newQuiet(o.Log.Handler()), rtt: newRTTHistogram(), started: time.Now(), config: c, public: secrets.public}
	mtu, err := deriveMTU(c, 0)
	if err != nil {
		return nil, errors.Join(err, overlay.Close())
	}
	table, err := newTable(c, mtu, overlay)
	if err != nil {
		return nil, errors.Join(err, overlay.Close())
	}
	g := gateway.New(table)
	g.SetFlows(newFlows(c, nil))
	d.fabric, err = tun.Open(g, overlay, tun.Options{
		Underlay:    o.Sockets,
		Log:         slog.New(d.quiet),
		ObserveRTT:  d.rtt.observe,
		AnnounceMTU: d.remoteMTU,
	})
	if err != nil {
		return nil, err
	}
	if err := d.fabric.SetLinks(linkConfigs(c, secrets)); err != nil {
		return nil, errors.Join(err, d.fabric.Close())
	}
	d.setMappings(c)
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.done.Go(func() { d.expireFlows(ctx) })
	o.Log.Info("gateway runs", "cluster", c.Cluster, "remote", c.Remote.Cluster, "nodes", table.NodeCount(),
		"routes", table.RouteCount(), "mtu", mtu.Tunnel, "geneve", c.Overlay.Listen.String(),
		"vxlan", c.Overlay.VXLANListen.String(), "wireguard", c.WireGuard.ListenPort, "publicKey", secrets.public.String())
	return d, nil
}

// Apply changes the running gateway to another valid configuration, without a
// pause: packets are decided by the old table or by the new one. Key files are read
// again: links whose keys have changed are replaced. On an error the gateway goes on
// as it was.
func (d *Daemon) Apply(c *config.Gateway) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := needsRestart(d.config, c); err != nil {
		return err
	}
	secrets, err := readKeys(c)
	if err != nil {
		return err
	}
	mtu, err := deriveMTU(c, d.announced)
	if err != nil {
		return err
	}
	table, err := newTable(c, mtu, d.fabric.Overlay)
	if err != nil {
		return err
	}
	if err := d.fabric.SetLinks(linkConfigs(c, secrets)); err != nil {
		return err
	}
	if d.config = c; d.public != secrets.public {
		d.public = secrets.public
		d.log.Info("gateway has another key", "publicKey", d.public.String())
	}
	d.setMappings(c)
	d.setTable(table, newFlows(c, d.fabric.Gateway.Flows()))
	return d.fabric.Refresh()
}

// setMappings makes the host serve the mappings. One that it refuses keeps the others from
// nothing.
func (d *Daemon) setMappings(c *config.Gateway) {
	if err := d.fabric.SetMappings(c.Mappings); err != nil {
		d.log.Error("some address mappings are not served", "error", err)
	}
}

// needsRestart refuses changes of what sockets are bound to.
func needsRestart(old, new *config.Gateway) error {
	for _, f := range []struct {
		name    string
		changed bool
	}{
		{"overlay.listen", old.Overlay.Listen != new.Overlay.Listen},
		{"overlay.vxlanListen", old.Overlay.VXLANListen != new.Overlay.VXLANListen},
		{"wireguard.listenPort", old.WireGuard.ListenPort != new.WireGuard.ListenPort},
		{"observability.listen", old.Observability.Listen != new.Observability.Listen},
	} {
		if f.changed {
			return fmt.Errorf("%s has changed: it cannot change while the gateway runs; restart the gateway, or put the old value back", f.name)
		}
	}
	return nil
}

// remoteMTU follows what the remote announces.
func (d *Daemon) remoteMTU(announced int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.announced = announced
	mtu, err := deriveMTU(d.config, announced)
	if err != nil {
		d.log.Warn("cannot derive the MTU; keeping the last", "error", err)
		return
	}
	if mtu.Tunnel == d.fabric.Gateway.Table().MTU() {
		return
	}
	table, err := newTable(d.config, mtu, d.fabric.Overlay)
	if err == nil {
		d.fabric.Gateway.SetTable(table)
		err = d.fabric.Refresh()
	}
	if err != nil {
		d.log.Warn("cannot change the MTU; keeping the last", "error", err)
		return
	}
	d.log.Info("inner MTU follows the remote cluster's", "mtu", mtu.Tunnel, "announced", announced)
}

// newTable builds a table whose nodes the overlay can send to.
func newTable(c *config.Gateway, mtu gateway.MTUs, o *tun.Overlay) (*gateway.Table, error) {
	for _, n := range c.Overlay.Nodes {
		if !o.Serves(n.Underlay) {
			return nil, fmt.Errorf("node %s: no socket can reach %v: overlay.listen is of the other address family; listen on \":%d\" for both", n.Name, n.Underlay, c.Overlay.Listen.Port)
		}
	}
	t, err := gateway.NewTable(c, mtu, o.Handle)
	if err == nil {
		t.KeepOut(gateway.Tunnel{Addresses: machineAddresses(), Port: c.WireGuard.ListenPort})
	}
	return t, err
}

func linkConfigs(c *config.Gateway, k *keys) []tun.LinkConfig {
	allowed := make([]netip.Prefix, len(c.Remote.Prefixes))
	for i, p := range c.Remote.Prefixes {
		allowed[i] = p.CIDR
	}
	links := make([]tun.LinkConfig, len(c.WireGuard.Peers))
	for i, p := range c.WireGuard.Peers {
		links[i] = tun.LinkConfig{
			Name:         p.Name,
			Gateway:      p.Gateway,
			PrivateKey:   k.own[i],
			PublicKey:    device.NoisePublicKey(p.PublicKey),
			PresharedKey: k.preshared[i],
			ListenPort:   c.WireGuard.ListenPort,
			Endpoints:    p.Endpoints(),
			Keepalive:    p.PersistentKeepalive,
			Allowed:      slices.Clone(allowed),
		}
	}
	return links
}

// addrPort is a listen address as tun wants it: port 0 is off, an invalid
// address all.
func addrPort(l config.ListenAddress) netip.AddrPort { return netip.AddrPortFrom(l.Addr, l.Port) }

// Fabric is what the gateway runs on, for those who want to look at it.
func (d *Daemon) Fabric() *tun.Fabric { return d.fabric }

// Close ends the gateway and waits for its goroutines.
func (d *Daemon) Close() error {
	d.stop()
	d.done.Wait()
	return d.fabric.Close()
}

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
	"strait.dev/strait/relay"
	"strait.dev/strait/tun"
	"strait.dev/strait/underlay"
)

// Daemon is a running gateway. Safe for concurrent use.
type Daemon struct {
	log     *slog.Logger
	fabric  *tun.Fabric
	rtt     *rttHistogram
	totals  linkTotals
	quiet   quiet // log handler for what the remote cluster and unknown senders cause
	started time.Time
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu        sync.Mutex // one change at a time
	config    *config.Gateway
	public    config.Key // public key of wireguard.privateKeyFile
	announced int        // inner MTU that the remote announced or that the path carries, 0 = not known yet
}

// Options of a gateway that are not part of its configuration.
type Options struct {
	Log *slog.Logger
	// Sockets can disable kernel features that are broken on this machine.
	Sockets underlay.Options
	// Labels are added to all metrics of the gateway. Only a Process has metrics.
	Labels map[string]string
	// Socket is the path of the unix socket for strait capture and strait trace; empty: none. Only a Process has one.
	Socket string
	// LinksChanged is called when links have gone up or down. It must not wait.
	LinksChanged func()
	// Dial opens connections to proxied pods and the targets of mappings. Nil: this machine does.
	Dial relay.Dialer
}

// Start runs a gateway with a valid configuration. It reads the key files and no other files. Close ends it.
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
	g := gateway.New(table, random())
	g.SetFlows(newFlows(c, nil))
	d.fabric, err = tun.Open(g, overlay, tun.Options{
		Underlay:     o.Sockets,
		Log:          slog.New(d.quiet),
		ObserveRTT:   d.rtt.observe,
		AnnounceMTU:  d.remoteMTU,
		LinksChanged: o.LinksChanged,
		Dial:         o.Dial,
	})
	if err != nil {
		return nil, err
	}
	if err := d.fabric.SetLinks(linkConfigs(c, secrets)); err != nil {
		return nil, errors.Join(err, d.fabric.Close())
	}
	d.setRelay(c)
	if err := d.fabric.Refresh(); err != nil {
		o.Log.Error("some address mappings are not served", "error", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.done.Go(func() { d.expireFlows(ctx) })
	o.Log.Info("gateway started", "cluster", c.Cluster, "remote", c.Remote.Cluster, "nodes", table.NodeCount(),
		"routes", table.RouteCount(), "mtu", mtu.Tunnel, "geneve", c.Overlay.Listen.String(),
		"vxlan", c.Overlay.VXLANListen.String(), "wireguard", c.WireGuard.ListenPort, "publicKey", secrets.public.String())
	return d, nil
}

// Apply changes the running gateway to another valid configuration without interrupting traffic: each packet is handled by the
// old table or by the new one. Key files are read again: links whose keys have changed are replaced. On an error the gateway
// keeps its configuration.
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
	d.rtt.retain(d.fabric.Status())
	if d.config = c; d.public != secrets.public {
		d.public = secrets.public
		d.log.Info("gateway uses a new key", "publicKey", d.public.String())
	}
	d.setRelay(c)
	d.setTable(table, newFlows(c, d.fabric.Gateway.Flows()))
	return d.fabric.Refresh()
}

// setRelay sets what the host serves. What cannot be served does not affect the rest.
func (d *Daemon) setRelay(c *config.Gateway) {
	if err := d.fabric.Relay.SetMappings(c.Mappings); err != nil {
		d.log.Error("some address mappings are not served", "error", err)
	}
	if err := d.fabric.Relay.SetProxy(c.Proxy); err != nil {
		d.log.Error("proxied prefixes are not served", "error", err)
	}
	if err := d.fabric.Relay.SetForwards(c.Forwards, c.Callers); err != nil {
		d.log.Error("some forwards are not served", "error", err)
	}
}

// needsRestart returns an error for a change that requires sockets to be bound again.
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
			return fmt.Errorf("%s has changed, which requires a restart; restart the gateway, or restore the old value", f.name)
		}
	}
	return nil
}

// remoteMTU applies an inner MTU that the remote announced or that the path carries.
func (d *Daemon) remoteMTU(announced int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.announced = announced
	log := slog.New(d.quiet) // the remote cluster may announce another one with each probe
	mtu, err := deriveMTU(d.config, announced)
	if err != nil {
		log.Warn("cannot derive the MTU; keeping the previous one", "error", err)
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
		log.Warn("cannot change the MTU; keeping the previous one", "error", err)
		return
	}
	log.Info("inner MTU adapted to the remote cluster and the path", "mtu", mtu.Tunnel, "announced", announced)
}

// newTable builds a table and checks that the overlay can send to all nodes.
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
	weights := linkWeights(&c.WireGuard)
	for i, p := range c.WireGuard.Peers {
		links[i] = tun.LinkConfig{
			Name:         p.Name,
			Gateway:      p.Gateway,
			PrivateKey:   k.own[i],
			PublicKey:    device.NoisePublicKey(p.PublicKey),
			PresharedKey: k.preshared[i],
			ListenPort:   c.WireGuard.ListenPort,
			Weight:       weights[p.RemoteGateway()],
			Endpoints:    p.Endpoints(),
			Keepalive:    p.PersistentKeepalive,
			Allowed:      slices.Clone(allowed),
		}
	}
	// Of the links that share a port, the first reads it for all: best the one with the most flows.
	slices.SortStableFunc(links, func(a, b tun.LinkConfig) int { return b.Weight - a.Weight })
	return links
}

// addrPort converts a listen address for tun: port 0 means disabled, an invalid address means all.
func addrPort(l config.ListenAddress) netip.AddrPort { return netip.AddrPortFrom(l.Addr, l.Port) }

func (d *Daemon) forwardedOfNodes() (packets uint64) {
	egress := []*gateway.Counters{d.fabric.Counters().Fallback}
	for _, l := range d.fabric.Status() {
		egress = append(egress, l.Egress)
	}
	return sum(egress).packets
}

// Fabric returns the fabric of the gateway, for inspection.
func (d *Daemon) Fabric() *tun.Fabric { return d.fabric }

// Close ends the gateway and waits for its goroutines.
func (d *Daemon) Close() error {
	d.stop()
	d.done.Wait()
	return d.fabric.Close()
}

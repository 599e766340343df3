package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/capture"
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/packet"
	"strait.dev/strait/tun"
)

// sight is a capture point: a gateway.Stage as an interface of the file.
type sight struct {
	stage string
	at    gateway.Stage
	capture.Interface
}

var sights = []sight{
	{"inner", gateway.FromNode, capture.Interface{Name: "inner-from-node", Description: "IP packets of this cluster, as sent, before translation"}},
	{"inner", gateway.IntoNode, capture.Interface{Name: "inner-to-node", Description: "IP packets to this cluster, as received, after translation", Outbound: true}},
	{"tunnel", gateway.IntoTunnel, capture.Interface{Name: "tunnel-out", Description: "IP packets into WireGuard, after translation", Outbound: true}},
	{"tunnel", gateway.FromTunnel, capture.Interface{Name: "tunnel-in", Description: "IP packets out of WireGuard, before translation"}},
	{"overlay", gateway.OverlayIn, capture.Interface{Name: "overlay-from-node", Description: "Geneve or VXLAN from nodes", Datagrams: true}},
	{"overlay", gateway.OverlayOut, capture.Interface{Name: "overlay-to-node", Description: "Geneve or VXLAN to nodes", Outbound: true, Datagrams: true}},
	{"wireguard", gateway.WireGuardOut, capture.Interface{Name: "wireguard-out", Description: "encrypted, to the remote cluster", Outbound: true, Datagrams: true}},
	{"wireguard", gateway.WireGuardIn, capture.Interface{Name: "wireguard-in", Description: "encrypted, from the remote cluster", Datagrams: true}},
}

const (
	// captureInterval is how often a capture reads its ring: the packet path does not wake it.
	captureInterval = 5 * time.Millisecond
	// lossInterval is the minimum time between two reports of lost packets.
	lossInterval = time.Second
	// maxCaptures is the maximum number of concurrent captures: each uses 8 MiB and costs time per packet.
	maxCaptures = 4
)

// capturing counts the running captures of this process.
var capturing atomic.Int32

func sightsOf(c localsocket.CaptureRequest) (found []sight, err error) {
	for _, stage := range c.Stages {
		if !slices.Contains(localsocket.CaptureStages, stage) {
			return nil, fmt.Errorf("unknown stage %q; choose from %s", stage, strings.Join(localsocket.CaptureStages, ", "))
		}
	}
	for _, s := range sights {
		if slices.Contains(c.Stages, s.stage) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no stage given; choose from %s", strings.Join(localsocket.CaptureStages, ", "))
	}
	return found, nil
}

// serveCapture writes a pcapng file until the request's body ends.
func serveCapture(d *Daemon, w http.ResponseWriter, r *http.Request) {
	c, err := localsocket.ReadCapture(r.URL.Query())
	var filter capture.Filter
	if err == nil {
		filter, err = capture.ParseFilter(c.Filter)
	}
	var at []sight
	if err == nil {
		at, err = sightsOf(c)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer capturing.Add(-1)
	if capturing.Add(1) > maxCaptures {
		http.Error(w, fmt.Sprintf("%d captures are running already; end one of them", maxCaptures), http.StatusTooManyRequests)
		return
	}
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, r.Body) // only its end matters, also an error
		stop()
	}()
	defer func() {
		_ = control.SetReadDeadline(time.Now()) // makes Copy return
		<-gone
	}()

	interfaces := make([]capture.Interface, len(at))
	places := make([]gateway.Stage, len(at))
	for i, s := range at {
		interfaces[i], places[i] = s.Interface, s.at
	}
	recorder := capture.NewRecorder(interfaces, filter, c.Snap, c.Packets)
	remove := d.fabric.Tap(d.tapInto(recorder, places), places...)
	defer remove()
	context.AfterFunc(ctx, remove) // at once, so that no packets are added after it
	d.log.Info("capture started", "stages", c.Stages, "filter", c.Filter)
	defer d.log.Info("capture ended", "stages", c.Stages, "filter", c.Filter)
	_ = record(ctx, recorder, func(b []byte) error { // an error means that the client has disconnected
		if _, err := w.Write(b); err != nil {
			return err
		}
		return control.Flush()
	})
}

// record writes the packets of a recorder, until it is done or ctx ends.
func record(ctx context.Context, r *capture.Recorder, write func([]byte) error) error {
	tick := time.NewTicker(captureInterval)
	defer tick.Stop()
	told := time.Now()
	b := r.AppendBeginning(nil)
	for {
		if err := write(b); err != nil {
			return err
		}
		ended := ctx.Err() != nil // before Append, so that all packets until then are in the file
		var more bool
		b, more = r.Append(b[:0])
		now := time.Now()
		switch {
		case r.Done() || ended && !more:
			return write(r.AppendStatistics(b, now))
		case r.LostMore() && now.Sub(told) >= lossInterval:
			b, told = r.AppendStatistics(b, now), now
		}
		if len(b) == 0 {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
}

// tapInto returns a tap that records packets at these stages, as interfaces in this order.
func (d *Daemon) tapInto(r *capture.Recorder, places []gateway.Stage) tun.Tap {
	var in [256]int // interface by place
	for i, at := range places {
		in[at] = i
	}
	overlay, wireguard := d.localAddresses()
	return func(at gateway.Stage, local, remote netip.AddrPort, head, body []byte) {
		now := time.Now()
		switch at {
		case gateway.OverlayIn:
			r.Datagram(in[at], now, remote, overlay.known(local), head, body)
		case gateway.OverlayOut:
			r.Datagram(in[at], now, overlay.known(local), remote, head, body)
		case gateway.WireGuardIn:
			r.Datagram(in[at], now, remote, wireguard.known(local), head, body)
		case gateway.WireGuardOut:
			r.Datagram(in[at], now, wireguard.known(local), remote, head, body)
		default:
			r.Packet(in[at], now, body)
		}
	}
}

// ownAddresses are this machine's IPv4 and IPv6 source addresses; a zero one is unknown.
type ownAddresses [2]netip.Addr

// known returns a local endpoint with the address that the kernel chooses for it.
func (o *ownAddresses) known(local netip.AddrPort) netip.AddrPort {
	if !local.Addr().IsUnspecified() {
		return local
	}
	family := packet.FamilyIndex(local.Addr())
	if !o[family].IsValid() {
		return local
	}
	return netip.AddrPortFrom(o[family], local.Port())
}

// localAddresses returns the source addresses that the kernel chooses towards nodes and towards the remote cluster.
func (d *Daemon) localAddresses() (overlay, wireguard ownAddresses) {
	d.mu.Lock()
	nodes := d.config.Overlay.Nodes
	d.mu.Unlock()
	for _, n := range nodes {
		overlay.learn(n.Underlay)
	}
	for _, l := range d.fabric.Status() {
		wireguard.learn(l.Endpoint.Addr())
	}
	for _, distant := range outside {
		overlay.learn(distant)
		wireguard.learn(distant)
	}
	return overlay, wireguard
}

// learn finds the source address towards an address, unless that of its family is known.
func (o *ownAddresses) learn(to netip.Addr) {
	if family := packet.FamilyIndex(to); to.IsValid() && !o[family].IsValid() {
		o[family] = sourceTowards(to)
	}
}

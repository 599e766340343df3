package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/capture"
	"strait.dev/strait/packet"
	"strait.dev/strait/tun"
)

// CaptureStages are where packets can be captured, in the order of a packet's journey.
var CaptureStages = []string{"inner", "tunnel", "overlay", "wireguard"}

// sight is a place of a stage, as an interface of the file.
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
	// captureInterval is how often a capture looks for packets: nothing on the packet path
	// wakes it.
	captureInterval = 5 * time.Millisecond
	// lossInterval is how often it tells that it loses some.
	lossInterval = time.Second
	// maxCaptures at once: each holds 8 MiB, and costs every packet something.
	maxCaptures = 4
)

// capturing counts the captures under way in this process.
var capturing atomic.Int32

// CaptureRequest asks a gateway for a capture.
type CaptureRequest struct {
	Stages  []string // of CaptureStages
	Filter  string   // as capture.ParseFilter reads it
	Snap    int      // bytes of each packet; 0: all
	Packets int      // how many; 0: any number
}

func (c CaptureRequest) query() string {
	return url.Values{
		"stage": c.Stages, "filter": {c.Filter}, "snap": {strconv.Itoa(c.Snap)}, "packets": {strconv.Itoa(c.Packets)},
	}.Encode()
}

// sights are the places that the request is about.
func (c CaptureRequest) sights() (found []sight, err error) {
	for _, stage := range c.Stages {
		if !slices.Contains(CaptureStages, stage) {
			return nil, fmt.Errorf("no stage %q; choose of %s", stage, strings.Join(CaptureStages, ", "))
		}
	}
	for _, s := range sights {
		if slices.Contains(c.Stages, s.stage) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no stage; choose of %s", strings.Join(CaptureStages, ", "))
	}
	return found, nil
}

// readCapture is what query wrote.
func readCapture(q url.Values) (c CaptureRequest, err error) {
	c.Stages, c.Filter = q["stage"], q.Get("filter")
	var errs [2]error
	c.Snap, errs[0] = strconv.Atoi(q.Get("snap"))
	c.Packets, errs[1] = strconv.Atoi(q.Get("packets"))
	return c, errors.Join(errs[:]...)
}

// Capture begins a capture in the gateway behind a socket. What is read, until io.EOF, is
// a pcapng file. The capture ends when until does, and with it the file; closing it ends
// it too.
func Capture(ctx context.Context, socket string, c CaptureRequest, until io.Reader) (io.ReadCloser, error) {
	return CallSocket(ctx, socket, "/capture?"+c.query(), until)
}

// serveCapture writes a pcapng file for as long as the request's body goes on.
func serveCapture(d *Daemon, w http.ResponseWriter, r *http.Request) {
	c, err := readCapture(r.URL.Query())
	var filter capture.Filter
	if err == nil {
		filter, err = capture.ParseFilter(c.Filter)
	}
	var at []sight
	if err == nil {
		at, err = c.sights()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer capturing.Add(-1)
	if capturing.Add(1) > maxCaptures {
		http.Error(w, fmt.Sprintf("%d captures are under way already; end one of them", maxCaptures), http.StatusTooManyRequests)
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
		_, _ = io.Copy(io.Discard, r.Body) // its end is all that it has to say, also by an error
		stop()
	}()
	defer func() {
		_ = control.SetReadDeadline(time.Now()) // ends Copy
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
	context.AfterFunc(ctx, remove) // at once, so that what waits then is all
	d.log.Info("capture begins", "stages", c.Stages, "filter", c.Filter)
	defer d.log.Info("capture ends", "stages", c.Stages, "filter", c.Filter)
	_ = record(ctx, recorder, func(b []byte) error { // an error: whoever asked is gone
		if _, err := w.Write(b); err != nil {
			return err
		}
		return control.Flush()
	})
}

// record writes what a recorder has, until it is done or ctx ends.
func record(ctx context.Context, r *capture.Recorder, write func([]byte) error) error {
	tick := time.NewTicker(captureInterval)
	defer tick.Stop()
	told := time.Now()
	b := r.AppendBeginning(nil)
	for {
		if err := write(b); err != nil {
			return err
		}
		ended := ctx.Err() != nil // before Append: what was seen until then is in the file
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

// tapInto is a tap that records what is seen at some places, in this order.
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

// ownAddresses are this machine's, in IPv4 and IPv6, towards others. A zero one is not
// known.
type ownAddresses [2]netip.Addr

// known is a socket's end with the address that the kernel chooses for it.
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

// localAddresses are those that the kernel chooses towards nodes and towards the remote
// cluster.
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
	for _, anybody := range documentation {
		overlay.learn(anybody)
		wireguard.learn(anybody)
	}
	return overlay, wireguard
}

// documentation addresses (RFC 5737, RFC 3849) are on no network: towards them, the kernel
// chooses as it does towards anybody far away.
var documentation = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}

// learn asks the kernel which address it would send from, unless one of that family is
// known. No packet is sent.
func (o *ownAddresses) learn(to netip.Addr) {
	family := packet.FamilyIndex(to)
	if !to.IsValid() || o[family].IsValid() {
		return
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err != nil {
		return
	}
	defer c.Close()
	o[family] = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

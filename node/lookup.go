//go:build linux

package node

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"strait.dev/strait/node/userspace"
)

// FindWay looks up the route for packets to an address in the calling thread's network
// namespace, from an address of a pod or, if that is the zero Addr, from the node itself.
// It changes nothing. What blocks the packets is part of the result, not an error.
func FindWay(to, from netip.Addr) (Way, error) {
	k, err := openReading()
	if err != nil {
		return Way{}, err
	}
	defer k.Close()
	var s State
	if err := errors.Join(k.readLinks(&s), k.readNexthops(&s), k.readRoutes(&s), k.readRules(&s)); err != nil {
		return Way{}, fmt.Errorf("node: read Strait's configuration: %w", err)
	}
	s.sort()
	w := Way{To: to, From: from, Rule: s.Rules[familyOf(to)], Sources: k.sourcesSeen()}
	w.Range, w.Blackhole, w.Gateways = s.rangeOf(to)
	policy, known := readSetting("net.ipv4.fib_multipath_hash_policy")
	w.Any = len(w.Gateways) > 1 && !(to.Is4() && known && policy == 0)
	if err := k.find(&w); err != nil {
		return w, err
	}
	for _, l := range s.Links {
		if l.Name == w.Device {
			w.Overlay = k.overlay(l)
		}
	}
	return w, nil
}

// openReading opens what reading needs in the calling thread's network namespace, except for the
// nftables table. It needs no privilege.
func openReading() (*Kernel, error) {
	k := &Kernel{home: namespace{fd: -1}, userspace: userspace.New(Userspace.port(), userspace.Grace)}
	var errs [3]error
	k.routes, errs[0] = netlink.NewHandle(unix.NETLINK_ROUTE)
	k.raw, errs[1] = dialRouting()
	k.nexthops.conn, errs[2] = dialRouting()
	if err := errors.Join(errs[:]...); err != nil {
		k.Close()
		return nil, fmt.Errorf("node: open the kernel: %w", err)
	}
	return k, nil
}

// sourcesSeen returns the state of the nftables table, which needs a privilege to read.
func (k *Kernel) sourcesSeen() string {
	var err error
	if k.tables, err = openTables(); err != nil {
		k.tables = nil
		return SourcesHidden
	}
	switch fingerprint, err := k.observeTable(); {
	case err != nil:
		return SourcesHidden
	case fingerprint == "":
		return SourcesMissing
	case fingerprint == damagedTable:
		return SourcesDamaged
	}
	return SourcesKept
}

// rangeOf returns the longest of Strait's routed prefixes that contains an address, whether
// only a blackhole exists for it, and otherwise the gateways over which its flows are spread.
func (s State) rangeOf(a netip.Addr) (longest netip.Prefix, blackhole bool, gateways []netip.Addr) {
	for _, r := range s.Routes { // the routes of a prefix are adjacent
		switch {
		case !r.Prefix.Contains(a) || longest.IsValid() && r.Prefix.Bits() < longest.Bits():
		case r.Prefix == longest:
			blackhole = blackhole && r.blackhole()
			gateways = append(gateways, s.gatewaysOf(r)...)
		default:
			longest, blackhole, gateways = r.Prefix, r.blackhole(), s.gatewaysOf(r)
		}
	}
	return longest, blackhole, gateways
}

func (s State) gatewaysOf(r KernelRoute) (all []netip.Addr) {
	for _, h := range r.Hops {
		all = append(all, h.Via)
	}
	for _, g := range s.Groups {
		for _, n := range s.Nexthops {
			if g.ID == r.Group && slices.Contains(g.Members, n.ID) {
				all = append(all, n.Via)
			}
		}
	}
	return all
}

// find looks up the route from the source, or from the node itself.
func (k *Kernel) find(w *Way) error {
	options := &netlink.RouteGetOptions{}
	if w.From.IsValid() {
		back, err := k.routes.RouteGet(w.From.AsSlice())
		switch {
		case err != nil || len(back) == 0:
			w.Refused = fmt.Sprintf("the node has no route to the source %v", w.From)
			return nil
		case back[0].Type == unix.RTN_LOCAL:
			w.From = netip.Addr{} // its own address
		default:
			options.IifIndex, options.SrcAddr = back[0].LinkIndex, w.From.AsSlice()
			if w.Input, err = k.deviceName(back[0].LinkIndex); err != nil {
				return err
			}
		}
	}
	found, err := k.routes.RouteGetWithOptions(w.To.AsSlice(), options)
	if refused, is := refusal(err); is {
		w.Refused = refused
		return nil
	}
	if err != nil || len(found) == 0 {
		return fmt.Errorf("node: look up the route to %v: %w", w.To, err)
	}
	r := found[0]
	w.Local, w.Via, w.Table, w.MTU = r.Type == unix.RTN_LOCAL, addressOf(r.Gw), r.Table, r.MTU
	if w.Input == "" {
		w.Source = addressOf(r.Src)
	}
	device, err := k.routes.LinkByIndex(r.LinkIndex)
	if err != nil {
		return fmt.Errorf("node: look up the device to %v: %w", w.To, err)
	}
	w.Device = device.Attrs().Name
	if w.MTU == 0 {
		w.MTU = device.Attrs().MTU
	}
	return nil
}

func (k *Kernel) deviceName(index int) (string, error) {
	device, err := k.routes.LinkByIndex(index)
	if err != nil {
		return "", fmt.Errorf("node: device %d: %w", index, err)
	}
	return device.Attrs().Name, nil
}

func refusal(err error) (why string, is bool) {
	for number, why := range map[unix.Errno]string{
		unix.EINVAL:       "the kernel drops such packets: a blackhole route, an address that is not a unicast address, or the reverse path filter",
		unix.ENETUNREACH:  "the node has no route to it",
		unix.EHOSTUNREACH: "a route of the node marks it as unreachable",
		unix.EACCES:       "a route of the node prohibits it",
		unix.EXDEV:        "the reverse path filter of the device drops such packets",
	} {
		if errors.Is(err, number) {
			return why, true
		}
	}
	return "", false
}

// overlay returns the encapsulation of one of Strait's links.
func (k *Kernel) overlay(l Link) *WayOverlay {
	o := &WayOverlay{Encapsulation: l.Encapsulation, Up: l.Up, VNI: l.VNI, Gateway: l.Underlay}
	if l.Encapsulation == VXLAN && len(l.Forwarding) > 0 {
		o.Gateway = l.Forwarding[0].Underlay
	}
	if !o.Gateway.IsValid() {
		return o
	}
	if there, err := k.routes.RouteGet(o.Gateway.AsSlice()); err == nil && len(there) > 0 {
		o.Source = addressOf(there[0].Src)
	}
	return o
}

//go:build linux

package node

import (
	"fmt"
	"net/netip"

	mdlayher "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Observe reads Strait's configuration. If other programs change it meanwhile, its parts
// may be inconsistent; their notifications cause another reading.
func (k *Kernel) Observe() (State, error) {
	var s State
	for _, read := range []struct {
		what string
		do   func(*State) error
	}{{"links", k.readLinks}, {"nexthops", k.readNexthops}, {"routes", k.readRoutes}, {"rules", k.readRules}, {"the nftables table", k.readTable}} {
		if err := read.do(&s); err != nil {
			return State{}, fmt.Errorf("node: read %s: %w%s", read.what, err, remedy(err))
		}
	}
	s.sort()
	return s, nil
}

// Routed returns the CIDRs of other clusters for which the kernel has routes of Strait. It must not
// be called while Keep runs.
func (k *Kernel) Routed() (all []netip.Prefix, err error) {
	var s State
	if err := k.readRoutes(&s); err != nil {
		return nil, fmt.Errorf("node: read routes: %w%s", err, remedy(err))
	}
	for _, r := range s.Routes {
		if r.blackhole() { // each has one
			all = append(all, r.Prefix)
		}
	}
	return all, nil
}

// observeFor reads Strait's configuration, and the destinations of other programs that
// concern a desired state.
func (k *Kernel) observeFor(d Desired) (State, error) {
	s, err := k.Observe()
	if err != nil {
		return State{}, err
	}
	if err := k.readDestinations(d, &s); err != nil {
		return State{}, fmt.Errorf("node: read routes of other programs: %w%s", err, remedy(err))
	}
	return s, nil
}

func (k *Kernel) readLinks(s *State) error {
	messages, err := k.raw.Execute(mdlayher.Message{
		Header: mdlayher.Header{Type: unix.RTM_GETLINK, Flags: mdlayher.Request | mdlayher.Dump},
		Data:   make([]byte, unix.SizeofIfInfomsg),
	})
	if err != nil {
		return err
	}
	k.links = map[string]int{}
	for _, m := range messages {
		link, err := netlink.LinkDeserialize(&unix.NlMsghdr{Type: uint16(m.Header.Type)}, m.Data)
		if err != nil {
			return err
		}
		name := link.Attrs().Name
		if !linkNames.MatchString(name) {
			continue
		}
		l := readLink(link)
		if tap, is := link.(*netlink.Tuntap); is {
			k.readTAP(tap, &l)
		}
		l.Loose = isLoose(m.Data[unix.SizeofIfInfomsg:])
		k.links[name] = link.Attrs().Index
		if err := k.readOn(link, &l); err != nil {
			return err
		}
		s.Links = append(s.Links, l)
	}
	k.userspace.Retain(k.links) // links deleted by other programs need no sockets
	return nil
}

// readLink converts a device, except a TAP device.
func readLink(device netlink.Link) Link {
	attributes := device.Attrs()
	l := Link{Name: attributes.Name, MTU: attributes.MTU, Up: attributes.RawFlags&unix.IFF_UP != 0}
	copy(l.MAC[:], attributes.HardwareAddr)
	switch d := device.(type) {
	case *netlink.Geneve:
		l.Encapsulation, l.VNI, l.Port, l.Underlay = Geneve, d.ID, d.Dport, addressOf(d.Remote)
	case *netlink.Vxlan:
		l.Encapsulation, l.VNI, l.Port, l.Underlay = VXLAN, uint32(d.VxlanId), uint16(d.Port), addressOf(d.Group)
	}
	return l
}

// readOn reads the configuration of a link. Link-local addresses belong to the kernel.
func (k *Kernel) readOn(device netlink.Link, l *Link) error {
	addresses, err := k.routes.AddrList(device, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if ip := addressOf(a.IP); !ip.IsLinkLocalUnicast() {
			l.Addresses = append(l.Addresses, ip)
		}
	}
	index := device.Attrs().Index
	for _, f := range families {
		neighbours, err := k.routes.NeighList(index, f.number())
		if err != nil {
			return err
		}
		for _, n := range neighbours {
			if n.State == netlink.NUD_PERMANENT && len(n.HardwareAddr) == len(MAC{}) {
				l.Neighbours = append(l.Neighbours, Neighbour{addressOf(n.IP), MAC(n.HardwareAddr)})
			}
		}
	}
	if l.Encapsulation != VXLAN {
		return nil
	}
	entries, err := k.routes.NeighList(index, unix.AF_BRIDGE)
	if err != nil {
		return err
	}
	for _, n := range entries {
		if to := addressOf(n.IP); to.IsValid() && len(n.HardwareAddr) == len(MAC{}) {
			l.Forwarding = append(l.Forwarding, Forwarding{MAC(n.HardwareAddr), to})
		}
	}
	return nil
}

func (k *Kernel) readRules(s *State) error {
	for _, f := range families {
		rules, err := k.routes.RuleListFiltered(f.number(), &netlink.Rule{Table: routeTable, Priority: RulePriority},
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PRIORITY)
		if err != nil {
			return err
		}
		for _, r := range rules {
			s.Rules[f] = s.Rules[f] || r.Protocol == routeProtocol
		}
	}
	return nil
}

func (k *Kernel) readTable(s *State) (err error) {
	s.Table, err = k.observeTable()
	return err
}

// addressOf returns the zero Addr if ip is not an address.
func addressOf(ip []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

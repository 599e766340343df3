//go:build linux

package node

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func (k *Kernel) addLink(l Link) error {
	if l.Encapsulation == Userspace {
		return k.addTAP(l)
	}
	if err := k.routes.LinkAdd(l.device()); err != nil {
		return err
	}
	return k.added(l.Name)
}

// added records the index of a new link.
func (k *Kernel) added(name string) error {
	link, err := k.routes.LinkByName(name)
	if err != nil {
		return err
	}
	k.links[name] = link.Attrs().Index
	return nil
}

// device returns the link as a type of the netlink library.
func (l Link) device() netlink.Link {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = l.Name, l.MTU
	attributes.HardwareAddr = l.MAC[:]
	if l.Encapsulation == Geneve {
		return &netlink.Geneve{LinkAttrs: attributes, ID: l.VNI, Remote: l.Underlay.AsSlice(), Dport: l.Port}
	}
	// No remote address and no learning: frames go where Forwarding says, otherwise they
	// are dropped.
	device := &netlink.Vxlan{LinkAttrs: attributes, VxlanId: int(l.VNI), Port: int(l.Port), UDPCSum: true}
	if len(l.Forwarding) > 0 && l.Forwarding[0].Underlay.Is6() {
		device.SrcAddr = net.IPv6unspecified // otherwise the socket is IPv4
	}
	return device
}

func (k *Kernel) deleteLink(name string) error {
	link, err := k.link(name)
	if err != nil {
		return nil // it does not exist
	}
	k.userspace.Release(name)
	return gone(k.routes.LinkDel(link))
}

func (k *Kernel) setMAC(name string, mac MAC) error {
	return k.on(name, func(l netlink.Link) error { return k.routes.LinkSetHardwareAddr(l, mac[:]) })
}

func (k *Kernel) setMTU(name string, mtu int) error {
	return k.on(name, func(l netlink.Link) error { return k.routes.LinkSetMTU(l, mtu) })
}

func (k *Kernel) setUp(name string) error { return k.on(name, k.routes.LinkSetUp) }

func (k *Kernel) addAddress(name string, a netip.Addr) error {
	return k.on(name, func(l netlink.Link) error { return k.routes.AddrReplace(l, address(a)) })
}

func (k *Kernel) deleteAddress(name string, a netip.Addr) error {
	return k.on(name, func(l netlink.Link) error { return gone(k.routes.AddrDel(l, address(a))) })
}

// address disables duplicate address detection: there is no other host on the link.
func address(a netip.Addr) *netlink.Addr {
	to := &netlink.Addr{IPNet: network(host(a))}
	if a.Is6() {
		to.Flags = unix.IFA_F_NODAD
	}
	return to
}

func (k *Kernel) setNeighbour(name string, n Neighbour) error {
	return k.on(name, func(l netlink.Link) error { return k.routes.NeighSet(n.entry(l)) })
}

func (k *Kernel) deleteNeighbour(name string, n Neighbour) error {
	return k.on(name, func(l netlink.Link) error { return gone(k.routes.NeighDel(n.entry(l))) })
}

func (n Neighbour) entry(l netlink.Link) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: n.Address.AsSlice(), HardwareAddr: n.MAC[:],
	}
}

// setForwarding replaces an entry atomically.
func (k *Kernel) setForwarding(name string, f Forwarding) error {
	return k.on(name, func(l netlink.Link) error { return k.routes.NeighSet(f.entry(l)) })
}

func (k *Kernel) deleteForwarding(name string, f Forwarding) error {
	return k.on(name, func(l netlink.Link) error { return gone(k.routes.NeighDel(f.entry(l))) })
}

func (f Forwarding) entry(l netlink.Link) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: l.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT,
		IP: f.Underlay.AsSlice(), HardwareAddr: f.MAC[:],
	}
}

// link returns one of Strait's links by name.
func (k *Kernel) link(name string) (netlink.Link, error) {
	index, known := k.links[name]
	if !known {
		return nil, fmt.Errorf("link %s: %w", name, unix.ENODEV)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.Index = name, index
	return &netlink.Device{LinkAttrs: attributes}, nil
}

func (k *Kernel) on(name string, do func(netlink.Link) error) error {
	link, err := k.link(name)
	if err != nil {
		return err
	}
	return do(link)
}

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

//go:build linux

package node

import (
	"fmt"
	"net/netip"
)

// Operation is one change of the kernel. Its text describes it.
type Operation struct {
	text string
	do   func(system) error
}

func (o Operation) String() string { return o.text }

// MarshalText formats the operation for logs.
func (o Operation) MarshalText() ([]byte, error) { return []byte(o.text), nil }

// system is the target of operations: a Kernel. Removing a missing object is not an error.
type system interface {
	addLink(Link) error // down, with its MAC address and MTU
	deleteLink(name string) error
	serve(Link) error                  // with Userspace: this process carries its frames
	setMAC(link string, mac MAC) error // clears the link's neighbours
	setMTU(link string, mtu int) error
	setLoose(link string) error
	setUp(link string) error
	addAddress(link string, a netip.Addr) error
	deleteAddress(link string, a netip.Addr) error
	setNeighbour(link string, n Neighbour) error
	deleteNeighbour(link string, n Neighbour) error
	setForwarding(link string, f Forwarding) error
	deleteForwarding(link string, f Forwarding) error
	setNexthop(Nexthop) error
	setGroup(NexthopGroup) error
	deleteNexthop(id uint32) error // or group, with the routes that refer to it
	setRoute(KernelRoute) error
	deleteRoute(KernelRoute) error
	addRule(family) error
	deleteRule(family) error
	setTable(Table) error
	deleteTable() error
}

func addLink(l Link) Operation {
	if l.Encapsulation == Userspace {
		return Operation{
			fmt.Sprintf("add link %s tap address %s mtu %d", l.Name, l.MAC, l.MTU),
			func(s system) error { return s.addLink(l) },
		}
	}
	remote := ""
	if l.Underlay.IsValid() {
		remote = fmt.Sprintf(" remote %s", l.Underlay)
	}
	return Operation{
		fmt.Sprintf("add link %s %s id %d%s dstport %d address %s mtu %d", l.Name, l.Encapsulation, l.VNI, remote, l.Port, l.MAC, l.MTU),
		func(s system) error { return s.addLink(l) },
	}
}

func deleteLink(name string) Operation {
	return Operation{"delete link " + name, func(s system) error { return s.deleteLink(name) }}
}

func serve(l Link) Operation {
	return Operation{
		fmt.Sprintf("serve link %s id %d remote %s dstport %d", l.Name, l.VNI, l.Underlay, l.Port),
		func(s system) error { return s.serve(l) },
	}
}

func setMAC(l Link) Operation {
	return Operation{fmt.Sprintf("set link %s address %s", l.Name, l.MAC), func(s system) error { return s.setMAC(l.Name, l.MAC) }}
}

func setMTU(l Link) Operation {
	return Operation{fmt.Sprintf("set link %s mtu %d", l.Name, l.MTU), func(s system) error { return s.setMTU(l.Name, l.MTU) }}
}

func setLoose(link string) Operation {
	return Operation{fmt.Sprintf("set link %s rp_filter %d", link, loose), func(s system) error { return s.setLoose(link) }}
}

func setUp(link string) Operation {
	return Operation{fmt.Sprintf("set link %s up", link), func(s system) error { return s.setUp(link) }}
}

func addAddress(link string, a netip.Addr) Operation {
	return Operation{fmt.Sprintf("add address %s dev %s", host(a), link), func(s system) error { return s.addAddress(link, a) }}
}

func deleteAddress(link string, a netip.Addr) Operation {
	return Operation{fmt.Sprintf("delete address %s dev %s", host(a), link), func(s system) error { return s.deleteAddress(link, a) }}
}

func setNeighbour(link string, n Neighbour) Operation {
	return Operation{fmt.Sprintf("set neighbour %s lladdr %s dev %s", n.Address, n.MAC, link), func(s system) error { return s.setNeighbour(link, n) }}
}

func deleteNeighbour(link string, n Neighbour) Operation {
	return Operation{fmt.Sprintf("delete neighbour %s dev %s", n.Address, link), func(s system) error { return s.deleteNeighbour(link, n) }}
}

func setForwarding(link string, f Forwarding) Operation {
	return Operation{fmt.Sprintf("set forwarding %s dst %s dev %s", f.MAC, f.Underlay, link), func(s system) error { return s.setForwarding(link, f) }}
}

func deleteForwarding(link string, f Forwarding) Operation {
	return Operation{fmt.Sprintf("delete forwarding %s dst %s dev %s", f.MAC, f.Underlay, link), func(s system) error { return s.deleteForwarding(link, f) }}
}

func setNexthop(n Nexthop) Operation {
	return Operation{fmt.Sprintf("set nexthop %s", n), func(s system) error { return s.setNexthop(n) }}
}

func setGroup(g NexthopGroup) Operation {
	return Operation{fmt.Sprintf("set nexthop %s", g), func(s system) error { return s.setGroup(g) }}
}

func deleteNexthop(id uint32) Operation {
	return Operation{fmt.Sprintf("delete nexthop %d", id), func(s system) error { return s.deleteNexthop(id) }}
}

func setRoute(r KernelRoute) Operation {
	return Operation{fmt.Sprintf("set route %s", r), func(s system) error { return s.setRoute(r) }}
}

func deleteRoute(r KernelRoute) Operation {
	return Operation{fmt.Sprintf("delete route %s", r), func(s system) error { return s.deleteRoute(r) }}
}

func addRule(f family) Operation {
	return Operation{fmt.Sprintf("add %s rule lookup %d", f, routeTable), func(s system) error { return s.addRule(f) }}
}

func deleteRule(f family) Operation {
	return Operation{fmt.Sprintf("delete %s rule lookup %d", f, routeTable), func(s system) error { return s.deleteRule(f) }}
}

func setTable(to Table) Operation {
	return Operation{
		fmt.Sprintf("set nftables table %s %s", tableName, to),
		func(s system) error { return s.setTable(to) },
	}
}

func deleteTable() Operation {
	return Operation{"delete nftables table " + tableName, system.deleteTable}
}

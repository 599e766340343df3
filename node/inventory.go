//go:build linux

package node

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"strait.dev/strait/node/genl"
)

// routesAtMost is the largest number of routes in an Inventory.
const routesAtMost = 5000

// Inventory is the network configuration of a node for diagnostics.
type Inventory struct {
	Kernel string `json:"kernel"` // release

	Links  []InventoryLink `json:"links"`
	Rules  []string        `json:"rules"`  // policy routing rules, in the format of ip rule
	Routes []string        `json:"routes"` // of all tables but local, in the format of ip route
	// More is the number of omitted routes.
	More int `json:"more,omitempty"`

	Nexthops []string `json:"nexthops"` // Strait's nexthop objects

	Sources string   `json:"sources"` // Strait's nftables table: see Path
	Tables  []string `json:"tables"`  // of nftables, like "inet strait"

	Settings map[string]string `json:"settings"` // of sysctl
	Families []string          `json:"families"` // of generic netlink: the kernel's available interfaces
	Missing  []string          `json:"missing"`  // what could not be read, and why
}

// InventoryLink is a network device.
type InventoryLink struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	MTU       int      `json:"mtu"` // bytes
	Up        bool     `json:"up"`
	Addresses []string `json:"addresses"`
	Overlay   string   `json:"overlay,omitempty"` // encapsulation of a tunnel device of a known type

	Offloads map[string]bool `json:"offloads,omitempty"` // by ethtool name: whether they are on

	Received uint64 `json:"received"` // packets, like the following fields
	Sent     uint64 `json:"sent"`
	Dropped  uint64 `json:"dropped"`
	Errors   uint64 `json:"errors"`
}

// inventoried are the sysctls that affect forwarded packets.
var inventoried = []string{
	"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.rp_filter",
	"net.ipv4.fib_multipath_hash_policy", "net.ipv6.fib_multipath_hash_policy",
	"net.core.rmem_max", "net.core.wmem_max", "net.netfilter.nf_conntrack_count", "net.netfilter.nf_conntrack_max",
}

// ReadInventory returns the Inventory of the calling thread's network namespace. It changes
// nothing. What it has no permission to read is listed in Missing.
func ReadInventory() (s Inventory, err error) {
	k, err := openReading()
	if err != nil {
		return s, err
	}
	defer k.Close()
	for _, read := range []struct {
		what string
		do   func(*Inventory) error
	}{{"links", k.inventoryLinks}, {"generic netlink", inventoryGeneric}, {"rules", k.inventoryRules}, {"routes", k.inventoryRoutes}, {"nexthops", k.inventoryNexthops}, {"tables of nftables", k.inventoryTables}, {"settings", inventorySettings}} {
		if err := read.do(&s); err != nil {
			s.Missing = append(s.Missing, fmt.Sprintf("%s: %v", read.what, err))
		}
	}
	return s, nil
}

func (k *Kernel) inventoryLinks(s *Inventory) error {
	devices, err := k.routes.LinkList()
	if err != nil {
		return err
	}
	for _, device := range devices {
		a := device.Attrs()
		l := InventoryLink{Name: a.Name, Type: device.Type(), MTU: a.MTU, Up: a.RawFlags&unix.IFF_UP != 0}
		if n := a.Statistics; n != nil {
			l.Received, l.Sent, l.Dropped, l.Errors = n.RxPackets, n.TxPackets, n.RxDropped+n.TxDropped, n.RxErrors+n.TxErrors
		}
		if is := readLink(device); is.Encapsulation != "" {
			l.Overlay = fmt.Sprintf("%s id %d remote %s port %d", is.Encapsulation, is.VNI, is.Underlay, is.Port)
		}
		addresses, err := k.routes.AddrList(device, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, address := range addresses {
			l.Addresses = append(l.Addresses, address.IPNet.String())
		}
		s.Links = append(s.Links, l)
	}
	return nil
}

// inventoryGeneric adds what generic netlink reports, including the offloads of the links.
func inventoryGeneric(s *Inventory) error {
	c, err := genl.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	if s.Families, err = c.Families(); err != nil {
		return err
	}
	for i := range s.Links {
		if s.Links[i].Offloads, err = readOffloads(c, s.Links[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kernel) inventoryRules(s *Inventory) error {
	for _, f := range families {
		rules, err := k.routes.RuleList(f.number())
		if err != nil {
			return err
		}
		for _, r := range rules {
			text := fmt.Sprintf("%d: from %s", r.Priority, anyOr(r.Src))
			if r.Dst != nil {
				text += " to " + r.Dst.String()
			}
			if r.IifName != "" {
				text += " iif " + r.IifName
			}
			if r.OifName != "" {
				text += " oif " + r.OifName
			}
			if r.Mark != 0 {
				text += fmt.Sprintf(" fwmark %#x", r.Mark)
			}
			s.Rules = append(s.Rules, fmt.Sprintf("%s lookup %d proto %d", text, r.Table, r.Protocol))
		}
	}
	return nil
}

func (k *Kernel) inventoryRoutes(s *Inventory) error {
	names, err := k.deviceNames()
	if err != nil {
		return err
	}
	for _, f := range families {
		routes, err := k.routes.RouteListFiltered(f.number(), &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}
		for _, r := range routes {
			switch {
			case r.Table == unix.RT_TABLE_LOCAL:
			case len(s.Routes) == routesAtMost:
				s.More++
			default:
				s.Routes = append(s.Routes, routeText(r, names))
			}
		}
	}
	return nil
}

func (k *Kernel) inventoryNexthops(s *Inventory) error {
	names, err := k.deviceNames()
	if err != nil {
		return err
	}
	var state State
	if err := k.nexthops.read(&state, names); err != nil {
		return err
	}
	state.sort()
	for _, n := range state.Nexthops {
		s.Nexthops = append(s.Nexthops, n.String())
	}
	for _, g := range state.Groups {
		s.Nexthops = append(s.Nexthops, g.String())
	}
	return nil
}

func (k *Kernel) deviceNames() (map[int]string, error) {
	devices, err := k.routes.LinkList()
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, device := range devices {
		names[device.Attrs().Index] = device.Attrs().Name
	}
	return names, nil
}

// routeText formats a route like ip route.
func routeText(r netlink.Route, names map[int]string) string {
	var b strings.Builder
	if r.Type == unix.RTN_BLACKHOLE {
		b.WriteString("blackhole ")
	}
	b.WriteString(anyOr(r.Dst))
	if r.Gw != nil {
		fmt.Fprintf(&b, " via %s", r.Gw)
	}
	if name := names[r.LinkIndex]; name != "" {
		fmt.Fprintf(&b, " dev %s", name)
	}
	for _, hop := range r.MultiPath {
		fmt.Fprintf(&b, " nexthop via %s dev %s", hop.Gw, names[hop.LinkIndex])
	}
	if r.Src != nil {
		fmt.Fprintf(&b, " src %s", r.Src)
	}
	if r.MTU > 0 {
		fmt.Fprintf(&b, " mtu %d", r.MTU)
	}
	fmt.Fprintf(&b, " table %d proto %d metric %d", r.Table, r.Protocol, r.Priority)
	return b.String()
}

// anyOr formats a CIDR, or "all".
func anyOr(r fmt.Stringer) string {
	if text := r.String(); text != "<nil>" {
		return text
	}
	return "all"
}

func (k *Kernel) inventoryTables(s *Inventory) error {
	s.Sources = k.sourcesSeen()
	if k.tables == nil {
		return errors.New("this process may not read them; it needs CAP_NET_ADMIN")
	}
	tables, err := k.tables.ListTables()
	for _, t := range tables {
		s.Tables = append(s.Tables, tableFamilies[t.Family]+" "+t.Name)
	}
	return err
}

var tableFamilies = map[nftables.TableFamily]string{
	nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6",
	nftables.TableFamilyARP: "arp", nftables.TableFamilyNetdev: "netdev", nftables.TableFamilyBridge: "bridge",
}

// inventorySettings reads the existing sysctls: some exist only while a module is loaded.
func inventorySettings(s *Inventory) error {
	s.Settings = map[string]string{}
	for _, name := range inventoried {
		if text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/")); err == nil {
			s.Settings[name] = strings.TrimSpace(string(text))
		}
	}
	s.Kernel = kernelRelease()
	return nil
}

//go:build linux

package node

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"strait.dev/strait/node/genl"
)

// destinationsAtMost limits an Inspection: a node may have a host route for each pod.
const destinationsAtMost = 500

// precedingAtMost limits an Inspection: a network plugin may add a rule for each pod.
const precedingAtMost = 100

// inspected are the sysctls that Strait depends on.
var inspected = []string{
	"net.core.rmem_max", "net.core.wmem_max", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding",
	"net.ipv6.conf.all.disable_ipv6", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.rp_filter",
	"net.ipv4.fib_multipath_hash_policy", "net.ipv6.fib_multipath_hash_policy",
}

// Inspect inspects the node. The calling thread must be in its network namespace. It makes
// no lasting change.
func (k *Kernel) Inspect() (i Inspection, err error) {
	i = Inspection{Time: time.Now(), Kernel: kernelRelease(), Settings: make(map[string]int)}
	for _, name := range inspected {
		if v, known := readSetting(name); known {
			i.Settings[name] = v
		}
	}
	support, err := k.Support()
	if err != nil {
		return i, err
	}
	i.Geneve, i.VXLAN, i.TUN, i.Lacks = support.Geneve, support.VXLAN, support.Userspace || hasTUN(), support.Lacks
	if err := k.tryTables(); err != nil {
		i.Tables = err.Error()
	}
	off, known := i.Settings["net.ipv6.conf.all.disable_ipv6"]
	i.IPv6 = known && off == 0
	i.Out, i.Out6 = k.exit(netip.AddrFrom4([4]byte{192, 0, 2, 1})), k.exit(netip.MustParseAddr("2001:db8::1"))
	i.Taken = takenPorts()
	if err := inspectGeneric(&i); err != nil {
		return i, fmt.Errorf("node: %w", err)
	}
	return i, k.inspectRest(&i)
}

func kernelRelease() string {
	var u unix.Utsname
	_ = unix.Uname(&u) // fails only for an invalid address
	return unix.ByteSliceToString(u.Release[:])
}

// readSetting reads a sysctl of the calling thread's network namespace.
func readSetting(name string) (v int, known bool) {
	text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return 0, false
	}
	v, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return v, err == nil
}

// inspectGeneric reads what generic netlink reports.
func inspectGeneric(i *Inspection) error {
	c, err := genl.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	if i.Families, err = c.Families(); err != nil {
		return err
	}
	for _, exit := range []*Exit{&i.Out, &i.Out6} {
		if exit.Link == "" {
			continue
		}
		if exit.Offloads, err = readOffloads(c, exit.Link); err != nil {
			return err
		}
	}
	return nil
}

// hasTUN reports whether the kernel has TAP devices, even without /dev/net/tun.
func hasTUN() bool {
	_, err := os.Stat("/sys/class/misc/tun")
	return err == nil
}

// tryTables creates and deletes a table like Strait's in one transaction.
func (k *Kernel) tryTables() error {
	table := &nftables.Table{Name: probeName, Family: nftables.TableFamilyINet}
	// Documentation addresses (RFC 5737, RFC 3849).
	address, prefix := netip.MustParseAddr("192.0.2.1"), netip.MustParsePrefix("192.0.2.0/24")
	d := Desired{
		Addresses: []netip.Addr{address, netip.MustParseAddr("2001:db8::1")}, Pods: []netip.Prefix{prefix}, LocalPods: []netip.Prefix{prefix},
		Gateways: []Gateway{{Underlay: address, Addresses: []netip.Addr{address}, VNI: maxVNI, Encapsulation: VXLAN, LocalNodes: true}},
		Routes:   []Route{{Prefix: prefix}},
	}
	if err := k.addTable(table, d.table(), nil); err != nil {
		return err
	}
	k.tables.DelTable(table)
	if err := k.tables.Flush(); err != nil {
		return fmt.Errorf("nftables: %w%s", err, remedy(err))
	}
	return nil
}

// exit returns the link to an external address, or the zero Exit.
func (k *Kernel) exit(to netip.Addr) Exit {
	routes, err := k.routes.RouteGet(to.AsSlice())
	if err != nil || len(routes) == 0 {
		return Exit{}
	}
	link, err := k.routes.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return Exit{}
	}
	return Exit{Link: link.Attrs().Name, MTU: link.Attrs().MTU}
}

// takenPorts returns the ports that Strait needs and that cannot be opened.
func takenPorts() (taken []Port) {
	for _, port := range []uint16{Geneve.port(), VXLAN.port()} {
		for _, family := range []string{"udp4", "udp6"} { // a socket for both families opens where one is in use for IPv6 only
			conn, err := net.ListenUDP(family, &net.UDPAddr{Port: int(port)})
			if errors.Is(err, unix.EAFNOSUPPORT) {
				continue // the kernel has no IPv6
			}
			if err != nil {
				taken = append(taken, Port{port, err.Error()})
				break
			}
			_ = conn.Close() // it was not used
		}
	}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", HealthPort))
	if err != nil {
		return append(taken, Port{HealthPort, err.Error()})
	}
	_ = listener.Close()
	return taken
}

// inspectRest looks for Strait's objects and for conflicting ones.
func (k *Kernel) inspectRest(i *Inspection) error {
	observed, err := k.Observe()
	if err != nil {
		return err
	}
	links, err := k.routes.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("node: list links: %w", err)
	}
	for _, link := range links {
		name, port := link.Attrs().Name, readLink(link).Port
		switch {
		case strings.HasPrefix(name, LinkPrefix):
			i.Ours.Links = append(i.Ours.Links, name)
		case port == Geneve.port() || port == VXLAN.port():
			i.Strange = append(i.Strange, fmt.Sprintf("link %s (%s) uses UDP port %d", name, link.Type(), port))
		}
	}
	for _, n := range observed.Nexthops {
		i.Ours.Nexthops = append(i.Ours.Nexthops, n.String())
	}
	for _, g := range observed.Groups {
		i.Ours.Nexthops = append(i.Ours.Nexthops, g.String())
	}
	for _, r := range observed.Routes {
		i.Ours.Routes = append(i.Ours.Routes, r.String())
	}
	i.Ours.Table = observed.Table != ""
	for _, f := range families {
		if observed.Rules[f] {
			i.Ours.Rules = append(i.Ours.Rules, fmt.Sprintf("%s rule %d: lookup %d", f, RulePriority, routeTable))
		}
		if err := errors.Join(k.inspectTable(f, i), k.inspectRules(f, i)); err != nil {
			return err
		}
	}
	return k.inspectDestinations(i)
}

// inspectRules adds the rules of a family before Strait's, and foreign ones of its priority. Rules for
// marked packets are left out: network plugins mark packets for their own purposes, not those of pods
// to elsewhere.
func (k *Kernel) inspectRules(f family, i *Inspection) error {
	rules, err := k.routes.RuleList(f.number())
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("node: list rules: %w", err)
	}
	for _, r := range rules {
		if r.Priority == RulePriority && r.Protocol != routeProtocol {
			i.Strange = append(i.Strange, fmt.Sprintf("a rule of priority %d looks up table %d", RulePriority, r.Table))
		}
		_, some := specific(r.Dst)
		if r.Priority >= RulePriority || r.Mark != 0 || some || len(i.Preceding) >= precedingAtMost ||
			slices.Contains([]int{unix.RT_TABLE_UNSPEC, unix.RT_TABLE_LOCAL, routeTable}, r.Table) {
			continue
		}
		text := fmt.Sprintf("rule %d", r.Priority)
		if r.Src != nil {
			text += fmt.Sprintf(" from %s", r.Src)
		}
		if r.IifName != "" {
			text += " iif " + r.IifName
		}
		i.Preceding = append(i.Preceding, text+fmt.Sprintf(" lookup %d", r.Table))
	}
	return nil
}

// inspectTable adds foreign routes in Strait's table.
func (k *Kernel) inspectTable(f family, i *Inspection) error {
	routes, err := k.routes.RouteListFiltered(f.number(), &netlink.Route{Table: routeTable}, netlink.RT_FILTER_TABLE)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("node: list routes: %w", err)
	}
	for _, r := range routes {
		if r.Protocol != routeProtocol {
			i.Strange = append(i.Strange, fmt.Sprintf("table %d has a route to %s of protocol %d", routeTable, r.Dst, r.Protocol))
		}
	}
	return nil
}

func (k *Kernel) inspectDestinations(i *Inspection) error {
	var all []destination
	err := k.eachDestination(func(d destination) { all = append(all, d) })
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("node: list routes: %w", err)
	}
	slices.SortFunc(all, func(a, b destination) int {
		return cmp.Or(cmp.Compare(a.prefix.Bits(), b.prefix.Bits()), a.prefix.Compare(b.prefix), cmp.Compare(a.table, b.table))
	})
	for _, d := range all[:min(len(all), destinationsAtMost)] {
		i.Destinations = append(i.Destinations, Destination{d.prefix, k.destinationText(d)})
	}
	return nil
}

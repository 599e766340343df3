//go:build linux

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Constants of linux/netconf.h that x/sys/unix does not have.
const (
	netconfIfindex = 1 // NETCONFA_IFINDEX
	rtmNewNetconf  = 80
)

// groups are the multicast groups to join, by netlink family.
var groups = [...]struct {
	family int
	groups []uint32
}{
	{unix.NETLINK_ROUTE, []uint32{
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_NETCONF,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_NEXTHOP,
	}},
	{unix.NETLINK_NETFILTER, []uint32{unix.NFNLGRP_NFTABLES}},
}

// events reports changes in the kernel that may concern Strait's configuration.
type events struct {
	sockets []*mdlayher.Conn // one per entry of groups
	readers sync.WaitGroup
	changed chan struct{} // capacity 1
	links   atomic.Pointer[map[string]int]
}

// openEvents opens sockets in the calling thread's network namespace.
func openEvents() (*events, error) {
	e := &events{changed: make(chan struct{}, 1)}
	e.links.Store(&map[string]int{})
	for _, g := range groups {
		conn, err := mdlayher.Dial(g.family, nil)
		if err != nil {
			e.close()
			return nil, err
		}
		e.sockets = append(e.sockets, conn)
	}
	return e, nil
}

// listen starts reading events, until the sockets are closed.
func (e *events) listen() error {
	for i, conn := range e.sockets {
		for _, group := range groups[i].groups {
			err := conn.JoinGroup(group)
			if group == unix.RTNLGRP_NEXTHOP && errors.Is(err, unix.EINVAL) {
				continue // the kernel has no nexthop objects
			}
			if err != nil {
				return fmt.Errorf("node: watch the kernel: join group %d: %w", group, err)
			}
		}
		concerns := e.routing
		if groups[i].family == unix.NETLINK_NETFILTER {
			concerns = filtering
		}
		e.readers.Go(func() { e.read(conn, concerns) })
	}
	return nil
}

func (e *events) close() {
	for _, s := range e.sockets {
		_ = s.Close() // ends its reader goroutine
	}
	e.readers.Wait()
}

func (e *events) read(conn *mdlayher.Conn, concerns func(mdlayher.Message) bool) {
	for {
		messages, err := conn.Receive()
		ours := errors.Is(err, unix.ENOBUFS) // messages were lost, which may have been relevant
		if err != nil && !ours {
			return
		}
		for _, m := range messages {
			ours = ours || concerns(m)
		}
		if ours {
			select {
			case e.changed <- struct{}{}:
			default:
			}
		}
	}
}

// routing reports whether a message of rtnetlink may concern Strait's configuration. Most
// do not: pods come and go.
func (e *events) routing(m mdlayher.Message) bool {
	at := func(offset int) (uint32, bool) {
		if len(m.Data) < offset+4 {
			return 0, false
		}
		return binary.NativeEndian.Uint32(m.Data[offset:]), true
	}
	index, found := uint32(0), false
	switch m.Header.Type {
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return true // rare
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE: // struct rtmsg
		const protocol = 5
		return len(m.Data) > protocol && m.Data[protocol] == routeProtocol
	case unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP: // struct nhmsg
		const protocol = 2
		return len(m.Data) > protocol && m.Data[protocol] == routeProtocol
	case unix.RTM_NEWLINK, unix.RTM_DELLINK: // struct ifinfomsg
		if len(m.Data) >= unix.SizeofIfInfomsg && linkNames.Match(value(attribute(m.Data[unix.SizeofIfInfomsg:], unix.IFLA_IFNAME))) {
			return true
		}
		index, found = at(4)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR, // struct ifaddrmsg
		unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH: // struct ndmsg
		index, found = at(4)
	case rtmNewNetconf: // struct netconfmsg, padded
		if len(m.Data) >= 4 {
			if v := attribute(m.Data[4:], netconfIfindex); len(v) == 4 {
				index, found = binary.NativeEndian.Uint32(v), true
			}
		}
	}
	if !found {
		return false
	}
	for _, ours := range *e.links.Load() {
		if uint32(ours) == index {
			return true
		}
	}
	return false
}

// filtering reports whether a message of nftables is about Strait's table. Attribute 1 of
// all objects is the name of their table.
func filtering(m mdlayher.Message) bool {
	const header, table = 4, 1 // struct nfgenmsg
	return len(m.Data) >= header && string(value(attribute(m.Data[header:], table))) == tableName
}

// value returns the string in an attribute, without its final zero.
func value(attribute []byte) []byte {
	if n := len(attribute); n > 0 && attribute[n-1] == 0 {
		return attribute[:n-1]
	}
	return attribute
}

//go:build linux

package node

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/nftables"
	mdlayher "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"strait.dev/strait/node/userspace"
)

// Kernel is the kernel's network configuration in the namespace in which it was opened.
// Unless a method states otherwise, only one goroutine may use it at a time.
type Kernel struct {
	home     namespace
	routes   *netlink.Handle
	asked    *netlink.Handle // for SourceTo, which runs concurrently
	raw      *mdlayher.Conn  // rtnetlink, for requests that the handle does not support
	nexthops nexthopTable
	tables   *nftables.Conn
	events   *events
	links    map[string]int // index by name of Strait's links, as last read
	counters struct {       // for Refused, which runs concurrently
		sync.Mutex
		tables *nftables.Conn
	}

	userspace *userspace.Endpoint // serves Strait's TAP devices
}

// Open opens the kernel of the calling thread's network namespace.
func Open() (*Kernel, error) {
	k := &Kernel{userspace: userspace.New(Userspace.port(), userspace.Grace)}
	var errs [8]error
	k.routes, errs[0] = netlink.NewHandle(unix.NETLINK_ROUTE)
	k.raw, errs[1] = dialRouting()
	k.tables, errs[2] = openTables()
	k.events, errs[3] = openEvents()
	k.home, errs[4] = here()
	k.asked, errs[5] = netlink.NewHandle(unix.NETLINK_ROUTE)
	k.nexthops.conn, errs[6] = dialRouting()
	k.counters.tables, errs[7] = openTables()
	if err := errors.Join(errs[:]...); err != nil {
		k.Close()
		return nil, fmt.Errorf("node: open the kernel: %w", err)
	}
	return k, nil
}

// dialRouting opens a socket of rtnetlink. If the kernel supports it (since Linux 4.20), it
// returns only the routes that a request selects, and says in words why it refuses one.
func dialRouting() (*mdlayher.Conn, error) {
	if conn, err := mdlayher.Dial(unix.NETLINK_ROUTE, &mdlayher.Config{Strict: true}); err == nil {
		return conn, nil
	}
	return mdlayher.Dial(unix.NETLINK_ROUTE, nil)
}

// Close closes the sockets and stops serving TAP devices. The configuration stays.
func (k *Kernel) Close() {
	k.userspace.Close()
	k.home.close()
	if k.routes != nil {
		k.routes.Close()
	}
	if k.asked != nil {
		k.asked.Close()
	}
	for _, conn := range []*mdlayher.Conn{k.raw, k.nexthops.conn} {
		if conn != nil {
			_ = conn.Close() // no request is running
		}
	}
	for _, tables := range []*nftables.Conn{k.tables, k.counters.tables} {
		if tables != nil {
			_ = tables.CloseLasting() // no request is running
		}
	}
	if k.events != nil {
		k.events.close()
	}
}

// Apply runs operations in order up to the first that fails, and returns those that
// succeeded.
func (k *Kernel) Apply(operations []Operation) (done []Operation, err error) {
	for i, o := range operations {
		if err := o.do(k); err != nil {
			return operations[:i], fmt.Errorf("node: %s: %w%s", o, err, remedy(err))
		}
	}
	return operations, nil
}

// Remove removes all of Strait's configuration from the kernel.
func (k *Kernel) Remove() error {
	observed, err := k.Observe()
	if err != nil {
		return err
	}
	_, err = k.Apply(Removal(observed))
	return err
}

func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "; give the process CAP_NET_ADMIN in the network namespace of the node"
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.EBUSY):
		return "; it conflicts with another program's configuration: remove the other link with that VNI and port, or the other rule with that priority"
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EAFNOSUPPORT):
		return "; the kernel lacks a module: load it, or do not use the address family"
	}
	return ""
}

// gone maps errors about missing objects to nil.
func gone(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ESRCH, unix.ENODEV, unix.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

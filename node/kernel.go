package node

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	mdlayher "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"strait.dev/strait/node/userspace"
)

// Kernel is that of the network namespace in which it was opened. It is for one
// goroutine at a time, where nothing else is said.
type Kernel struct {
	home   namespace
	routes *netlink.Handle
	asked  *netlink.Handle // for SourceTo, beside everything else
	raw    *mdlayher.Conn  // rtnetlink, for what the handle has no words for
	tables *nftables.Conn
	events *events
	links  map[string]int // index by name, of our links, as last seen

	userspace *userspace.Endpoint // serves our TAP devices
}

// Open opens the kernel of the calling thread's network namespace.
func Open() (*Kernel, error) {
	k := &Kernel{userspace: userspace.New(Userspace.port())}
	var errs [6]error
	k.routes, errs[0] = netlink.NewHandle(unix.NETLINK_ROUTE)
	k.raw, errs[1] = mdlayher.Dial(unix.NETLINK_ROUTE, nil)
	k.tables, errs[2] = openTables()
	k.events, errs[3] = openEvents()
	k.home, errs[4] = here()
	k.asked, errs[5] = netlink.NewHandle(unix.NETLINK_ROUTE)
	if err := errors.Join(errs[:]...); err != nil {
		k.Close()
		return nil, fmt.Errorf("node: open the kernel: %w", err)
	}
	return k, nil
}

// Close closes the sockets and stops serving TAP devices. What was set up stays.
func (k *Kernel) Close() {
	k.userspace.Close()
	k.home.close()
	if k.routes != nil {
		k.routes.Close()
	}
	if k.asked != nil {
		k.asked.Close()
	}
	if k.raw != nil {
		_ = k.raw.Close() // nothing is under way
	}
	if k.tables != nil {
		_ = k.tables.CloseLasting() // nothing is under way
	}
	if k.events != nil {
		k.events.close()
	}
}

// Apply does operations in their order up to the first that fails, and returns those
// that it did.
func (k *Kernel) Apply(operations []Operation) (done []Operation, err error) {
	for i, o := range operations {
		if err := o.do(k); err != nil {
			return operations[:i], fmt.Errorf("node: %s: %w%s", o, err, remedy(err))
		}
	}
	return operations, nil
}

// Remove takes everything from the kernel that is ours.
func (k *Kernel) Remove() error {
	observed, err := k.Observe()
	if err != nil {
		return err
	}
	_, err = k.Apply(Removal(observed))
	return err
}

// remedy is what to do about an error of the kernel, or empty.
func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "; give the process CAP_NET_ADMIN in the network namespace of the node"
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.EBUSY):
		return "; something that is not ours is in the way: remove the other link of that VNI and port, or the other rule of that priority"
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EAFNOSUPPORT):
		return "; the kernel lacks a module for it: load that, or leave the address family out"
	}
	return ""
}

// gone turns errors about things that are not there into none.
func gone(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ESRCH, unix.ENODEV, unix.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

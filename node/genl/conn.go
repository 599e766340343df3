//go:build linux

// Package genl talks to the kernel over generic netlink: which families it has, the
// offload features of a device (family ethtool), and the configuration of a WireGuard
// device (family wireguard).
package genl

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Conn is a generic netlink socket. It may be used concurrently.
type Conn struct{ socket *genetlink.Conn }

// Open opens a socket in the calling thread's network namespace. The caller must close it.
func Open() (*Conn, error) {
	socket, err := genetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("generic netlink: open a socket: %w", err)
	}
	// Errors then carry the kernel's message. Kernels before 4.12 have none.
	_ = socket.SetOption(netlink.ExtendedAcknowledge, true)
	return &Conn{socket}, nil
}

// Close closes the socket.
func (c *Conn) Close() error { return c.socket.Close() }

// Families returns the sorted names of the registered families. Families of modules that
// are not loaded are missing, and none is loaded. It needs no privilege.
func (c *Conn) Families() ([]string, error) {
	families, err := c.socket.ListFamilies()
	if err != nil {
		return nil, fmt.Errorf("generic netlink: list families: %w", err)
	}
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = f.Name
	}
	slices.Sort(names)
	return names, nil
}

// Has reports whether the kernel has a family. The kernel loads the module of the family
// if there is one. It needs no privilege.
func (c *Conn) Has(family string) (bool, error) {
	_, err := c.socket.GetFamily(family)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("generic netlink: get family %s: %w", family, err)
	}
	return true, nil
}

// execute sends one command of a family and returns the attributes of the replies.
func (c *Conn) execute(family string, command, version uint8, flags netlink.HeaderFlags, encode func(*netlink.AttributeEncoder) error) ([]genetlink.Message, error) {
	f, err := c.socket.GetFamily(family)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the kernel has no generic netlink family %s: %w", family, unix.EOPNOTSUPP)
	}
	if err != nil {
		return nil, err
	}
	attributes := netlink.NewAttributeEncoder()
	if err := encode(attributes); err != nil {
		return nil, err
	}
	data, err := attributes.Encode()
	if err != nil {
		return nil, err
	}
	return c.socket.Execute(genetlink.Message{Header: genetlink.Header{Command: command, Version: version}, Data: data}, f.ID, netlink.Request|flags)
}

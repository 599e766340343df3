//go:build linux

package userspace

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// clone creates devices in the network namespace of the thread that opens it.
const clone = "/dev/net/tun"

// Probe creates and deletes a device of a name. The error states what is missing.
func Probe(name string) error {
	fd, err := open(name)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Make creates a persistent device that is down and not served, unless it exists.
func Make(name string) error {
	fd, err := attach(name)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// attach opens a device, which persists when it is closed. It belongs to root: any user
// could open a device without an owner while this process is not running. The kernel
// computes checksums and segments packets before they are read, so that they can be sent
// unchanged.
func attach(name string) (fd int, err error) {
	fd, err = open(name)
	if err != nil {
		return -1, err
	}
	for _, set := range []struct {
		request uint
		value   int
	}{{unix.TUNSETOWNER, 0}, {unix.TUNSETOFFLOAD, 0}, {unix.TUNSETPERSIST, 1}} {
		if err := unix.IoctlSetInt(fd, set.request, set.value); err != nil {
			_ = unix.Close(fd) // the first error is returned
			return -1, fmt.Errorf("set up TAP device %s: %w", name, err)
		}
	}
	return fd, nil
}

// open opens a device, and creates it if it does not exist. Errors that wrap no kernel
// error are complete without one.
func open(name string) (fd int, err error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return -1, fmt.Errorf("TAP device %q: %w", name, err)
	}
	fd, err = unix.Open(clone, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w; %s", clone, err, remedy(err))
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	if err == nil {
		return fd, nil
	}
	_ = unix.Close(fd) // the first error is returned
	if errors.Is(err, unix.EBUSY) {
		return -1, fmt.Errorf("TAP device %s is served by another process; stop the other node helper on this node", name)
	}
	return -1, fmt.Errorf("open TAP device %s: %w", name, err)
}

func remedy(err error) string {
	switch {
	case errors.Is(err, unix.ENOENT):
		return "mount it from the node into the container, and load the module tun on the node"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "allow character device 10:200 in the device rules of the container runtime"
	}
	return "load the module tun on the node"
}

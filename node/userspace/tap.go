package userspace

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// clone is the file that makes devices, in the network namespace of the thread that
// opens it.
const clone = "/dev/net/tun"

// Probe tries whether the process may make devices, with one of that name, which is gone
// again when it returns. The error says what is missing.
func Probe(name string) error {
	fd, err := open(name)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Make makes a persistent device, which is down and which nobody serves yet. One of that
// name that is there is taken.
func Make(name string) error {
	fd, err := attach(name)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// attach opens a device, which stays when it is closed. It belongs to root: one without an
// owner could be opened by anybody while we are away. Whoever sends to it gets checksums and
// segments done by the kernel: what is read can go on the wire as it is.
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
			_ = unix.Close(fd) // the first error is the one to tell
			return -1, fmt.Errorf("set up TAP device %s: %w", name, err)
		}
	}
	return fd, nil
}

// open opens a device, and makes it if there is none of that name. Errors that wrap none
// of the kernel say all that helps.
func open(name string) (fd int, err error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return -1, fmt.Errorf("TAP device %q: %w", name, err)
	}
	fd, err = unix.Open(clone, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %v; %s", clone, err, remedy(err))
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	if err == nil {
		return fd, nil
	}
	_ = unix.Close(fd) // the first error is the one to tell
	if errors.Is(err, unix.EBUSY) {
		return -1, fmt.Errorf("TAP device %s is served by another process; end the other node helper of this node", name)
	}
	return -1, fmt.Errorf("open TAP device %s: %w", name, err)
}

// remedy is what to do when the file cannot be opened.
func remedy(err error) string {
	switch {
	case errors.Is(err, unix.ENOENT):
		return "mount it from the node into the container, and load the module tun on the node"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "let the device rules of the container runtime allow it (character device 10:200)"
	}
	return "load the module tun on the node"
}

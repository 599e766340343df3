//go:build linux

package node

import (
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"strait.dev/strait/node/userspace"
)

// addTAP creates a persistent TAP device, which keeps its routes when this process ends.
func (k *Kernel) addTAP(l Link) error {
	if err := k.home.do(func() error { return userspace.Make(l.Name) }); err != nil {
		return err
	}
	if err := k.added(l.Name); err != nil {
		return err
	}
	if err := k.setMAC(l.Name, l.MAC); err != nil {
		return err
	}
	return k.setMTU(l.Name, l.MTU)
}

func (k *Kernel) serve(l Link) error {
	return k.on(l.Name, func(link netlink.Link) error {
		way := userspace.Way{VNI: l.VNI, Gateway: l.Underlay}
		return k.home.do(func() error { return k.userspace.Serve(l.Name, link.Attrs().Index, way) })
	})
}

// readTAP reads a TAP device. It does not match any of Strait's links if the device has
// another mode or is not persistent.
func (k *Kernel) readTAP(d *netlink.Tuntap, l *Link) {
	const other = netlink.TUNTAP_MULTI_QUEUE | netlink.TUNTAP_VNET_HDR
	if d.Mode != netlink.TUNTAP_MODE_TAP || d.Flags&other != 0 || d.NonPersist {
		return
	}
	l.Encapsulation = Userspace
	if way, served := k.userspace.Serves(l.Name, d.Attrs().Index); served {
		l.VNI, l.Port, l.Underlay = way.VNI, Userspace.port(), way.Gateway
	}
}

// Dropped counts dropped frames of userspace links by reason. Safe for concurrent use.
func (k *Kernel) Dropped() map[string]uint64 { return k.userspace.Dropped() }

// Failing returns the gateways, by VNI, to which sending frames of userspace links has
// failed for some time and still fails. Safe for concurrent use.
func (k *Kernel) Failing() map[uint32]netip.Addr {
	failing := map[uint32]netip.Addr{}
	for _, way := range k.userspace.Failing(time.Now()) {
		failing[way.VNI] = way.Gateway
	}
	return failing
}

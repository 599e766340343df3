//go:build linux

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	mdlayher "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Constants of linux/nexthop.h that x/sys/unix does not have.
const (
	nhaResGroup = 12 // NHA_RES_GROUP

	nhaResGroupBuckets         = 1
	nhaResGroupIdleTimer       = 2
	nhaResGroupUnbalancedTimer = 3

	groupResilient = 1 // NEXTHOP_GRP_TYPE_RES
)

// Parameters of resilient groups. A flow belongs to one of the buckets, by its hash, and a bucket
// to a gateway. The buckets of a gateway that is taken out move to others at once. A gateway that
// is added gets only buckets that were idle for the time below, never one in use: the unbalanced
// timer is 0. The more buckets, the more of them are idle: with 1,000 flows in use, 78 % of 4096.
// They need 128 KiB. 16 gateways have 256 buckets each.
const (
	groupBuckets = 4096
	// groupIdle is the kernel's default of 120 s in its unit, 1/100 s. A connection that pauses
	// for longer may continue through another gateway.
	groupIdle = 120 * 100
)

// nexthopTable is the part of the kernel's nexthop objects that belongs to Strait. Safe for
// concurrent use: spread does not wait until a complete reading of the kernel ends.
type nexthopTable struct {
	mu      sync.Mutex
	conn    *mdlayher.Conn
	missing bool // the kernel has no nexthop objects (before Linux 5.3)
	plain   bool // it has no resilient groups (before 5.12)

	// As last read or set. The kernel deletes the nexthops of a link with the link.
	hops    map[uint32]Nexthop
	groups  map[uint32]heldGroup
	foreign []uint32 // IDs of Strait's range that other programs use

	wanted map[uint32][]uint32 // members of the groups of the newest desired state; nil: not known
	done   []Operation         // by spread, not reported yet
}

type heldGroup struct {
	members   []uint32
	resilient bool
}

// spread changes the groups that exist to those of d, as far as their nexthops exist: one message
// for each group that differs. It reads nothing, and leaves the rest to the next run.
func (t *nexthopTable) spread(d Desired) {
	t.mu.Lock()
	defer t.mu.Unlock()
	hops, groups, _ := d.nexthops(t.foreign)
	wanted := map[uint32]Nexthop{}
	for _, n := range hops {
		wanted[n.ID] = n
	}
	t.wanted = map[uint32][]uint32{}
	for _, g := range groups {
		t.wanted[g.ID] = g.Members
		held, exists := t.groups[g.ID]
		if !exists || slices.Equal(held.members, g.Members) || slices.ContainsFunc(g.Members, func(id uint32) bool { return t.hops[id] != wanted[id] }) {
			continue
		}
		if t.replaceGroup(g, held.resilient, mdlayher.Replace) == nil { // otherwise the kernel has changed, and the next run finds how
			t.done = append(t.done, setGroup(g))
		}
	}
}

func (t *nexthopTable) takeDone() []Operation {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := t.done
	t.done = nil
	return done
}

// setGroup creates or replaces a group. A gateway that the newest desired state does not use is
// left out: the run that calls this may be of an earlier one.
func (t *nexthopTable) setGroup(g NexthopGroup) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if newest, known := t.wanted[g.ID]; known {
		left := slices.DeleteFunc(slices.Clone(g.Members), func(id uint32) bool { return !slices.Contains(newest, id) })
		if len(left) > 0 {
			g.Members = left
		}
	}
	if held, exists := t.groups[g.ID]; exists {
		if err := t.replaceGroup(g, held.resilient, mdlayher.Replace); !errors.Is(err, unix.ENOENT) {
			return err
		} // otherwise the kernel has deleted it with a link
	}
	if !t.plain {
		err := t.replaceGroup(g, true, mdlayher.Create|mdlayher.Excl)
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
	}
	err := t.replaceGroup(g, false, mdlayher.Create|mdlayher.Excl)
	t.plain = t.plain || err == nil
	return err
}

// replaceGroup sends a group. t.mu is held.
func (t *nexthopTable) replaceGroup(g NexthopGroup, resilient bool, flags mdlayher.HeaderFlags) error {
	var members []byte // struct nexthop_grp
	for _, id := range g.Members {
		members = append(binary.NativeEndian.AppendUint32(members, id), 0, 0, 0, 0) // of weight 1
	}
	e := mdlayher.NewAttributeEncoder()
	e.Uint32(unix.NHA_ID, g.ID)
	e.Bytes(unix.NHA_GROUP, members)
	if resilient {
		e.Uint16(unix.NHA_GROUP_TYPE, groupResilient)
		if flags&mdlayher.Excl != 0 {
			e.Nested(nhaResGroup, func(e *mdlayher.AttributeEncoder) error {
				e.Uint16(nhaResGroupBuckets, groupBuckets)
				e.Uint32(nhaResGroupIdleTimer, groupIdle)
				e.Uint32(nhaResGroupUnbalancedTimer, 0)
				return nil
			})
		}
	}
	if err := t.send(unix.RTM_NEWNEXTHOP, flags, unix.Nhmsg{Family: unix.AF_UNSPEC, Protocol: routeProtocol}, e); err != nil {
		return err
	}
	t.groups[g.ID] = heldGroup{slices.Clone(g.Members), resilient}
	return nil
}

// set creates or replaces a nexthop on a link.
func (t *nexthopTable) set(n Nexthop, index int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := mdlayher.NewAttributeEncoder()
	e.Uint32(unix.NHA_ID, n.ID)
	e.Uint32(unix.NHA_OIF, uint32(index))
	e.Bytes(unix.NHA_GATEWAY, n.Via.AsSlice())
	flags := mdlayher.Create | mdlayher.Excl // another program may have taken the ID
	if _, held := t.hops[n.ID]; held {
		flags = mdlayher.Create | mdlayher.Replace
	}
	header := unix.Nhmsg{Family: uint8(familyOf(n.Via).number()), Protocol: routeProtocol, Flags: unix.RTNH_F_ONLINK}
	if err := t.send(unix.RTM_NEWNEXTHOP, flags, header, e); err != nil {
		return err
	}
	t.hops[n.ID] = n
	return nil
}

// delete deletes a nexthop or a group, with the routes that refer to it.
func (t *nexthopTable) delete(id uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := mdlayher.NewAttributeEncoder()
	e.Uint32(unix.NHA_ID, id)
	if err := gone(t.send(unix.RTM_DELNEXTHOP, 0, unix.Nhmsg{}, e)); err != nil {
		return err
	}
	delete(t.hops, id)
	delete(t.groups, id)
	return nil
}

// send sends a request for one nexthop. t.mu is held.
func (t *nexthopTable) send(kind mdlayher.HeaderType, flags mdlayher.HeaderFlags, h unix.Nhmsg, e *mdlayher.AttributeEncoder) error {
	attributes, err := e.Encode()
	if err != nil {
		return err
	}
	header := []byte{h.Family, h.Scope, h.Protocol, h.Resvd}
	header = binary.NativeEndian.AppendUint32(header, h.Flags)
	_, err = t.conn.Execute(mdlayher.Message{
		Header: mdlayher.Header{Type: kind, Flags: mdlayher.Request | mdlayher.Acknowledge | flags},
		Data:   append(header, attributes...),
	})
	return err
}

// read reads the nexthops. names are Strait's links by index.
func (t *nexthopTable) read(s *State, names map[int]string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missing {
		s.Multipath = true
		return nil
	}
	messages, err := t.conn.Execute(mdlayher.Message{
		Header: mdlayher.Header{Type: unix.RTM_GETNEXTHOP, Flags: mdlayher.Request | mdlayher.Dump},
		Data:   make([]byte, unix.SizeofNhmsg),
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.missing, s.Multipath = true, true
		return nil
	}
	if err != nil {
		return err
	}
	t.hops, t.groups, t.foreign = map[uint32]Nexthop{}, map[uint32]heldGroup{}, nil
	for _, m := range messages {
		if m.Header.Flags&mdlayher.DumpInterrupted != 0 {
			return netlink.ErrDumpInterrupted
		}
		n, ok := parseNexthop(m.Data)
		switch {
		case !ok || !ownID(n.id):
		case n.protocol != routeProtocol:
			t.foreign = append(t.foreign, n.id)
		case n.members != nil:
			t.groups[n.id] = heldGroup{n.members, n.resilient}
			s.Groups = append(s.Groups, NexthopGroup{n.id, slices.Clone(n.members)})
		default:
			t.hops[n.id] = Nexthop{n.id, hopOf(n.link, n.via, names)}
		}
	}
	s.Nexthops, s.Foreign = slices.Collect(maps.Values(t.hops)), slices.Clone(t.foreign)
	return nil
}

// hopOf returns a next hop. A link that is not one of Strait's makes it differ from any desired.
func hopOf(index int, via netip.Addr, names map[int]string) Hop {
	if name, ours := names[index]; ours {
		return Hop{name, via}
	}
	return Hop{fmt.Sprintf("#%d", index), via}
}

// nexthopMessage is a nexthop object.
type nexthopMessage struct {
	id        uint32
	protocol  byte
	members   []uint32 // of a group
	resilient bool
	link      int
	via       netip.Addr
}

func parseNexthop(b []byte) (n nexthopMessage, ok bool) {
	if len(b) < unix.SizeofNhmsg {
		return n, false
	}
	n.protocol = b[2]
	d, err := mdlayher.NewAttributeDecoder(b[unix.SizeofNhmsg:])
	if err != nil {
		return n, false
	}
	for d.Next() {
		switch value := d.Bytes(); {
		case d.Type() == unix.NHA_ID && len(value) == 4:
			n.id = binary.NativeEndian.Uint32(value)
		case d.Type() == unix.NHA_OIF && len(value) == 4:
			n.link = int(binary.NativeEndian.Uint32(value))
		case d.Type() == unix.NHA_GATEWAY:
			n.via = addressOf(value)
		case d.Type() == unix.NHA_GROUP_TYPE && len(value) == 2:
			n.resilient = binary.NativeEndian.Uint16(value) == groupResilient
		case d.Type() == unix.NHA_GROUP:
			for ; len(value) >= unix.SizeofNexthopGrp; value = value[unix.SizeofNexthopGrp:] {
				n.members = append(n.members, binary.NativeEndian.Uint32(value))
			}
			slices.Sort(n.members)
		}
	}
	return n, d.Err() == nil && n.id != 0
}

func (k *Kernel) setNexthop(n Nexthop) error {
	index, known := k.links[n.Link]
	if !known {
		return fmt.Errorf("link %s: %w", n.Link, unix.ENODEV)
	}
	return k.nexthops.set(n, index)
}

func (k *Kernel) setGroup(g NexthopGroup) error { return k.nexthops.setGroup(g) }
func (k *Kernel) deleteNexthop(id uint32) error { return k.nexthops.delete(id) }
func (k *Kernel) readNexthops(s *State) error   { return k.nexthops.read(s, k.linkNames()) }

// linkNames returns Strait's links by index, as last read.
func (k *Kernel) linkNames() map[int]string {
	names := map[int]string{}
	for name, index := range k.links {
		names[index] = name
	}
	return names
}

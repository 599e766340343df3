//go:build linux

package node

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"strait.dev/strait/node/userspace"
)

// probeName is the name of test links. The hyphen distinguishes it from linkName.
const probeName = LinkPrefix + "-test"

// Support tests which encapsulations the node supports. It deletes each test link before it
// returns.
func (k *Kernel) Support() (s Support, err error) {
	// Left by a process that was killed at this point.
	if left, err := k.routes.LinkByName(probeName); err == nil {
		if err := k.routes.LinkDel(left); err != nil {
			return s, fmt.Errorf("node: delete link %s: %w%s", probeName, err, remedy(err))
		}
	}
	var lacks []string
	for _, try := range []struct {
		has *bool
		Encapsulation
		name string
	}{{&s.Geneve, Geneve, "Geneve"}, {&s.VXLAN, VXLAN, "VXLAN"}} {
		refused, err := k.tryLink(try.Encapsulation)
		if err != nil {
			return s, err
		}
		*try.has = refused == nil
		if refused != nil {
			lacks = append(lacks, fmt.Sprintf("no %s (rtnetlink: %v)", try.name, refused))
		}
	}
	refused := k.home.do(func() error { return userspace.Probe(probeName) })
	s.Userspace = refused == nil
	if refused != nil {
		lacks = append(lacks, fmt.Sprintf("no TAP device (%v%s)", refused, remedy(refused)))
	}
	s.Lacks = strings.Join(lacks, ", ")
	return s, nil
}

// tryLink creates a link and deletes it. refused means that the kernel has no such links,
// err that the test failed.
func (k *Kernel) tryLink(e Encapsulation) (refused, err error) {
	// Documentation addresses (RFC 5737) and the last VNI conflict with nothing.
	probe := Link{Name: probeName, Encapsulation: e, VNI: maxVNI, Port: e.port(), MAC: MAC{0x0a, 0x58}, MTU: minMTU6}
	if e == Geneve {
		probe.Underlay = netip.AddrFrom4([4]byte{192, 0, 2, 1})
	}
	device := probe.device()
	switch err := k.routes.LinkAdd(device); {
	case errors.Is(err, unix.EOPNOTSUPP):
		return err, nil
	case err != nil:
		return nil, fmt.Errorf("node: create a test link of type %s: %w%s", e, err, remedy(err))
	}
	if err := k.routes.LinkDel(device); err != nil {
		return nil, fmt.Errorf("node: delete link %s: %w%s", probeName, err, remedy(err))
	}
	return nil, nil
}

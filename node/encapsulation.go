package node

import (
	"errors"
	"fmt"

	"strait.dev/strait/config"
)

// Encapsulation is an overlay protocol and its implementation. The zero value is none.
type Encapsulation string

// The encapsulations: two in the kernel, and Geneve in this process on a TAP device.
const (
	Geneve    Encapsulation = "geneve"
	VXLAN     Encapsulation = "vxlan"
	Userspace Encapsulation = "userspace"
)

// vxlanPort is the gateways' UDP port for VXLAN.
const vxlanPort = 6092

func (e Encapsulation) port() uint16 {
	if e == VXLAN {
		return vxlanPort
	}
	return config.DefaultOverlayPort
}

// Support lists the encapsulations that a node can use.
type Support struct {
	Geneve, VXLAN bool // in the kernel
	Userspace     bool // TAP devices served by this process

	// Lacks lists what is missing and why, for messages, like "no Geneve (operation not
	// supported)". It is empty if nothing is missing.
	Lacks string
}

// Choose returns the encapsulation wanted, or, if wanted is empty, the first that the node
// supports. The error states what the node lacks.
func (s Support) Choose(wanted Encapsulation) (Encapsulation, error) {
	switch {
	case s.Geneve && wanted != VXLAN:
		return Geneve, nil
	case s.VXLAN && wanted != Geneve:
		return VXLAN, nil
	case wanted == Geneve:
		return "", errors.New("the kernel has no Geneve; load the module geneve, or set encapsulation to auto")
	case wanted == VXLAN:
		return "", errors.New("the kernel has no VXLAN; load the module vxlan, or set encapsulation to auto")
	case s.Userspace:
		return Userspace, nil
	}
	return "", fmt.Errorf("the kernel has neither Geneve nor VXLAN, and Geneve in user space is not available: %s; load the kernel module geneve or vxlan", s.Lacks)
}

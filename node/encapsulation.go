package node

import (
	"errors"
	"fmt"

	"strait.dev/strait/config"
)

// Encapsulation is how frames are wrapped. The zero value is none.
type Encapsulation string

// The encapsulations: two of kernels, and Geneve from this process on a TAP device, for
// kernels that have neither.
const (
	Geneve    Encapsulation = "geneve"
	VXLAN     Encapsulation = "vxlan"
	Userspace Encapsulation = "userspace"
)

// vxlanPort is the UDP port of gateways for VXLAN.
const vxlanPort = 6092

// port is the UDP port that gateways have for it.
func (e Encapsulation) port() uint16 {
	if e == VXLAN {
		return vxlanPort
	}
	return config.DefaultOverlayPort
}

// Support is what a node has.
type Support struct {
	Geneve, VXLAN bool // in the kernel
	Userspace     bool // TAP devices, for this process to serve

	// Lacks says what is missing and why, for people, like "no Geneve (operation not
	// supported)"; empty: nothing is.
	Lacks string
}

// Choose is the encapsulation to use where wanted is asked for, or, if wanted is empty,
// the first there is. The error says what the node lacks.
func (s Support) Choose(wanted Encapsulation) (Encapsulation, error) {
	switch {
	case s.Geneve && wanted != VXLAN:
		return Geneve, nil
	case s.VXLAN && wanted != Geneve:
		return VXLAN, nil
	case wanted == Geneve:
		return "", errors.New("the kernel has no Geneve; load its module geneve, or set encapsulation to auto")
	case wanted == VXLAN:
		return "", errors.New("the kernel has no VXLAN; load its module vxlan, or set encapsulation to auto")
	case s.Userspace:
		return Userspace, nil
	}
	return "", fmt.Errorf("the kernel has neither Geneve nor VXLAN, and this process cannot stand in: %s; load the kernel's module geneve or vxlan", s.Lacks)
}

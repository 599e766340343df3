package node

import (
	"errors"

	"strait.dev/strait/config"
)

// Encapsulation is how frames are wrapped. The zero value is none.
type Encapsulation string

// The encapsulations of kernels.
const (
	Geneve Encapsulation = "geneve"
	VXLAN  Encapsulation = "vxlan"
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

// Support is what a kernel has.
type Support struct{ Geneve, VXLAN bool }

// Choose is the encapsulation to use where wanted is asked for, or, if wanted is empty,
// the first there is. The error says what the kernel lacks.
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
	}
	return "", errors.New("the kernel has neither Geneve nor VXLAN; load its module geneve or vxlan")
}

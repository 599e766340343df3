package rig

import (
	"errors"
	"fmt"
	"net/netip"
)

// Limits are less than a gateway: nothing is translated, so that each shows the cost of one
// part of the path. Their segments are as long as those of P.

func limitSubject(name string, up func(*Rig, *topology) error) *Subject {
	return &Subject{Name: name, up: func(r *Rig, t *topology) error {
		for _, s := range t.sites() {
			err := s.pod.IP(fmt.Sprintf("route replace default via %s advmss %d", s.Router[0], wireGuardMTU-40))
			if err != nil {
				return err
			}
		}
		return up(r, t)
	}}
}

// plainSubject only routes from end to end.
func plainSubject() *Subject {
	return limitSubject(namePlain, func(_ *Rig, t *topology) error {
		return t.each(func(s, other *site) error {
			if err := s.routePlain(other); err != nil {
				return err
			}
			return errors.Join(
				s.gw.IP(route(other.NodePods[0], other.wan[0], "wan")),
				s.node.IP(fmt.Sprintf("route add %s via %s dev gw\n", other.wan[0], s.gwUnderlay[0])),
			)
		})
	})
}

// overlaySubject routes over kernel overlays between nodes and gateways.
func overlaySubject() *Subject {
	return limitSubject(nameOverlay, func(_ *Rig, t *topology) error {
		encapsulation := t.a.node.Encapsulation()
		return t.each(func(s, other *site) error {
			if err := s.joinNode(encapsulation, false); err != nil {
				return err
			}
			if err := s.node.IP(route(other.NodePods[0], gwInternal[0], overlayName)); err != nil {
				return err
			}
			if err := s.joinKernelGateway(encapsulation); err != nil {
				return err
			}
			return s.gw.IP(route(s.NodePods[0], nodeInternal[0], overlayName) + route(other.NodePods[0], other.wan[0], "wan"))
		})
	})
}

// wireGuardSubject routes over WireGuard: the kernel's if no program is given.
func wireGuardSubject(name, program string) *Subject {
	return limitSubject(name, func(r *Rig, t *topology) error {
		device, err := r.wireGuard(t, program, nil)
		if err != nil {
			return err
		}
		return t.each(func(s, other *site) error {
			if err := s.routePlain(other); err != nil {
				return err
			}
			i := 0
			if s == t.b {
				i = 1
			}
			return s.gw.IP(fmt.Sprintf("route add %s dev %s\n", other.NodePods[0], device[i]))
		})
	})
}

// each calls do for both sites, until it fails.
func (t *topology) each(do func(s, other *site) error) error {
	for _, s := range t.sites() {
		if err := do(s, t.other(s)); err != nil {
			return err
		}
	}
	return nil
}

// routePlain connects node and gateway without an overlay.
func (s *site) routePlain(other *site) error {
	if err := s.node.IP(route(other.NodePods[0], s.gwUnderlay[0], "gw")); err != nil {
		return err
	}
	return s.gw.IP(route(s.NodePods[0], s.nodeUnderlay[0], "node"))
}

func route(to netip.Prefix, via netip.Addr, device string) string {
	return fmt.Sprintf("route add %s via %s dev %s\n", to, via, device)
}

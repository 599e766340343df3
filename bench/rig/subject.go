package rig

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
)

// Subject is what is measured: what runs in the gateways' namespaces.
type Subject struct {
	Name string
	// translated: each cluster maps the other's pods to another prefix. With limits it uses
	// their real addresses.
	translated bool
	v6         bool                        // node links and the tunnel run over IPv6
	dualStack  bool                        // carries IPv6 between the pods
	up         func(*Rig, *topology) error // sets up the gateways, and adds their processes
}

// Names of the built-in subjects.
const (
	nameStrait          = "strait"
	nameStraitOver6     = "strait-over-ipv6"
	nameStraitManyNodes = "strait-5000-nodes"
	nameStraitManyPeers = "strait-65-peers"
	nameBaseline        = "baseline"
	nameP               = "P"
	nameP1              = "P1"
	namePlain           = "plain-route"
	nameOverlay         = "overlay-only"
	nameWireGuardGo     = "wireguard-go-only"
	nameWireGuardKernel = "kernel-wireguard"
)

// sees returns the address of a pod for the pod of the other side.
func (s *Subject) sees(other *site, f int) netip.Addr {
	if s.translated {
		return other.PodSeen[f]
	}
	return other.Address[f]
}

// setting is a subject in its topology, ready for traffic.
type setting struct {
	*Subject
	*topology
	running map[*namespace]*end
}

// place builds the topology of a subject, starts its gateways and ends, and waits until
// packets cross. The caller must remove the result, even after an error.
func (r *Rig) place(s *Subject) (p *setting, err error) {
	p = &setting{Subject: s, running: make(map[*namespace]*end)}
	if p.topology, err = r.newTopology(s.Name); err != nil {
		return p, err
	}
	if err := s.up(r, p.topology); err != nil {
		return p, fmt.Errorf("%s: %w", s.Name, err)
	}
	return p, r.awaitTraffic(p)
}

func (p *setting) remove() error {
	var all sync.WaitGroup
	for _, e := range p.running {
		all.Go(e.stop)
	}
	for _, g := range p.processes {
		all.Go(g.stop)
	}
	all.Wait()
	return p.topology.remove()
}

// removeAll removes settings concurrently: gateways take time to drain.
func removeAll(settings map[string]*setting) error {
	failed := make(chan error)
	for _, p := range settings {
		go func() { failed <- p.remove() }()
	}
	var all []error
	for range settings {
		all = append(all, <-failed)
	}
	return errors.Join(all...)
}

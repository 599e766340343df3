package rig

import "fmt"

// idlePeers is how many peerings gateway A has besides the one in use.
const idlePeers = 64

// manyPeersSubject is strait, with peerings in gateway A that wait for a peer which
// never calls. Gateway B has the one peering, and so shows what A would take without
// the others: both have had the same traffic.
func manyPeersSubject(binary string) *Subject {
	return straitSubject(nameStraitManyPeers, binary, straitShape{idlePeers: idlePeers})
}

// idlePeerKeys are public keys of peers that do not exist.
func idlePeerKeys(n int) ([]key, error) {
	keys := make([]key, n)
	for i := range keys {
		pair, err := newKeyPair()
		if err != nil {
			return nil, err
		}
		keys[i] = pair.public
	}
	return keys, nil
}

// perPeering measures the resident memory that one more peering takes.
func perPeering(_ *Rig, p *setting) (metrics, error) {
	var resident [2]float64
	for i, g := range p.processes {
		var err error
		if resident[i], err = g.memory("VmRSS"); err != nil {
			return nil, err
		}
	}
	if resident[0] < resident[1] {
		return nil, fmt.Errorf("a gateway of %d peerings holds %.0f bytes, less than the %.0f of one with 1: the difference is lost in their noise", 1+idlePeers, resident[0], resident[1])
	}
	return metrics{unitPeering: (resident[0] - resident[1]) / idlePeers}, nil
}

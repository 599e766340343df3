package rig

import "fmt"

// idlePeers is the number of peerings of gateway A in addition to the one in use.
const idlePeers = 64

// manyPeersSubject is strait, where gateway A has peerings whose peers never connect.
// Gateway B has only the one peering, and so shows the memory of A without the others: both
// have had the same traffic.
func manyPeersSubject(binary string) *Subject {
	return straitSubject(nameStraitManyPeers, binary, straitShape{idlePeers: idlePeers})
}

// perPeering measures the resident memory of one additional peering.
func perPeering(_ *Rig, p *setting) (metrics, error) {
	var resident [2]float64
	for i, g := range p.processes {
		var err error
		if resident[i], err = g.memory("VmRSS"); err != nil {
			return nil, err
		}
	}
	if resident[0] < resident[1] {
		return nil, fmt.Errorf("a gateway of %d peerings holds %.0f bytes, less than the %.0f of a gateway with 1: the difference is below the noise", 1+idlePeers, resident[0], resident[1])
	}
	return metrics{unitPeering: (resident[0] - resident[1]) / idlePeers}, nil
}

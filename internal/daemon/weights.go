package daemon

import "strait.dev/strait/config"

// linkWeights returns the weight of the links to each remote gateway, by its name. Flows use as few links as their
// even spread over all gateways permits: a gateway with one busy link has batches several times as large
// as one whose packets are divided among many (docs/design/scale.md).
//
// Nodes give each of n local gateways 1/n of the flows, and each of m remote ones is to get 1/m of them all. A
// gateway prefers the remote one of its own ordinal, which takes what its share permits: n/m of the flows of
// the gateway, or all of them if n ≥ m. The remote gateways without a partner get the rest, 1/m of the flows of each
// local one. The flows of a local gateway without a partner go to all remote ones. So each remote gateway gets:
//
//	n < m: 1/n · n/m = 1/m with a partner, n · 1/n · 1/m = 1/m without
//	n ≥ m: 1/n + (n-m) · 1/n · 1/m = 1/m
func linkWeights(w *config.WireGuard) map[string]int {
	var remote []string // in order
	weights := make(map[string]int)
	for i := range w.Peers {
		name := w.Peers[i].RemoteGateway()
		if _, known := weights[name]; !known {
			remote = append(remote, name)
			weights[name] = 0
		}
	}
	n, m := max(w.Replicas, 1), len(remote)
	for ordinal, name := range remote {
		switch {
		case ordinal == w.Ordinal:
			weights[name] = min(n, m)
		case ordinal >= n || w.Ordinal >= m:
			weights[name] = 1
		}
	}
	return weights
}

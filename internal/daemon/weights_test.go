package daemon

import (
	"fmt"
	"math/big"
	"testing"

	"strait.dev/strait/config"
)

// weightsOf are the weights of the links of each of n gateways to m remote ones.
func weightsOf(n, m int) (all [][]int) {
	for ordinal := range n {
		w := config.WireGuard{Ordinal: ordinal, Replicas: n}
		for remote := range m {
			name := fmt.Sprintf("b-%d", remote)
			w.Peers = append(w.Peers, config.Peer{Name: name}, config.Peer{Name: name + ".2", Gateway: name})
		}
		weights := linkWeights(&w)
		row := make([]int, m)
		for remote := range row {
			row[remote] = weights[fmt.Sprintf("b-%d", remote)]
		}
		all = append(all, row)
	}
	return all
}

// Each remote gateway gets exactly its share of the flows, whatever the numbers of gateways.
func TestWeightsShareFlowsEvenlyAmongTheRemoteGateways(t *testing.T) {
	t.Parallel()
	for n := 1; n <= config.MaxReplicas; n++ {
		for m := 1; m <= config.MaxReplicas; m++ {
			got := make([]*big.Rat, m)
			for remote := range got {
				got[remote] = new(big.Rat)
			}
			for _, weights := range weightsOf(n, m) {
				sum := 0
				for _, w := range weights {
					sum += w
				}
				for remote, w := range weights {
					got[remote].Add(got[remote], big.NewRat(int64(w), int64(sum*n)))
				}
			}
			for remote, share := range got {
				if share.Cmp(big.NewRat(1, int64(m))) != 0 {
					t.Errorf("%d gateways give remote gateway %d of %d the share %v", n, remote, m, share)
				}
			}
		}
	}
}

func TestAGatewayUsesOneLinkIfTheRemoteClusterHasAsMany(t *testing.T) {
	t.Parallel()
	for n := 1; n <= config.MaxReplicas; n++ {
		for ordinal, weights := range weightsOf(n, n) {
			for remote, w := range weights {
				if (w > 0) != (remote == ordinal) {
					t.Errorf("gateway %d of %d has the weights %v", ordinal, n, weights)
				}
			}
		}
	}
}

// Of the flows of the gateways that stay, no more move than the gateway that is added is to get.
func TestARemoteGatewayThatIsAddedGetsItsShareAndNoOtherFlowMoves(t *testing.T) {
	t.Parallel()
	share := func(weights []int, remote int) float64 {
		sum := 0
		for _, w := range weights {
			sum += w
		}
		if remote >= len(weights) {
			return 0
		}
		return float64(weights[remote]) / float64(sum)
	}
	for n := 1; n <= config.MaxReplicas; n++ {
		for m := 1; m < config.MaxReplicas; m++ {
			before, after := weightsOf(n, m), weightsOf(n, m+1)
			for ordinal := range n {
				for remote := range m {
					if share(after[ordinal], remote) > share(before[ordinal], remote) {
						t.Errorf("gateway %d of %d gives more flows to remote gateway %d when the remote cluster has %d", ordinal, n, remote, m+1)
					}
				}
			}
		}
	}
}

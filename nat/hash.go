package nat

import (
	"math/rand/v2"

	"strait.dev/strait/packet"
)

// hashKey is a secret: with it unknown, nobody can choose addresses and ports
// that fall into one chain.
type hashKey [4]uint64

func newHashKey(r *rand.Rand) (k hashKey) {
	for i := range k {
		k[i] = r.Uint64()
	}
	return k
}

// hash mixes an address and 64 bits of whatever goes with it. What one table
// adds differs from what another adds, so that none helps to guess the other.
func (k *hashKey) hash(a words, with uint64) uint64 {
	return packet.FoldMul(packet.FoldMul(a.hi^k[0], a.lo^k[1])^k[2], with^k[3])
}

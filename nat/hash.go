package nat

import (
	"math/bits"
	"math/rand/v2"
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
	return fold(fold(a.hi^k[0], a.lo^k[1])^k[2], with^k[3])
}

// fold is the 128-bit product of two words, folded.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

package endpoint

import (
	"bytes"
	"encoding/binary"
)

// Marker is in every payload of one run, and nowhere else. It is random, but not a secret.
type Marker [16]byte

// block is the distance of markers in bytes: the other half of a block depends on its
// position in the stream.
const block = 2 * len(Marker{})

// fill fills b with the run's stream from offset on.
func (m Marker) fill(b []byte, offset int64) {
	for len(b) > 0 {
		one, begin := m.block(offset/int64(block)), offset%int64(block)
		n := copy(b, one[begin:])
		b, offset = b[n:], offset+int64(n)
	}
}

// wrong returns where b differs from the run's stream from offset on; -1: nowhere.
func (m Marker) wrong(b []byte, offset int64) int {
	at := 0
	for at < len(b) {
		one, begin := m.block((offset+int64(at))/int64(block)), (offset+int64(at))%int64(block)
		want := one[begin:]
		want = want[:min(len(want), len(b)-at)]
		if !bytes.Equal(b[at:at+len(want)], want) {
			for i := range want {
				if b[at+i] != want[i] {
					return at + i
				}
			}
		}
		at += len(want)
	}
	return -1
}

func (m Marker) block(number int64) (b [block]byte) {
	copy(b[:], m[:])
	x := uint64(number)
	for i := len(m); i < block; i += 8 { // splitmix64: consecutive numbers give unrelated values
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.BigEndian.PutUint64(b[i:], z^z>>31)
	}
	return b
}

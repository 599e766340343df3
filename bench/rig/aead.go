//go:build linux

package rig

import (
	"runtime"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"strait.dev/strait/bench/measure"
)

// The sizes of one full TCP segment in a tunnel, in bytes.
const (
	segmentPayload = wireGuardMTU - 40 // TCP payload
	crossingSize   = wireGuardMTU + 32 // the UDP payload that carries it: plus WireGuard's header and tag
	crossingRate   = 130_000           // datagrams per second: 1.5 Gbit/s
	crossingBurst  = 64                // a gateway's batch
)

// aead measures WireGuard's cipher: sealing and opening one full segment.
func aead(d time.Duration) (metrics, error) {
	runtime.LockOSThread() // ThreadTime reads the clock of the thread
	defer runtime.UnlockOSThread()
	cipher, err := chacha20poly1305.New(make([]byte, chacha20poly1305.KeySize))
	if err != nil {
		return nil, err
	}
	var nonce [chacha20poly1305.NonceSize]byte
	plain := make([]byte, wireGuardMTU)
	sealed := make([]byte, 0, wireGuardMTU+cipher.Overhead())
	before, err := measure.ThreadTime()
	if err != nil {
		return nil, err
	}
	segments, start := 0, time.Now()
	for time.Since(start) < d {
		for range 100 {
			sealed = cipher.Seal(sealed[:0], nonce[:], plain, nil)
			if _, err := cipher.Open(plain[:0], nonce[:], sealed, nil); err != nil {
				return nil, err
			}
		}
		segments += 100
	}
	after, err := measure.ThreadTime()
	return metrics{unitCPU: (after - before).Seconds() / (float64(segments) * segmentPayload / 1e9)}, err
}

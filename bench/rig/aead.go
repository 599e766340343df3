//go:build linux

package rig

import (
	"runtime"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/sys/unix"
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
	runtime.LockOSThread() // threadCPU reads the clock of the thread
	defer runtime.UnlockOSThread()
	cipher, err := chacha20poly1305.New(make([]byte, chacha20poly1305.KeySize))
	if err != nil {
		return nil, err
	}
	var nonce [chacha20poly1305.NonceSize]byte
	plain := make([]byte, wireGuardMTU)
	sealed := make([]byte, 0, wireGuardMTU+cipher.Overhead())
	segments, start, before := 0, time.Now(), threadCPU()
	for time.Since(start) < d {
		for range 100 {
			sealed = cipher.Seal(sealed[:0], nonce[:], plain, nil)
			if _, err := cipher.Open(plain[:0], nonce[:], sealed, nil); err != nil {
				return nil, err
			}
		}
		segments += 100
	}
	used := threadCPU() - before
	return metrics{unitCPU: used.Seconds() / (float64(segments) * segmentPayload / 1e9)}, nil
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // fails only for unknown clocks
	return time.Duration(t.Nano())
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/internal/plan"
)

// idlePeerings measures the memory of a peering without traffic: the difference between a
// gateway with one and one with more peerings, divided by their number.
func idlePeerings(_ context.Context, e effort) (map[string]float64, error) {
	one, err := memoryWith(1)
	if err != nil {
		return nil, err
	}
	many, err := memoryWith(1 + e.peerings)
	if err != nil {
		return nil, err
	}
	return map[string]float64{"B/peering": max(0, many-one) / float64(e.peerings)}, nil
}

// memoryWith returns the memory in bytes that a gateway with that many peerings adds to
// this process. The peers do not exist.
func memoryWith(peerings int) (_ float64, err error) {
	names := []string{"own"}
	for i := range peerings {
		names = append(names, fmt.Sprintf("peer-%d", i))
	}
	keys, err := newKeys(names...)
	if err != nil {
		return 0, err
	}
	defer func() { _ = keys.remove() }()
	w := config.WireGuard{PrivateKeyFile: keys.file("own")}
	for _, name := range names[1:] {
		w.Peers = append(w.Peers, config.Peer{Name: name, PublicKey: keys.public[name]})
	}
	overlay, err := plan.FreeUDP()
	if err != nil {
		return 0, err
	}
	c := plan.A.Config(overlay, w)
	before, err := settledMemory()
	if err != nil {
		return 0, err
	}
	d, err := daemon.Start(c, daemon.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	after, err := settledMemory()
	return after - before, err
}

// settledMemory is the resident memory of this process in bytes without garbage.
func settledMemory() (float64, error) {
	runtime.GC() // finalizers first
	debug.FreeOSMemory()
	n, err := measure.Resident()
	return float64(n), err
}

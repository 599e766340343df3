package ipam_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Up to three writers, with wants of their own and in common, want blocks of
// several lengths out of one pool, crash, read what is long past, and change
// their minds. Then they carry on undisturbed.
func TestT19_RacingWritersNeverUseOverlappingGrantsAndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	pool := pfx("10.64.0.0/16")
	for round := range uint64(1000) {
		random := rand.New(rand.NewPCG(round, 12))
		possible := []want{
			{owner: "b", wanted: pfx("10.0.0.0/20")}, {owner: "b", wanted: pfx("10.0.16.0/24")}, {owner: "c", wanted: pfx("10.0.0.0/22")},
			{owner: "c", wanted: pfx("10.64.4.0/23")}, {owner: "node-1", addrsOf: pool}, {owner: "node-2", addrsOf: pool},
		}
		w := &world{store: store{claims: map[string]stored{}}, writers: make([]writer, 2+round%2), pool: pool}
		for range 150 {
			who := random.IntN(len(w.writers))
			a := &w.writers[who]
			switch random.IntN(20) {
			case 0:
				a.todo = nil // a crash, and a restart when it is next its turn
			case 1:
				n := possible[random.IntN(len(possible))]
				if i := slices.Index(a.wants, n); i >= 0 {
					a.wants = slices.Delete(a.wants, i, i+1)
				} else {
					a.wants = append(a.wants, n)
				}
			default:
				w.step(t, who, random.IntN(1+random.IntN(10)))
			}
			if found := w.conflictInUse(); found != "" {
				t.Fatalf("round %d: both in use:\n%s", round, found)
			}
		}
		for moves := 0; !w.settled(); moves++ {
			w.step(t, random.IntN(len(w.writers)), 0)
			if found := w.conflictInUse(); found != "" {
				t.Fatalf("round %d: both in use:\n%s", round, found)
			}
			if moves == 500 {
				t.Fatalf("round %d: still not settled: %+v", round, w.store.list(0))
			}
		}
	}
}

// Every state that two writers can reach whose lowest free blocks overlap, in
// every order of requests and crashes, with lists that are up to two changes old.
func TestNoOrderOfMovesPutsOverlappingGrantsInUse(t *testing.T) {
	t.Parallel()
	start := &world{store: store{claims: map[string]stored{}}, pool: pfx("10.64.0.0/16"), writers: []writer{
		{wants: []want{{owner: "b", wanted: pfx("10.0.0.0/20")}}},
		{wants: []want{{owner: "c", wanted: pfx("10.0.0.0/22")}}},
	}}
	seen, settled := map[string]bool{}, 0
	for next := []*world{start}; len(next) > 0; {
		w := next[len(next)-1]
		next = next[:len(next)-1]
		key := fmt.Sprint(w.store.history, w.writers)
		if seen[key] {
			continue
		}
		seen[key] = true
		if found := w.conflictInUse(); found != "" {
			t.Fatalf("both in use:\n%s\nafter %+v", found, w.store.history)
		}
		if w.settled() {
			settled++
		}
		for who := range w.writers {
			for age := range 3 {
				after := w.clone()
				after.step(t, who, age)
				next = append(next, after)
			}
			crashed := w.clone()
			crashed.writers[who].todo = nil
			next = append(next, crashed)
		}
	}
	if settled == 0 {
		t.Errorf("%d states, and none in which both writers have what they want", len(seen))
	}
}

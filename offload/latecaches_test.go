package offload_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/protocol"
)

// exchange lets both agents talk, with an up-to-date cache of the borrower.
func (w *world) exchange() {
	b := w.borrowers[len(w.borrowers)-1]
	w.listen(b)
	b.cache = sorted(w.pods)
	w.borrow(b)
	for _, text := range w.inFlight {
		w.deliver(text)
	}
	w.inFlight = nil
}

// stored returns a world with a pod whose record was stored just now. The lender's caches do not
// show that, and show nothing else until the test says so.
func stored(t *testing.T) *world {
	w := newWorld(t, 1)
	w.createPod("web-0", corev1.RestartPolicyNever)
	for w.records["web-0"] == nil {
		w.exchange()
		w.lendAll()
	}
	w.turmoil = 70
	w.lending.records = nil
	return w
}

// running is a world whose pod has a twin that the lender has noted.
func running(t *testing.T) *world {
	w := stored(t)
	for range 3 {
		w.lendAll()
	}
	return w
}

// An API server that has a record or twin, and a cache that does not show it, or still shows what
// is gone. The world fails the test if a write then does harm.
func TestLateCachesDoNoHarm(t *testing.T) {
	t.Parallel()
	t.Run("a pod with a record is not gone", func(t *testing.T) {
		t.Parallel()
		w := stored(t)
		w.deletePod("web-0")
		for range 3 {
			w.exchange()
			w.lend()
		}
		if w.pods["web-0"] == nil {
			t.Error("the consumer was told that the pod is gone, and it has a record")
		}
	})
	t.Run("a twin is not made for a record that has changed", func(t *testing.T) {
		t.Parallel()
		w := stored(t)
		w.lendAll() // makes the twin
		before := sorted(w.records)
		w.lendAll() // notes it
		w.killTwin("web-0")
		delete(w.twins, "web-0")
		w.lending.records, w.lending.twins = before, nil
		w.lend()
		if w.twins["web-0"] != nil {
			t.Error("it has a second twin")
		}
	})
	t.Run("a twin that exists is not lost", func(t *testing.T) {
		t.Parallel()
		w := running(t)
		w.lending.twins = nil
		w.lend()
		if w.final[string(w.pods["web-0"].UID)] {
			t.Error("it is recorded as failed")
		}
	})
	t.Run("a record with a twin stays", func(t *testing.T) {
		t.Parallel()
		w := running(t)
		w.deletePod("web-0")
		w.exchange()
		w.lendAll() // marks the record
		w.lending.records, w.lending.twins = sorted(w.records), nil
		w.lend()
		if w.records["web-0"] == nil {
			t.Error("it is deleted before its twin")
		}
	})
	t.Run("a record that was stored late gets no first twin without a list", func(t *testing.T) {
		t.Parallel()
		w := stored(t)
		w.startLender()
		w.lendAll()
		if w.twins["web-0"] != nil {
			t.Error("a twin is made")
		}
	})
	t.Run("a twin that was made late ends", func(t *testing.T) {
		t.Parallel()
		w := running(t)
		delete(w.records, "web-0")
		delete(w.live, string(w.pods["web-0"].UID))
		w.lendAll()
		if w.twins["web-0"].DeletionTimestamp == nil {
			t.Error("a twin without a record goes on")
		}
	})
}

// A list that is delivered when its lender has restarted names a pod that ended in the meantime.
func TestAListForAFormerRunOfTheLenderHasNoEffect(t *testing.T) {
	t.Parallel()
	w := running(t)
	w.turmoil = 0
	b := w.borrowers[0]
	list, objects := borrower.List(sorted(w.pods), describe, b.shelf)
	late, err := protocol.Desired{Epoch: w.lending.state.Epoch, Term: b.term, Sequence: b.sequence + 1000, Pods: list, Objects: objects}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.deletePod("web-0")
	w.heal()
	if w.pods["web-0"] != nil || w.records["web-0"] != nil {
		t.Fatal("the pod did not end")
	}
	w.startLender()
	w.deliver(late)
	w.lendAll()
	if len(w.lending.statuses) != 0 {
		t.Errorf("the lender speaks of %+v", w.lending.statuses[0])
	}
}

package offload_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// step is one random event.
func (w *world) step() {
	w.now, w.jobsEnd = w.now.Add(time.Second), true
	name := pick(w, names)
	switch w.rand.IntN(26) {
	case 0, 1:
		w.createPod(name, pick(w, []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}))
	case 2:
		if w.chance(30 + w.turmoil) {
			w.deletePod(name)
		}
	case 3:
		if w.chance(50 + w.turmoil) {
			w.killTwin(name)
		}
	case 4, 5, 6:
		w.kubelet(name)
	case 7, 8, 9:
		w.borrow(pick(w, w.borrowers))
	case 10, 11, 12:
		w.lend()
	case 13, 14:
		w.listen(pick(w, w.borrowers))
	case 15, 16:
		w.carry()
	case 17:
		if w.chance(40 + w.turmoil) {
			w.fail()
		}
	case 20:
		w.changePod(name)
	case 18:
		w.consumerUp, w.providerUp, w.linkUp = w.chance(80), w.chance(80), w.chance(80)
	case 19:
		for _, config := range configs {
			if !w.chance(30) {
				continue
			}
			if w.configs[config] != "" && w.chance(10) {
				w.deleteConfig(config)
			} else {
				w.setConfig(config)
			}
		}
	default:
		w.consumerUp, w.providerUp, w.linkUp = true, true, true
	}
}

// carry delivers one of the lists in flight: an old one, a part of one, or one that stays in
// flight and arrives again.
func (w *world) carry() {
	if len(w.inFlight) == 0 {
		return
	}
	i := w.rand.IntN(len(w.inFlight))
	text := w.inFlight[i]
	if w.chance(10) {
		text = text[:w.rand.IntN(len(text))]
	}
	w.deliver(text)
	if !w.chance(20 + w.turmoil/2) {
		w.inFlight = append(w.inFlight[:i:i], w.inFlight[i+1:]...)
	}
}

// fail restarts an agent. An old borrower may go on beside the new one.
func (w *world) fail() {
	switch {
	case w.chance(50) && w.providerUp:
		w.startLender()
	case w.consumerUp:
		w.startBorrower(w.chance(50))
	}
}

// heal lets everything work, without other events, for long enough to reach a common state.
func (w *world) heal() {
	w.consumerUp, w.providerUp, w.linkUp, w.jobsEnd = true, true, true, false
	if _, exists := w.configs[configs[0]]; !exists {
		w.setConfig(configs[0])
	}
	w.borrowers = w.borrowers[len(w.borrowers)-1:]
	for range 60 {
		w.now = w.now.Add(10 * time.Second)
		b := w.borrowers[0]
		w.listen(b)
		b.cache = sorted(w.pods)
		b.sent = ""
		w.borrow(b)
		for len(w.inFlight) > 0 {
			w.carry()
		}
		w.lending.fill(w)
		w.lend()
		for _, name := range names {
			w.kubelet(name)
		}
	}
}

// differences returns what is not the same in both clusters.
func (w *world) differences() (all []string) {
	report := func(format string, values ...any) { all = append(all, fmt.Sprintf(format, values...)) }
	for _, name := range names {
		pod, record, twin := w.pods[name], w.records[name], w.twins[name]
		switch {
		case pod == nil && (record != nil || twin != nil):
			report("%s is gone, and has a record or a twin", name)
		case pod == nil:
		case pod.DeletionTimestamp != nil:
			report("%s is still terminating", pod.UID)
		case translate.Final(pod.Status.Phase):
		case record == nil || record.Labels[translate.OriginLabel] != string(pod.UID):
			report("%s has no record", pod.UID)
		case twin == nil || twin.Labels[translate.OriginLabel] != string(pod.UID):
			report("%s has no twin", pod.UID)
		case pod.Status.Phase != twin.Status.Phase:
			report("%s is %s, its twin %s", pod.UID, pod.Status.Phase, twin.Status.Phase)
		case pod.Labels["change"] != twin.Labels["change"] || pod.Spec.Containers[0].Image != twin.Spec.Containers[0].Image:
			report("%s has the change %q, its twin %q", pod.UID, pod.Labels["change"], twin.Labels["change"])
		}
	}
	used := slices.ContainsFunc(slices.Collect(maps.Values(w.pods)), func(p *corev1.Pod) bool { return !translate.Final(p.Status.Phase) })
	for _, name := range configs {
		value, exists := w.configs[name]
		is := w.copies[name]
		switch {
		case is != nil && !used:
			report("ConfigMap %s has a copy that no pod needs", name)
		case exists && used && is == nil:
			report("ConfigMap %s has no copy", name)
		case is != nil && is.Data["value"] != value:
			report("ConfigMap %s has the value %q, its copy %q", name, value, is.Data["value"])
		}
	}
	return all
}

// Whatever stops between any two requests: no twin is made of a pod that the consumer removed on
// the word of the lender, or that has finished; none is deleted that the consumer wants; a pod
// object is removed only when it was deleted and has no twin; phases only advance; no twin starts
// without its ConfigMap, and no copy is deleted that a pod needs. The world
// checks these in every write. And once everything works, both clusters have the same pods.
func TestNothingIsLostOrDoubledWhateverStops(t *testing.T) {
	t.Parallel()
	var twins, removed, finished int
	seeds := 300
	if raceflag.Enabled {
		seeds = 30 // the world has one goroutine
	}
	for seed := range uint64(seeds) {
		w := newWorld(t, seed)
		w.turmoil = int(seed%3) * 30
		for range 700 {
			w.step()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		w.heal()
		if found := w.differences(); len(found) > 0 || t.Failed() {
			t.Fatalf("seed %d: %v", seed, found)
		}
		for _, n := range w.made {
			twins += n
		}
		removed, finished = removed+len(w.removed), finished+len(w.final)
	}
	t.Logf("%d twins, %d pods removed, %d finished", twins, removed, finished)
	if twins < 3*seeds/2 || removed < 2*seeds || finished < seeds {
		t.Error("hardly anything happened: the test shows little")
	}
}

// settled returns a world in which pods run, and how they are called.
func settled(t *testing.T) *world {
	w := newWorld(t, 1)
	w.createPod("web-0", corev1.RestartPolicyAlways)
	w.createPod("job", corev1.RestartPolicyOnFailure)
	w.heal()
	return w
}

// The rows of the table of failures that concern pods, each from a settled state.
func TestEachFailureEndsAsItHasTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail func(w *world)       // both are apart
		then func(w *world) error // before they meet again
		end  func(w *world) error // after that
	}{
		"the link is cut and a twin is killed: the provider makes it again alone": {
			func(w *world) { w.linkUp = false; w.killTwin("web-0"); delete(w.twins, "web-0") },
			func(w *world) error { return expect(w.twins["web-0"] != nil, "no new twin") },
			func(w *world) error {
				return expect(w.pods["web-0"].Status.Phase == corev1.PodRunning && w.made[string(w.pods["web-0"].UID)] == 2, "%v", w.pods["web-0"].Status.Phase)
			},
		},
		"the link is cut and the consumer deletes a pod: it stays until the provider has ended it": {
			func(w *world) { w.linkUp = false; w.deletePod("web-0") },
			func(w *world) error {
				return expect(w.pods["web-0"] != nil && w.twins["web-0"] != nil && w.twins["web-0"].DeletionTimestamp == nil, "one of them ended")
			},
			func(w *world) error { return expect(w.pods["web-0"] == nil && w.twins["web-0"] == nil, "both exist") },
		},
		"the link is cut and a job finishes: that is reported, and it does not run again": {
			func(w *world) { w.linkUp = false; w.twins["job"].Status.Phase = corev1.PodSucceeded },
			func(w *world) error { return expect(w.final[string(w.pods["job"].UID)], "not recorded") },
			func(w *world) error {
				return expect(w.pods["job"].Status.Phase == corev1.PodSucceeded && w.made[string(w.pods["job"].UID)] == 1, "%+v", w.pods["job"].Status)
			},
		},
		"the link is cut, a job finishes, and its twin is removed": {
			func(w *world) {
				w.linkUp = false
				w.twins["job"].Status.Phase = corev1.PodSucceeded
				w.lendAll()
				delete(w.twins, "job")
			},
			func(w *world) error { return expect(w.twins["job"] == nil, "it runs again") },
			func(w *world) error {
				return expect(w.pods["job"].Status.Phase == corev1.PodSucceeded, "%+v", w.pods["job"].Status)
			},
		},
		"a twin with a restart policy that permits one run is lost": {
			func(w *world) { delete(w.twins, "job") },
			func(w *world) error { return expect(w.twins["job"] == nil, "it runs again") },
			func(w *world) error {
				return expect(w.pods["job"].Status.Phase == corev1.PodFailed && w.pods["job"].Status.Reason == "TwinLost", "%+v", w.pods["job"].Status)
			},
		},
		"the consumer replaces a pod by force while the link is cut: the old twin ends first": {
			func(w *world) {
				w.linkUp = false
				delete(w.live, string(w.pods["web-0"].UID))
				delete(w.pods, "web-0")
				w.createPod("web-0", corev1.RestartPolicyAlways)
			},
			func(w *world) error {
				return expect(w.twins["web-0"].Labels[translate.OriginLabel] != string(w.pods["web-0"].UID), "two at once")
			},
			func(w *world) error {
				return expect(w.twins["web-0"].Labels[translate.OriginLabel] == string(w.pods["web-0"].UID), "the old one runs")
			},
		},
		"the consumer's API server and its borrower are gone: nothing changes": {
			func(w *world) { w.consumerUp = false; w.borrowers[0].cache = nil; w.borrowers[0].heard = nil },
			func(w *world) error { return expect(w.twins["web-0"].DeletionTimestamp == nil, "it ends") },
			func(w *world) error { return nil },
		},
		"the lender restarts while its borrower is away, after a deletion began": {
			func(w *world) {
				w.deletePod("web-0")
				w.listen(w.borrowers[0])
				w.borrowers[0].cache = sorted(w.pods)
				w.borrow(w.borrowers[0])
				for len(w.inFlight) > 0 {
					w.carry()
				}
				w.lendAll()
				w.linkUp = false
				w.startLender()
			},
			func(w *world) error { return expect(w.twins["web-0"] == nil, "made again") },
			func(w *world) error { return expect(w.pods["web-0"] == nil, "it stays") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := settled(t)
			c.fail(w)
			for range 20 {
				w.lendAll()
				for _, b := range w.borrowers {
					w.borrow(b)
				}
				for _, name := range names {
					w.kubelet(name)
				}
			}
			if err := c.then(w); err != nil {
				t.Errorf("apart: %v", err)
			}
			w.heal()
			if err := c.end(w); err != nil {
				t.Errorf("together again: %v", err)
			}
			if found := w.differences(); len(found) > 0 {
				t.Error(found)
			}
		})
	}
}

// lendAll is a pass of the lender whose caches are up to date.
func (w *world) lendAll() {
	w.lending.fill(w)
	w.lend()
}

func expect(is bool, otherwise string, values ...any) error {
	if is {
		return nil
	}
	return fmt.Errorf(otherwise, values...)
}

// A borrower that was paused and goes on beside its successor has an old view: its list must not
// end the successor's pods.
func TestAFormerBorrowerChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.heal()
	former := w.borrowers[0]
	former.heard = w.lending
	w.startBorrower(true)
	current := w.borrowers[1]
	w.createPod("web-0", corev1.RestartPolicyAlways)
	for range 10 {
		w.listen(current)
		current.cache = sorted(w.pods)
		w.borrow(current)
		for len(w.inFlight) > 0 {
			w.carry()
		}
		w.lendAll()
	}
	former.sequence += 1000
	text, err := protocol.Desired{Epoch: w.lending.state.Epoch, Term: former.term, Sequence: former.sequence}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.deliver(text)
	w.lendAll()
	if w.twins["web-0"] == nil || w.twins["web-0"].DeletionTimestamp != nil {
		t.Error("the list of the former borrower ended a pod of the current one")
	}
	w.startLender() // which has the term from before
	w.deliver(text)
	w.lendAll()
	if w.twins["web-0"].DeletionTimestamp != nil {
		t.Error("after a restart of the lender, it did")
	}
}

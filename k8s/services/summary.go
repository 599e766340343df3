package services

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/client"
)

// summaryDelay is the time for which changes of verdicts are collected: every node watches
// the Peerings in whose status summaries are.
const summaryDelay = 5 * time.Second

// Summary says what is imported from the remote cluster of a Peering.
type Summary struct {
	Imported, Refused, Failed int32  // Services
	Message                   string // names Services that are refused or failed, and why; empty: none are
}

// summaries are the current summaries by Peering; nil: not known yet.
type summaries struct {
	atomic.Pointer[map[string]Summary]
}

// Summary returns the summary of a Peering. It is false until it is known.
func (c *Controller) Summary(peering string) (Summary, bool) {
	all := c.summaries.Load()
	if all == nil {
		return Summary{}, false
	}
	return (*all)[peering], true
}

// verdict is the decision on a remote cluster's export.
type verdict struct {
	imported bool
	failed   bool   // this cluster could not import it
	message  string // why it is refused or failed, or what is not imported of it
}

// judgeImport records that the exports of remote clusters are not imported because objects of
// the import could not be written, or are not usable. A write that came too early or too late
// is repeated at once, and is no failure.
func (r *reconciliation) judgeImport(all []source, err error) {
	ready := r.importReady
	var is verdict
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return
	case err != nil:
		is = verdict{failed: true, message: err.Error()}
	case ready.Status != metav1.ConditionFalse:
		return
	default: // what this cluster cannot have is refused
		is = verdict{failed: ready.Reason == string(mcsv1beta1.ServiceImportReasonPending), message: ready.Message}
	}
	for _, one := range all {
		if r.verdicts[one.peering].imported {
			r.verdicts[one.peering] = is
		}
	}
}

// verdicts are all verdicts, by Service and by Peering. Safe for concurrent use.
type verdicts struct {
	mu        sync.Mutex
	byService map[key]map[string]verdict
}

func (w *work) judge(k key, is map[string]verdict) {
	if w.judged.set(k, is) {
		w.queue.AddAfter(key{}, summaryDelay)
	}
}

func (v *verdicts) set(k key, is map[string]verdict) (changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if maps.Equal(v.byService[k], is) {
		return false
	}
	if len(is) == 0 {
		delete(v.byService, k)
	} else {
		v.byService[k] = is
	}
	return true
}

func (v *verdicts) peerings(k key) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Keys(v.byService[k]))
}

const maxNamed = 3

// maxSummary is the maximum length of a summary's message in the API, in bytes.
const maxSummary = 1024

func (w *work) summarize() {
	all := make(map[string]Summary)
	named := make(map[string][]string)
	w.judged.mu.Lock()
	for _, k := range slices.SortedFunc(maps.Keys(w.judged.byService), func(a, b key) int { return strings.Compare(a.String(), b.String()) }) {
		for peering, v := range w.judged.byService[k] {
			s := all[peering]
			switch {
			case v.imported:
				s.Imported++
			case v.failed:
				s.Failed++
			default:
				s.Refused++
			}
			all[peering] = s
			if v.message != "" {
				named[peering] = append(named[peering], fmt.Sprintf("%s: %s", k, v.message))
			}
		}
	}
	w.judged.mu.Unlock()
	for peering, texts := range named {
		s := all[peering]
		s.Message = strings.Join(texts[:min(len(texts), maxNamed)], "; ")
		if more := len(texts) - maxNamed; more > 0 {
			s.Message += fmt.Sprintf("; and %d more", more)
		}
		s.Message = client.Clip(s.Message, maxSummary)
		all[peering] = s
	}
	if was := w.summaries.Swap(&all); was == nil || !maps.Equal(*was, all) {
		w.Changed()
	}
}

// Package podaddresses writes the addresses of pods that lie in no podCIDR into the
// NodeAttachments of their nodes, while pods come, go and move.
package podaddresses

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/cidrs"
)

const (
	podInterval = time.Second            // minimum interval between two writes for one node
	podPause    = 100 * time.Millisecond // minimum interval between two evaluations of all pods
	podShare    = 4                      // evaluations use at most one part in podShare+1 of one CPU
	podWriters  = 8                      // maximum number of requests at a time
	podTimeout  = 10 * time.Second       // request timeout
)

// Publisher writes spec.podAddresses of NodeAttachments: the addresses of pods outside of their node's podCIDRs.
type Publisher struct {
	Options
	pods     *clusterPods                    // of all namespaces
	changed  client.Signal                   // requests an evaluation of all pods
	reserved atomic.Pointer[[]ipam.Reserved] // prefixes that no pod may have an address in; nil before the first call of reserve
	count    atomic.Int64                    // problems
}

// Options configure a publisher.
type Options struct {
	Client      *client.Client
	Manager     string // of the fields that it applies
	Attachments *client.Cache[*v1alpha1.NodeAttachment]
	Nodes       *client.Cache[*corev1.Node]
	Log         *slog.Logger
}

// New returns a publisher that follows the caches, which must not run yet.
func New(o Options) (*Publisher, error) {
	p := &Publisher{Options: o, changed: make(client.Signal, 1)}
	p.pods = newClusterPods(o.Client.Pods(""), p.podCIDRs, p.changed.Set)
	return p, errors.Join(p.pods.follow(o.Nodes), p.follow())
}

// Track keeps the pods up to date until ctx ends. The cache of nodes must be complete: podCIDRs determine which pods are kept.
func (p *Publisher) Track(ctx context.Context) { p.pods.run(ctx) }

// Listed reports whether all pods were listed once.
func (p *Publisher) Listed() bool { return p.pods.listed() }

// Problems returns the number of problems: pods that remote clusters cannot reach.
func (p *Publisher) Problems() int64 { return p.count.Load() }

// Reserve sets the prefixes that no pod may have an address in. Until the first call, nothing is written.
func (p *Publisher) Reserve(all []ipam.Reserved) {
	p.reserved.Store(&all)
	p.changed.Set()
}

// Run writes as pods change, until ctx ends. Evaluations go on while requests run, so a slow request delays only the pods of
// its node, and those whose address the node has to give up first.
func (p *Publisher) Run(ctx context.Context) {
	state := publishing{Publisher: p, last: make(map[string]*podWrite)}
	defer state.count.Store(0) // those of the next leader count
	start, ended := make(chan *podWrite), make(chan podEnd, podWriters)
	var writers sync.WaitGroup
	defer writers.Wait()
	defer close(start)
	for range podWriters {
		writers.Go(func() {
			for w := range start {
				ended <- podEnd{w, p.perform(ctx, w)}
			}
		})
	}
	changed := p.changed // nil: not yet, after an evaluation
	var rested, due <-chan time.Time
	for {
		var next *podWrite
		var free chan<- *podWrite // a writer without a request
		if len(state.queue) > 0 {
			next, free = state.queue[0], start
		}
		select {
		case <-ctx.Done():
			return
		case free <- next:
			state.started(next, time.Now())
		case end := <-ended:
			end.outcome = end.result
			p.changed.Set() // the node may be written again
		case <-due:
			p.changed.Set()
		case <-rested:
			changed = p.changed
		case <-changed:
			begun := time.Now()
			due = nil
			if wait := state.evaluate(begun); wait > 0 {
				due = time.After(wait)
			}
			changed, rested = nil, time.After(max(podPause, podShare*time.Since(begun)))
		}
	}
}

// follow requests an evaluation of all pods when the addresses of a node's pods have changed.
func (p *Publisher) follow() error {
	_, err := p.Attachments.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.changed.Set() },
		DeleteFunc: func(any) { p.changed.Set() },
		UpdateFunc: func(was, is any) {
			a, b := was.(*v1alpha1.NodeAttachment), is.(*v1alpha1.NodeAttachment)
			if a.UID != b.UID || !slices.Equal(a.Spec.PodAddresses, b.Spec.PodAddresses) {
				p.changed.Set()
			}
		},
	})
	return err
}

type publishing struct {
	*Publisher
	queue   []*podWrite          // writes that have not started; the first one is the next
	holders podHolders           // of the last evaluation; nil: there was none
	last    map[string]*podWrite // the last write that was started, by node; none: it is over, and its interval too
	logged  []string             // the problems that were logged last
}

func (p *publishing) started(w *podWrite, now time.Time) {
	p.queue = p.queue[1:]
	w.at = now
	p.last[w.to.Name] = w
}

// evaluate compares all pods with what nodes have, and replaces the queue by writes of what differs. An address that moves
// is removed from its old node before its new node gets it. After the time that evaluate returns, nodes can be written
// that it had to leave out; 0: only a change requires another evaluation.
func (p *publishing) evaluate(now time.Time) (wait time.Duration) {
	p.queue = nil
	reserved := p.reserved.Load()
	if reserved == nil {
		return 0 // the first pass requests an evaluation
	}
	if p.holders == nil { // what an earlier controller has decided
		p.holders = attachedHolders(p.Attachments.List())
	}
	wanted, owners, problems := podAddresses(p.pods.list(), p.Nodes.List(), *reserved, p.holders)
	p.holders = owners
	p.report(problems)
	maps.DeleteFunc(p.last, func(node string, w *podWrite) bool {
		cached, _ := p.Attachments.Get(node)
		return !w.open(cached) && w.hold(cached, now) == 0
	})
	attachments := p.Attachments.List()
	var leaving bart.Lite // addresses that are still to be removed from a node
	lost := make([][]netip.Prefix, len(attachments))
	for i, a := range attachments {
		lost[i] = parsed(append(without(a.Spec.PodAddresses, wanted[a.Name]), without(p.unseen(a), wanted[a.Name])...))
		insertAll(&leaving, lost[i])
	}
	var gaining []*podWrite
	for i, a := range attachments {
		last, to := p.last[a.Name], wanted[a.Name]
		if last == nil && slices.Equal(to, a.Spec.PodAddresses) {
			continue
		}
		removeAll(&leaving, lost[i])
		to = possible(a.Spec.PodAddresses, to, &leaving)
		insertAll(&leaving, lost[i])
		w := &podWrite{had: p.unseen(a), to: &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: a.Name, UID: a.UID, ResourceVersion: a.ResourceVersion}, Spec: a.Spec}}
		w.to.Spec.PodAddresses = to
		switch hold := last.hold(a, now); {
		case !last.open(a) && slices.Equal(to, a.Spec.PodAddresses):
		case hold > 0:
			if wait == 0 || hold < wait {
				wait = hold
			}
		case len(lost[i]) > 0:
			p.queue = append(p.queue, w)
		default:
			gaining = append(gaining, w)
		}
	}
	p.queue = append(p.queue, gaining...)
	return wait
}

// unseen returns what a node has, or may have, that its cached attachment need not show.
func (p *publishing) unseen(cached *v1alpha1.NodeAttachment) []v1alpha1.CIDR {
	w := p.last[cached.Name]
	if !w.open(cached) {
		return nil
	}
	return append(slices.Clone(w.had), w.to.Spec.PodAddresses...)
}

// possible returns the addresses that a node may have now: what it shall have, but of what
// overlaps leaving addresses of other nodes only what it has already.
func possible(has, wanted []v1alpha1.CIDR, leaving *bart.Lite) (now []v1alpha1.CIDR) {
	var all, waiting []netip.Prefix
	for _, p := range parsed(wanted) {
		if leaving.OverlapsPrefix(p) {
			waiting = append(waiting, p)
		} else {
			all = append(all, p)
		}
	}
	if len(waiting) == 0 {
		return wanted
	}
	for _, p := range parsed(has) {
		within := func(w netip.Prefix) bool { return w.Bits() <= p.Bits() && w.Contains(p.Addr()) }
		if slices.ContainsFunc(waiting, within) {
			all = append(all, p)
		}
	}
	return cidrs.Texts(cidrs.Merged(all))
}

func without(all, other []v1alpha1.CIDR) []v1alpha1.CIDR {
	return slices.DeleteFunc(slices.Clone(all), func(p v1alpha1.CIDR) bool { return slices.Contains(other, p) })
}

func parsed(texts []v1alpha1.CIDR) []netip.Prefix {
	all, _ := cidrs.Parse(texts) // written by this controller, and validated by the API server
	return all
}

func insertAll(into *bart.Lite, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		into.Insert(p)
	}
}

func removeAll(from *bart.Lite, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		from.Delete(p)
	}
}

const maxPodProblems = 20

func (p *publishing) report(problems []string) {
	logged := 0
	for _, problem := range problems {
		if slices.Contains(p.logged, problem) {
			continue
		}
		if logged++; logged <= maxPodProblems {
			p.Log.Warn("pods that remote clusters cannot reach", "problem", problem)
		}
	}
	if logged > maxPodProblems {
		p.Log.Warn("more such problems", "count", logged-maxPodProblems)
	}
	p.logged = problems
	p.count.Store(int64(len(problems)))
}

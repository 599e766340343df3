package lender

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// Retries of a twin or a record that this cluster refuses, as for an exceeded quota.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// State is what a lender knows of its borrower, and what this cluster refuses. It has no side
// effects. It is not safe for concurrent use.
type State struct {
	Peering string
	Epoch   string // of this run
	Term    int32  // the highest one, which is stored before Accept

	sequence int64
	digest   string
	listed   bool
	want     map[string]*protocol.Pod // by key
	stock    map[string]*stocked      // templates by hash, until they are stored
	attempts map[string]*attempt      // by key
	gone     map[string]bool          // by UID: confirmed

	objects  map[string]*protocol.Object  // of the list, by key
	needs    []string                     // hashes of contents that Put takes
	contents map[string]*content          // of ConfigMaps and Secrets, by hash, until they are stored
	services map[string]*protocol.Service // contents, by hash: endpoints are translated again
	unread   map[string]bool              // namespaces whose Services stay as they are
}

type stocked struct {
	template *corev1.PodTemplateSpec
	refused  *translate.Refusal
}

type attempt struct {
	denial
	failures int
	until    time.Time // of the next attempt
}

// NewState returns the state at the start of a lender.
func NewState(peering, epoch string, term int32) *State {
	return &State{
		Peering: peering, Epoch: epoch, Term: term,
		want: make(map[string]*protocol.Pod), stock: make(map[string]*stocked), attempts: make(map[string]*attempt), gone: make(map[string]bool),
		objects: make(map[string]*protocol.Object), contents: make(map[string]*content),
		services: make(map[string]*protocol.Service), unread: make(map[string]bool),
	}
}

// ErrFenced is the error of a list that has no effect: of a former term, epoch or sequence.
var ErrFenced = errors.New("the list is fenced")

// Check returns ErrFenced for a list that is fenced.
func (st *State) Check(d *protocol.Desired) error {
	switch {
	case d.Epoch != st.Epoch:
		return fmt.Errorf("%w: it is addressed to a former run of the lender", ErrFenced)
	case d.Term < st.Term:
		return fmt.Errorf("%w: term %d is over, a borrower with term %d has started", ErrFenced, d.Term, st.Term)
	case d.Term == st.Term && (d.Sequence < st.sequence || d.Sequence == st.sequence && d.Digest != st.digest):
		return fmt.Errorf("%w: sequence %d follows a later one", ErrFenced, d.Sequence)
	}
	return nil
}

// Fence fences the lists of former terms. The last list stays in effect until the next one.
// The caller has stored the term.
func (st *State) Fence(term int32) {
	if term > st.Term {
		st.Term, st.sequence = term, 0
	}
}

// Accept takes a valid list into effect, unless it is fenced. The caller has stored its term.
func (st *State) Accept(d *protocol.Desired) error {
	if err := st.Check(d); err != nil {
		return err
	}
	st.Fence(d.Term)
	st.sequence, st.digest, st.listed = d.Sequence, d.Digest, true
	was := maps.Clone(st.want)
	clear(st.want)
	hashes, uids := make(map[string]bool, len(d.Pods)), make(map[string]bool, len(d.Pods))
	for i := range d.Pods {
		p := &d.Pods[i]
		st.want[p.Key()] = p
		hashes[p.Hash], uids[p.UID] = true, true
		if before := was[p.Key()]; before == nil || before.UID != p.UID || before.Hash != p.Hash {
			delete(st.attempts, p.Key()) // another pod or template may be accepted
		}
	}
	maps.DeleteFunc(st.gone, func(uid string, _ bool) bool { return !uids[uid] })
	maps.DeleteFunc(st.stock, func(hash string, _ *stocked) bool { return !hashes[hash] })
	st.acceptObjects(d.Objects)
	clear(st.unread)
	for _, name := range d.Unread {
		st.unread[name] = true
	}
	maps.DeleteFunc(st.attempts, func(key string, _ *attempt) bool { return st.want[key] == nil && st.objects[key] == nil })
	return nil
}

// Namespaces returns the namespaces in which the list has pods.
func (st *State) Namespaces() map[string]bool {
	all := make(map[string]bool)
	for _, p := range st.want {
		all[p.Namespace] = true
	}
	return all
}

// Stock takes a template that a pod of the list needs.
func (st *State) Stock(hash string, t *corev1.PodTemplateSpec) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(st.want)), func(p *protocol.Pod) bool { return p.Hash == hash }) {
		return errors.New("no pod of the list has this template")
	}
	if st.stock[hash] == nil && len(st.stock) >= protocol.MaxStock {
		return fmt.Errorf("%d templates are not stored yet; send no more than those of pods in state %s", len(st.stock), protocol.StateUnknown)
	}
	of := &stocked{template: t}
	if err := translate.Judge(t); !errors.As(err, &of.refused) && err != nil {
		return err
	}
	st.stock[hash] = of
	return nil
}

// Refuse notes that this cluster refuses the object of a key, or the record or twin.
func (st *State) Refuse(key, reason, message string, now time.Time) {
	a := st.attempts[key]
	if a == nil {
		a = new(attempt)
		st.attempts[key] = a
	}
	a.denial = denial{reason, message}
	a.until = now.Add(min(firstRetry<<min(a.failures, 10), lastRetry))
	a.failures++
}

// Gone notes that the API server has neither a record nor a twin of a pod, of which none will be
// made: it was deleted in the consumer, or may not run again.
func (st *State) Gone(uid string) { st.gone[uid] = true }

// Namespace is what is known about a namespace.
type Namespace struct {
	Lent      bool                // now
	Resources corev1.ResourceList // that are lent
	Read      bool                // what follows is all of the Peering
	Records   []*corev1.PodTemplate
	Twins     []*corev1.Pod
	Copies    []Copy

	Services  []*corev1.Service
	Endpoints []*discoveryv1.EndpointSlice
	Quotas    []*corev1.ResourceQuota
}

// Path is the state of the path to the other cluster.
type Path struct {
	Granted []merge.Mapping // of its pods, which may be endpoints
	LinkUp  bool
}

// Decision is what a lender does next.
type Decision struct {
	Writes   []*Write // at most one for each pod
	Objects  []*ObjectWrite
	Statuses []*protocol.PodStatus // of all pods
	Needs    []string              // hashes of contents
	Outside  int                   // endpoints with addresses that the Peering does not grant
	Again    time.Time             // when to decide again without a change; zero: never
}

// Decide returns what to do next.
func (st *State) Decide(namespaces map[string]Namespace, path Path, now time.Time) Decision {
	objects := st.decideObjects(namespaces, now)
	outside := st.decideServices(namespaces, path, &objects, now)
	st.needs = objects.needs
	slots, bytes := st.slots(namespaces, &objects)
	d := Decision{Objects: objects.writes, Needs: objects.needs, Again: objects.again, Outside: outside}
	unknown := 0
	for _, s := range slots {
		w, status := Decide(s)
		a := st.attempts[s.Namespace+"/"+s.Name]
		switch {
		case w == nil || !refusable(w.Act):
		case a != nil && now.Before(a.until):
			w, d.Again = nil, earlier(d.Again, a.until)
		case w.Act == CreateRecord:
			if bytes += w.Record.Template.Size(); bytes > protocol.MaxRecords {
				w, status = nil, s.refused("TooMany", fmt.Sprintf("the templates of all pods have more than %d bytes", protocol.MaxRecords))
			}
		case w.Act == ChangeRecord:
			if grows := w.Record.Template.Size() - s.Record.Template.Size(); grows > 0 {
				if bytes += grows; bytes > protocol.MaxRecords {
					w = nil
				}
			}
		}
		if a != nil && status != nil && status.State == protocol.StatePending {
			status.State, status.Reason, status.Message = protocol.StateRefused, a.reason, a.message
		}
		if status != nil && s.Template == nil && s.outdated() && unknown+len(st.stock) < protocol.MaxStock {
			unknown++
			status.Outdated = true
		}
		if status != nil && status.State == protocol.StateUnknown {
			if unknown++; unknown+len(st.stock) > protocol.MaxStock {
				status.State = protocol.StatePending // later
			}
		}
		if w != nil {
			d.Writes = append(d.Writes, w)
		}
		if status != nil {
			d.Statuses = append(d.Statuses, status)
		}
	}
	return d
}

// refusable reports whether a cluster may refuse an act, so that it is tried again later and later.
func refusable(a Act) bool {
	return a == CreateRecord || a == ChangeRecord || a == CreateTwin || a == UpdateTwin
}

// slots returns the slots of all names by key, and the bytes of all records. It forgets
// templates that are stored, and refusals of twins that exist.
func (st *State) slots(namespaces map[string]Namespace, objects *objectDecision) (all []*Slot, bytes int) {
	slots := make(map[string]*Slot)
	at := func(namespace, name string) *Slot {
		key := namespace + "/" + name
		if slots[key] == nil {
			of := namespaces[namespace]
			slots[key] = &Slot{Peering: st.Peering, Namespace: namespace, Name: name, Lent: of.Lent, Resources: of.Resources, Read: of.Read, Listed: st.listed, Want: st.want[key]}
		}
		return slots[key]
	}
	for namespace, of := range namespaces {
		for _, record := range of.Records {
			s := at(namespace, record.Name)
			s.Record, s.Supply = record, st.supplyOf(record, objects)
			bytes += record.Template.Size()
		}
		for _, twin := range of.Twins {
			at(namespace, twin.Name).Twin = twin
		}
	}
	needed := make(map[string]bool)
	for key, p := range st.want {
		s := at(p.Namespace, p.Name)
		s.Gone = st.gone[p.UID]
		if of := st.stock[p.Hash]; of != nil {
			s.Template, s.Refused = of.template, of.refused
		}
		if s.Record == nil || s.uid() != p.UID || s.outdated() {
			needed[p.Hash] = true
		}
		if s.Twin != nil && !s.outdated() && !s.twinOutdated() {
			delete(st.attempts, key)
		}
	}
	maps.DeleteFunc(st.stock, func(hash string, _ *stocked) bool { return !needed[hash] })
	return slices.SortedFunc(maps.Values(slots), func(a, b *Slot) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}), bytes
}

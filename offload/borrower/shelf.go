package borrower

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/offload/loop"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

const (
	rereadEvery = time.Minute      // an object to which a pod refers
	missedEvery = 10 * time.Second // one that does not exist
)

// Shelf is what a borrower knows about the ConfigMaps and Secrets to which pods refer: hashes,
// not contents. It has no side effects. It is not safe for concurrent use.
type Shelf struct {
	objects map[string]*shelved // by key
}

type shelved struct {
	protocol.Object           // without a hash until it is read
	absent          bool      // the API server has said that it does not exist
	reason, message string    // why it is not carried over; empty: it is
	next            time.Time // of the next read
}

// NewShelf returns an empty shelf.
func NewShelf() *Shelf { return &Shelf{make(map[string]*shelved)} }

// Refer sets what pods refer to. It forgets everything else. of describes pods.
func (s *Shelf) Refer(pods []*corev1.Pod, of func(*corev1.Pod) *Template) {
	referred := make(map[string]bool)
	for _, pod := range pods {
		if !offered(pod) || translate.Final(pod.Status.Phase) {
			continue
		}
		for _, r := range of(pod).References {
			key := protocol.ObjectKey(r.Kind, pod.Namespace, r.Name)
			referred[key] = true
			if s.objects[key] == nil {
				s.objects[key] = &shelved{Object: protocol.Object{Kind: r.Kind, Namespace: pod.Namespace, Name: r.Name}}
			}
		}
	}
	maps.DeleteFunc(s.objects, func(key string, _ *shelved) bool { return !referred[key] })
}

// Due returns the objects that are to be read now, at most so many.
func (s *Shelf) Due(now time.Time, most int) (due []protocol.Object) {
	var all []*shelved
	for _, o := range s.objects {
		if !now.Before(o.next) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *shelved) int { return cmp.Or(a.next.Compare(b.next), strings.Compare(a.Key(), b.Key())) })
	for _, o := range all[:min(len(all), most)] {
		due = append(due, o.Object)
	}
	return due
}

// Next returns when the next object is to be read; zero: never.
func (s *Shelf) Next() (next time.Time) {
	for _, o := range s.objects {
		if next.IsZero() || o.next.Before(next) {
			next = o.next
		}
	}
	return next
}

// Found notes the content of an object, with the time at which it was read.
func (s *Shelf) Found(key, hash string, size int, now time.Time) {
	if o := s.objects[key]; o != nil {
		o.Hash, o.Size, o.absent, o.reason, o.message, o.next = hash, size, false, "", "", now.Add(rereadEvery)
	}
}

// Absent notes that an object does not exist.
func (s *Shelf) Absent(key string, now time.Time) {
	if o := s.objects[key]; o != nil {
		o.Hash, o.Size, o.absent, o.next = "", 0, true, now.Add(missedEvery)
		o.reason, o.message = "ObjectMissing", "it does not exist; create it, or make the reference optional"
	}
}

// Refused notes why an object is not carried over. A copy of it stays as it is.
func (s *Shelf) Refused(key, why string, now time.Time) {
	if o := s.objects[key]; o != nil {
		o.Hash, o.Size, o.absent, o.reason, o.message, o.next = "", 0, false, "ObjectRefused", why, now.Add(rereadEvery)
	}
}

// Failed notes that an object cannot be read. What is known about it stays.
func (s *Shelf) Failed(key, why string, now time.Time) {
	o := s.objects[key]
	if o == nil {
		return
	}
	o.next = now.Add(loop.Retry)
	if o.Hash == "" && o.reason == "" {
		o.reason, o.message = "ObjectUnreadable", why
	}
}

// Having returns the objects with one of these hashes: the lender needs their content.
func (s *Shelf) Having(hashes []string) (all []protocol.Object) {
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if o := s.objects[key]; o.Hash != "" && slices.Contains(hashes, o.Hash) {
			all = append(all, o.Object)
		}
	}
	return all
}

// list returns the objects for the lender: those that exist, or of which that is not known.
// Those beyond the limit are refused, and stay out of the list.
func (s *Shelf) list() (all []protocol.Object) {
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		switch o := s.objects[key]; {
		case o.absent:
		case len(all) >= protocol.MaxObjects:
			o.reason, o.message = "TooMany", "pods of the node refer to more ConfigMaps and Secrets than can be carried over"
		default:
			all = append(all, o.Object)
		}
	}
	return all
}

// missing returns why a pod of a namespace with these references waits; empty: for no known
// reason.
func (s *Shelf) missing(namespace string, references []translate.Reference) (reason, message string) {
	for _, r := range references {
		o := s.objects[protocol.ObjectKey(r.Kind, namespace, r.Name)]
		if o != nil && o.reason != "" && !(o.absent && r.Optional) {
			return o.reason, r.Kind + " " + r.Name + ": " + o.message
		}
	}
	return "", ""
}

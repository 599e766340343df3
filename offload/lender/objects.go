package lender

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// Copy is what is known about the copy of a ConfigMap or Secret: not its content.
type Copy struct {
	Kind string // as in the protocol
	metav1.ObjectMeta
	Hash string // of its content
	Size int    // of its encoded content, in bytes
}

// key returns the key of the copied object.
func (c *Copy) key() string { return protocol.ObjectKey(c.Kind, c.Namespace, c.Name) }

// ObjectWrite is a change of an object that is not a pod. Updates and deletions apply to the
// version of the object, or to none.
type ObjectWrite struct {
	Act    Act // CreateObject, UpdateObject or DeleteObject
	Key    string
	Kind   string
	Object client.Object // of this kind; of DeleteObject, only its metadata
}

// size returns the bytes that a write stores.
func (w *ObjectWrite) size() int {
	if sized, ok := w.Object.(interface{ Size() int }); ok && w.Act != DeleteObject {
		return sized.Size()
	}
	return 0
}

// content is a content that a borrower sent, until it is stored.
type content struct {
	*protocol.Content
	size int
}

// denial is why this cluster does not have an object.
type denial struct{ reason, message string }

// Put takes a content that the lender needs, with the size of its encoding.
func (st *State) Put(hash string, size int, c *protocol.Content, now time.Time) error {
	if !slices.Contains(st.needs, hash) {
		return errors.New("the lender does not need this content now")
	}
	for key, o := range st.objects {
		if o.Hash != hash {
			continue
		}
		if o.Size != size {
			return fmt.Errorf("the content has %d bytes, not %d as the list says", size, o.Size)
		}
		if err := translate.JudgeContent(o.Kind, c); err != nil {
			st.Refuse(key, "ObjectRefused", err.Error(), now)
			return nil
		}
	}
	if c.Service != nil {
		st.services[hash] = c.Service
	} else {
		st.contents[hash] = &content{c, size}
	}
	return nil
}

// objectDecision is what is decided about objects.
type objectDecision struct {
	writes []*ObjectWrite
	needs  []string // hashes
	again  time.Time
	denied map[string]denial // by key
	copies map[string]*Copy  // by key
}

// decideObjects decides on ConfigMaps and Secrets. It forgets contents that are stored.
func (st *State) decideObjects(namespaces map[string]Namespace, now time.Time) objectDecision {
	d := objectDecision{denied: make(map[string]denial), copies: make(map[string]*Copy)}
	bytes := 0
	for _, of := range namespaces {
		for i := range of.Copies {
			d.copies[of.Copies[i].key()] = &of.Copies[i]
			bytes += of.Copies[i].Size
		}
	}
	used := make(map[string]bool) // hashes of contents that are not stored yet
	shelf := 0
	for _, c := range st.contents {
		shelf += c.size
	}
	for _, key := range slices.Sorted(maps.Keys(st.objects)) {
		o, is := st.objects[key], d.copies[key]
		if o.Kind == protocol.KindService {
			continue
		}
		of := namespaces[o.Namespace]
		if is != nil && is.Hash == o.Hash {
			delete(st.attempts, key)
			continue
		}
		if o.Hash == "" || !of.Lent || !of.Read {
			continue
		}
		grows := o.Size
		if is != nil {
			grows -= is.Size
		}
		a, c := st.attempts[key], st.contents[o.Hash]
		switch {
		case bytes+grows > protocol.MaxCopies:
			d.denied[key] = denial{"TooMany", fmt.Sprintf("all ConfigMaps and Secrets of the peering together have more than %d bytes", protocol.MaxCopies)}
			continue
		case d.postponed(key, a, now):
		case c == nil && !slices.Contains(d.needs, o.Hash):
			if shelf+o.Size <= protocol.MaxShelf && len(st.contents)+len(d.needs) < protocol.MaxNeeds {
				shelf += o.Size
				d.needs = append(d.needs, o.Hash)
			}
		case c != nil:
			used[o.Hash] = true
			d.writes = append(d.writes, st.copy(o, is, c.Content))
		}
		bytes += grows
	}
	maps.DeleteFunc(st.contents, func(hash string, _ *content) bool { return !used[hash] })
	if !st.listed {
		return d
	}
	for _, key := range slices.Sorted(maps.Keys(d.copies)) {
		if is := d.copies[key]; st.objects[key] == nil {
			d.writes = append(d.writes, &ObjectWrite{Act: DeleteObject, Key: key, Kind: is.Kind, Object: &metav1.PartialObjectMetadata{ObjectMeta: is.ObjectMeta}})
		}
	}
	return d
}

// postponed reports whether an object is not written yet, because this cluster refused it before.
func (d *objectDecision) postponed(key string, a *attempt, now time.Time) bool {
	if a == nil || !now.Before(a.until) {
		return false
	}
	d.denied[key], d.again = a.denial, earlier(d.again, a.until)
	return true
}

// copy returns the write that gives an object's copy, nil if there is none, a content.
func (st *State) copy(o *protocol.Object, is *Copy, c *protocol.Content) *ObjectWrite {
	w := &ObjectWrite{Act: CreateObject, Key: o.Key(), Kind: o.Kind}
	switch o.Kind {
	case protocol.KindConfigMap:
		w.Object = translate.ConfigMap(st.Peering, o.Namespace, o.Name, c.ConfigMap)
	case protocol.KindSecret:
		w.Object = translate.Secret(st.Peering, o.Namespace, o.Name, c.Secret)
	}
	if is != nil {
		w.Act = UpdateObject
		w.Object.SetUID(is.UID)
		w.Object.SetResourceVersion(is.ResourceVersion)
	}
	return w
}

// supply is whether the objects are there to which a record refers.
type supply struct {
	waits  bool                  // not all of them
	denied *denial               // why one of them will not be; nil: it is in transit
	absent []translate.Reference // those that the consumer does not have
}

// supplyOf returns the supply of a record. Its first twin waits until all objects are the
// consumer's. A further one does not, because the borrower may be away.
func (st *State) supplyOf(record *corev1.PodTemplate, d *objectDecision) (s supply) {
	first := record.Annotations[twinAnnotation] == ""
	for _, r := range translate.References(&record.Template.Spec) {
		key := protocol.ObjectKey(r.Kind, record.Namespace, r.Name)
		o, is := st.objects[key], d.copies[key]
		if is == nil {
			s.absent = append(s.absent, r)
		}
		switch {
		case !first, o == nil && r.Optional, o != nil && o.Hash != "" && is != nil && is.Hash == o.Hash:
			continue
		}
		s.waits = true
		if why, ok := d.denied[key]; ok && s.denied == nil {
			s.denied = &denial{why.reason, fmt.Sprintf("%s %s: %s", r.Kind, r.Name, why.message)}
		}
	}
	return s
}

// earlier returns the earlier one of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// acceptObjects takes the objects of a list into effect.
func (st *State) acceptObjects(all []protocol.Object) {
	was := maps.Clone(st.objects)
	clear(st.objects)
	hashes := make(map[string]bool, len(all))
	for i := range all {
		o := &all[i]
		st.objects[o.Key()] = o
		hashes[o.Hash] = true
		if before := was[o.Key()]; before == nil || before.Hash != o.Hash {
			delete(st.attempts, o.Key()) // another content may be accepted
		}
	}
	maps.DeleteFunc(st.contents, func(hash string, _ *content) bool { return !hashes[hash] })
	maps.DeleteFunc(st.services, func(hash string, _ *protocol.Service) bool { return !hashes[hash] })
}

// describe returns the copies in a cache that Digest has prepared.
func describe[T client.Object](kind string, all []T) (copies []Copy) {
	for _, o := range all {
		c := Copy{Kind: kind, ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}}
		hash, size, _ := strings.Cut(o.GetAnnotations()[digestAnnotation], " ")
		c.Hash = hash
		_, _ = fmt.Sscan(size, &c.Size) // digest wrote it
		copies = append(copies, c)
	}
	slices.SortFunc(copies, func(a, b Copy) int { return cmp.Compare(a.Name, b.Name) })
	return copies
}

// digestAnnotation has, in caches only, what digest returns.
const digestAnnotation = "strait.dev/digest"

// digest is a transform of caches: of a ConfigMap or Secret it keeps the hash and the size of its
// content.
func digest(object any) (any, error) {
	var into client.Object
	var c *protocol.Content
	switch o := object.(type) {
	case *corev1.ConfigMap:
		into, c = &corev1.ConfigMap{ObjectMeta: o.ObjectMeta}, translate.ConfigMapContent(o)
	case *corev1.Secret:
		into = &corev1.Secret{ObjectMeta: o.ObjectMeta}
		c, _ = translate.SecretContent(o) // of a refused one, too
	default:
		return object, nil // a tombstone
	}
	text, hash, err := protocol.EncodeContent(c)
	if err != nil {
		hash = "" // another client wrote it: it is replaced
	}
	into.SetManagedFields(nil)
	into.SetAnnotations(map[string]string{digestAnnotation: fmt.Sprintf("%s %d", hash, len(text))})
	return into, nil
}

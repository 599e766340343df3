package fakekube

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is a stored object. It must not be modified.
type object = unstructured.Unstructured

// key identifies an object within its resource.
type key struct{ namespace, name string }

// store is the content of etcd.
type store struct {
	version   uint64 // of the last change
	compacted uint64 // changes up to this version are forgotten
	objects   map[schema.GroupResource]map[key]*object
	changes   []change // since compacted, by version
	made      int      // number of created objects
	allocated int      // number of allocated addresses and node ports
}

// change is a creation (no old), an update, or a deletion (no new).
type change struct {
	version  uint64
	resource *resource
	old, new *object
	last     *object // the deleted object, in the version of its deletion
}

func newStore() store {
	return store{version: 1, objects: make(map[schema.GroupResource]map[key]*object)}
}

// clone returns an independent copy of the store.
func (s *store) clone() store {
	c := *s
	c.changes = slices.Clone(s.changes)
	c.objects = make(map[schema.GroupResource]map[key]*object)
	for r, all := range s.objects {
		c.objects[r] = maps.Clone(all)
	}
	return c
}

// put stores an object in a new version; nil deletes it.
func (s *store) put(r *resource, at key, new *object) {
	s.version++
	version := strconv.FormatUint(s.version, 10)
	all := s.objects[r.key()]
	if all == nil {
		all = make(map[key]*object)
		s.objects[r.key()] = all
	}
	c := change{version: s.version, resource: r, old: all[at], new: new}
	if new != nil {
		new.SetResourceVersion(version)
		all[at] = new
	} else {
		c.last = c.old.DeepCopy()
		c.last.SetResourceVersion(version)
		delete(all, at)
	}
	s.changes = append(s.changes, c)
}

func (s *store) get(r *resource, namespace, name string) (*object, error) {
	if o := s.objects[r.key()][key{namespace, name}]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(r.key(), name)
}

// page is the response to a list request.
type page struct {
	version   uint64
	next      string
	remaining int
	objects   []*object
}

// list returns the objects that a request selects.
func (s *store) list(r *resource, q Request) (p page, err error) {
	selects, err := selection(r, q)
	if err != nil {
		return p, err
	}
	p.version = s.version
	if asked, err := s.asked(q); err != nil || asked > s.version {
		return p, cmpError(err, tooLarge(asked, s.version))
	}
	var after key
	if token := q.query.Get("continue"); token != "" {
		text, err := base64.RawURLEncoding.DecodeString(token)
		parts := strings.Split(string(text), "/")
		if err != nil || len(parts) != 3 {
			return p, apierrors.NewBadRequest("continue key is not valid")
		}
		p.version, _ = strconv.ParseUint(parts[0], 10, 64)
		after = key{parts[1], parts[2]}
		if p.version < s.compacted {
			return p, apierrors.NewResourceExpired("the provided continue parameter is too old")
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(s.objects[r.key()]), compareKeys) {
		if o := s.objects[r.key()][at]; compareKeys(at, after) > 0 && selects(o) {
			p.objects = append(p.objects, o)
		}
	}
	limit, _ := strconv.Atoi(q.query.Get("limit"))
	if limit > 0 && len(p.objects) > limit && q.query.Get("resourceVersion") != "0" {
		last := p.objects[limit-1]
		p.remaining = len(p.objects) - limit
		p.next = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%s/%s", p.version, last.GetNamespace(), last.GetName()))
		p.objects = p.objects[:limit]
	}
	return p, nil
}

func cmpError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func compareKeys(a, b key) int {
	if c := strings.Compare(a.namespace, b.namespace); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}

// asked returns the version in a request, or 0.
func (s *store) asked(q Request) (uint64, error) {
	text := q.query.Get("resourceVersion")
	if text == "" {
		return 0, nil
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid resource version " + strconv.Quote(text))
	}
	return version, nil
}

// tooLarge is the error for a future version.
func tooLarge(asked, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// selection returns a function that reports whether a request selects an object.
func selection(r *resource, q Request) (func(*object) bool, error) {
	byLabel, err := labels.Parse(q.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(q.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, one := range byField.Requirements() {
		if one.Field != "metadata.name" && one.Field != "metadata.namespace" && (r.custom() || r.group != "") {
			return nil, apierrors.NewBadRequest("field label not supported: " + one.Field)
		}
	}
	return func(o *object) bool {
		if q.Namespace != "" && o.GetNamespace() != q.Namespace || !byLabel.Matches(labels.Set(o.GetLabels())) {
			return false
		}
		set := make(fields.Set)
		for _, one := range byField.Requirements() {
			if value, has, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(one.Field, ".")...); has {
				set[one.Field] = fmt.Sprint(value)
			}
		}
		return byField.Matches(set)
	}, nil
}

// add stores an object of any Go type.
func (s *store) add(from runtime.Object) error {
	kinds, _, err := scheme.ObjectKinds(from)
	if err != nil {
		return err
	}
	r := s.resource(Request{Group: kinds[0].Group, Resource: pluralOf(kinds[0])})
	if r == nil {
		return fmt.Errorf("%v has no resource", kinds[0])
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return err
	}
	o := &object{Object: content}
	o.SetGroupVersionKind(r.gvk())
	o.SetManagedFields(nil)
	if o.GetNamespace() != "" {
		s.namespace(o.GetNamespace())
	}
	s.begin(r, o)
	at := key{o.GetNamespace(), o.GetName()}
	empty, _ := oneVersion{}.New(r.gvk())
	s.put(r, at, r.fieldManager("").UpdateNoErrors(empty, o, "test").(*object))
	return nil
}

func pluralOf(kind schema.GroupVersionKind) string {
	for _, r := range builtIn {
		if r.gvk() == kind {
			return r.plural
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural.Resource
}

// namespace creates a namespace if it does not exist.
func (s *store) namespace(name string) {
	r := s.resource(Request{Resource: "namespaces"})
	if _, err := s.get(r, "", name); err != nil {
		must(s.add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// InstallCRDs installs the definitions of custom resources: those of some groups, or all.
func (s *Server) InstallCRDs(groups ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range definitionsOf(groups) {
		o := (&object{Object: d.object}).DeepCopy()
		s.store.begin(definitionResource, o)
		s.store.put(definitionResource, key{"", o.GetName()}, o)
	}
	s.wake()
}

// DeleteCRDs removes the definitions of custom resources, of some groups or all, and all
// their objects.
func (s *Server) DeleteCRDs(groups ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range definitionsOf(groups) {
		for at := range s.store.objects[d.resource.key()] {
			s.store.put(d.resource, at, nil)
		}
		s.store.put(definitionResource, key{"", d.resource.plural + "." + d.resource.group}, nil)
	}
	s.wake()
}

// definitionsOf returns the definitions of some groups, or all.
func definitionsOf(groups []string) (some []definition) {
	for _, d := range definitions() {
		if len(groups) == 0 || slices.Contains(groups, d.resource.group) {
			some = append(some, d)
		}
	}
	return some
}

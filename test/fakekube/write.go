package fakekube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// begin sets the fields that an API server sets on a new object.
func (s *store) begin(r *resource, o *object) {
	s.made++
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(fmt.Sprintf("%s%05d", o.GetGenerateName(), s.made))
	}
	if o.GetUID() == "" {
		o.SetUID(uuid.NewUUID())
	}
	if created := o.GetCreationTimestamp(); created.IsZero() {
		o.SetCreationTimestamp(metav1.Now())
	}
	if r.generations && o.GetGeneration() == 0 {
		o.SetGeneration(1)
	}
	switch {
	case r.custom():
		setDefaults(o.Object, r.schema)
	case r.kind == "Namespace":
		all := o.GetLabels()
		if all == nil {
			all = make(map[string]string)
		}
		all["kubernetes.io/metadata.name"] = o.GetName()
		o.SetLabels(all)
		defaultStatus(o, "Active")
	case r.kind == "Pod":
		defaultStatus(o, "Pending")
	case r.kind == "Service":
		s.allocate(o)
	}
}

// allocate assigns an IP family, an address and, depending on its type, node ports to a
// Service.
func (s *store) allocate(o *object) {
	spec, _ := o.Object["spec"].(map[string]any)
	if spec == nil {
		return
	}
	if spec["type"] == nil {
		spec["type"] = "ClusterIP"
	}
	if spec["clusterIP"] == nil && spec["type"] != "ExternalName" {
		s.allocated++
		address := fmt.Sprintf("10.96.%d.%d", 1+s.allocated/250, 1+s.allocated%250)
		spec["clusterIP"], spec["clusterIPs"] = address, []any{address}
	}
	if spec["ipFamilies"] == nil && spec["type"] != "ExternalName" {
		spec["ipFamilies"] = []any{"IPv4"}
	}
	ports, _ := spec["ports"].([]any)
	for _, port := range ports {
		port := port.(map[string]any)
		if port["protocol"] == nil {
			port["protocol"] = "TCP"
		}
		switch {
		case spec["type"] == "ClusterIP":
			delete(port, "nodePort")
		case port["nodePort"] == nil || port["nodePort"] == int64(0):
			s.allocated++
			port["nodePort"] = int64(30000 + s.allocated%2768)
		}
	}
}

func defaultStatus(o *object, phase string) {
	status, _ := o.Object["status"].(map[string]any)
	if status == nil {
		status = make(map[string]any)
		o.Object["status"] = status
	}
	if status["phase"] == nil {
		status["phase"] = phase
	}
}

// write performs a create, an update or a patch.
func (s *store) write(r *resource, q Request) (*object, error) {
	switch {
	case q.Verb == "create":
		given, err := decode(r, q)
		if err != nil {
			return nil, err
		}
		return s.create(r, q, given, false)
	case q.Verb == "update":
		given, err := decode(r, q)
		if err != nil {
			return nil, err
		}
		old, err := s.get(r, q.Namespace, q.Name)
		if err != nil {
			return nil, err
		}
		if r.custom() && given.GetResourceVersion() == "" {
			return nil, apierrors.NewInvalid(r.gvk().GroupKind(), q.Name, nil)
		}
		return s.update(r, q, old, given, false)
	case q.patch == string(types.ApplyPatchType):
		return s.apply(r, q)
	case q.patch == string(types.MergePatchType):
		return s.patch(r, q, merged)
	case q.patch == string(types.JSONPatchType):
		return s.patch(r, q, patched)
	}
	return nil, apierrors.NewGenericServerResponse(415, q.Verb, r.key(), q.Name, "the patch type is not supported: "+q.patch, 0, true)
}

// patch updates an object to what apply makes of it and the body of a request.
func (s *store) patch(r *resource, q Request, apply func(*object, []byte) (*object, error)) (*object, error) {
	old, err := s.get(r, q.Namespace, q.Name)
	if err != nil {
		return nil, err
	}
	given, err := apply(old, q.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.update(r, q, old, given, false)
}

// patched returns a copy of an object after a JSON patch (RFC 6902).
func patched(o *object, body []byte) (*object, error) {
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, err
	}
	fields, err := decodeJSON(after)
	return &object{Object: fields}, err
}

// merged returns a copy of an object after a JSON merge patch (RFC 7386).
func merged(o *object, body []byte) (*object, error) {
	patch, err := decodeJSON(body)
	if err != nil {
		return nil, err
	}
	o = o.DeepCopy()
	merge(o.Object, patch)
	return o, nil
}

// merge applies a JSON merge patch to an object or one of its fields.
func merge(into, patch map[string]any) {
	for name, value := range patch {
		fields, is := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case !is:
			into[name] = value
		default:
			below, is := into[name].(map[string]any)
			if !is {
				below = make(map[string]any)
			}
			merge(below, fields)
			into[name] = below
		}
	}
}

// apply is server-side apply.
func (s *store) apply(r *resource, q Request) (*object, error) {
	given, err := decode(r, q)
	if err != nil {
		return nil, err
	}
	if q.manager() == "" || q.query.Get("fieldManager") == "" {
		return nil, apierrors.NewBadRequest("fieldManager is required for apply patch")
	}
	if given.GroupVersionKind() != r.gvk() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%v is given, want %v", given.GroupVersionKind(), r.gvk()))
	}
	old, missing := s.get(r, q.Namespace, q.Name)
	if missing != nil {
		if q.Subresource != "" {
			return nil, missing
		}
		if given.GetUID() != "" {
			return nil, conflict(r, q.Name, fmt.Sprintf("uid mismatch: the provided object specified uid %s, and no existing object was found", given.GetUID()))
		}
		create := q
		create.Verb = "create"
		if err := q.allow(create); err != nil {
			return nil, err
		}
		empty, _ := oneVersion{}.New(r.gvk())
		old = empty.(*object)
	} else if err := matches(r, old, given); err != nil {
		return nil, err
	}
	// A request changes only its own part, and manages the fields of that.
	if q.Subresource == "status" {
		part := map[string]any{"apiVersion": given.GetAPIVersion(), "kind": given.GetKind(), "metadata": map[string]any{"name": q.Name}}
		if status, has := given.Object["status"]; has {
			part["status"] = status
		}
		given.Object = part
	} else if r.status {
		delete(given.Object, "status")
	}
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation"} {
		delete(given.Object["metadata"].(map[string]any), field)
	}
	merged, err := r.fieldManager(q.Subresource).Apply(old.DeepCopy(), given, q.manager(), q.query.Get("force") == "true")
	if err != nil {
		var refused apierrors.APIStatus
		if !errors.As(err, &refused) {
			err = apierrors.NewGenericServerResponse(422, "apply", r.key(), q.Name, err.Error(), 0, true)
		}
		return nil, err
	}
	if missing != nil {
		return s.create(r, q, merged.(*object), true)
	}
	return s.update(r, q, old, merged.(*object), true)
}

// create stores a new object. managed means that its managed fields are already set.
func (s *store) create(r *resource, q Request, o *object, managed bool) (*object, error) {
	if o.GetNamespace() == "" && r.namespaced {
		o.SetNamespace(q.Namespace)
	}
	if o.GetNamespace() != q.Namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if o.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	o.SetUID("")
	o.SetGeneration(0)
	o.SetCreationTimestamp(metav1.Time{})
	if r.status && r.kind != "Node" {
		delete(o.Object, "status")
	}
	s.begin(r, o)
	if o.GetName() == "" {
		return nil, apierrors.NewInvalid(r.gvk().GroupKind(), "", nil)
	}
	at := key{q.Namespace, o.GetName()}
	if s.objects[r.key()][at] != nil {
		return nil, apierrors.NewAlreadyExists(r.key(), o.GetName())
	}
	if r.namespaced {
		namespace, err := s.get(s.resource(Request{Resource: "namespaces"}), "", q.Namespace)
		if err != nil {
			return nil, err
		}
		if namespace.GetDeletionTimestamp() != nil {
			return nil, apierrors.NewForbidden(r.key(), o.GetName(), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", q.Namespace))
		}
	}
	if !managed && r.hasManagers() {
		o.SetManagedFields(nil)
		empty, _ := oneVersion{}.New(r.gvk())
		o = r.fieldManager("").UpdateNoErrors(empty, o, q.manager()).(*object)
	}
	s.put(r, at, o)
	return o, nil
}

// matches returns a conflict if the given version or UID differs from the stored one.
func matches(r *resource, old, given *object) error {
	if uid := given.GetUID(); uid != "" && uid != old.GetUID() {
		return conflict(r, old.GetName(), fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, old.GetUID()))
	}
	if version := given.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return conflict(r, old.GetName(), "the object has been modified; please apply your changes to the latest version and try again")
	}
	return nil
}

func conflict(r *resource, name, why string) error {
	return apierrors.NewConflict(r.key(), name, errors.New(why))
}

// update replaces the part of an object that the request concerns.
func (s *store) update(r *resource, q Request, old, given *object, managed bool) (*object, error) {
	if given.GetName() != q.Name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	if err := matches(r, old, given); err != nil {
		return nil, err
	}
	o := given
	if q.Subresource == "status" {
		o = old.DeepCopy()
		o.SetManagedFields(given.GetManagedFields())
		setOrDelete(o.Object, "status", given.Object["status"])
	} else if r.status {
		setOrDelete(o.Object, "status", old.Object["status"])
	}
	switch {
	case r.custom():
		setDefaults(o.Object, r.schema)
	case r.kind == "Service":
		s.allocate(o)
	}
	o.SetNamespace(old.GetNamespace())
	o.SetUID(old.GetUID())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	o.SetGeneration(old.GetGeneration())
	o.SetResourceVersion(old.GetResourceVersion())
	if r.generations && !equality.Semantic.DeepEqual(specification(o), specification(old)) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
	if !managed && r.hasManagers() {
		if q.Verb == "update" || q.Subresource != "" {
			o.SetManagedFields(old.GetManagedFields())
		}
		o = r.fieldManager(q.Subresource).UpdateNoErrors(old.DeepCopy(), o, q.manager()).(*object)
	}
	at := key{old.GetNamespace(), old.GetName()}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		s.remove(r, at)
		return o, nil
	}
	if equality.Semantic.DeepEqual(withoutTimes(o), withoutTimes(old)) {
		return old, nil // nothing is written
	}
	s.put(r, at, o)
	return o, nil
}

func setOrDelete(fields map[string]any, name string, value any) {
	if value == nil {
		delete(fields, name)
		return
	}
	fields[name] = value
}

// specification returns an object without metadata and status.
func specification(o *object) map[string]any {
	fields := maps.Clone(o.Object)
	for _, other := range []string{"metadata", "status", "apiVersion", "kind"} {
		delete(fields, other)
	}
	return fields
}

// withoutTimes returns an object without the times of its managed fields.
func withoutTimes(o *object) map[string]any {
	c := o.DeepCopy()
	entries := c.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	c.SetManagedFields(entries)
	return c.Object
}

// delete removes an object, or marks it for deletion if it has finalizers.
func (s *store) delete(r *resource, q Request) error {
	old, err := s.get(r, q.Namespace, q.Name)
	if err != nil {
		return err
	}
	options, err := decodeDeleteOptions(q.body)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if p := options.Preconditions; p != nil {
		wanted := &object{Object: map[string]any{}}
		if p.UID != nil {
			wanted.SetUID(*p.UID)
		}
		if p.ResourceVersion != nil {
			wanted.SetResourceVersion(*p.ResourceVersion)
		}
		if err := matches(r, old, wanted); err != nil {
			return err
		}
	}
	at := key{q.Namespace, q.Name}
	switch {
	case len(old.GetFinalizers()) == 0:
		s.remove(r, at)
	case old.GetDeletionTimestamp() == nil:
		o, now := old.DeepCopy(), metav1.Now()
		o.SetDeletionTimestamp(&now)
		s.put(r, at, o)
	}
	return nil
}

// remove removes an object; for a namespace first all objects in it.
func (s *store) remove(r *resource, at key) {
	if r.kind == "Namespace" {
		all := slices.Clone(builtIn)
		for _, d := range definitions() {
			all = append(all, d.resource)
		}
		for _, other := range all {
			for within := range s.objects[other.key()] {
				if within.namespace == at.name {
					s.put(other, within, nil)
				}
			}
		}
	}
	s.put(r, at, nil)
}

// deleteCollection deletes the selected objects.
func (s *store) deleteCollection(r *resource, q Request) error {
	selected, err := s.list(r, q)
	if err != nil {
		return err
	}
	for _, o := range slices.Clone(selected.objects) {
		one := q
		one.Namespace, one.Name = o.GetNamespace(), o.GetName()
		if err := s.delete(r, one); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// isProtobuf reports whether a content type is Kubernetes' protobuf.
func isProtobuf(contentType string) bool {
	return strings.Contains(contentType, "application/vnd.kubernetes.protobuf")
}

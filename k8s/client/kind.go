package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Object is a pointer to a Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// List is a pointer to a list of objects.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// Kind is a client of one resource type, in one namespace if namespaced: T is a pointer to
// the object type, L to the list type. Its methods are those of client-go's generated
// clients. It is safe for concurrent use.
type Kind[T Object, L List] struct {
	rest      *rest.RESTClient
	parameter runtime.ParameterCodec
	dryRun    []string // as of Client
	kind      schema.GroupVersionKind
	resource  string // like peerings
	namespace string // empty: all namespaces, or cluster-scoped
	object    func() T
	list      func() L
}

func kindOf[T, L any, PT interface {
	*T
	Object
}, PL interface {
	*L
	List
}](c *Client, kind schema.GroupVersionKind, resource, namespace string) *Kind[PT, PL] {
	return &Kind[PT, PL]{
		rest: c.groups[kind.GroupVersion()], parameter: c.parameter, dryRun: c.dryRun,
		kind: kind, resource: resource, namespace: namespace,
		object: func() PT { return new(T) }, list: func() PL { return new(L) },
	}
}

// at completes a request about the resource type, or about one object.
func (k *Kind[T, L]) at(request *rest.Request, name ...string) *rest.Request {
	request = request.NamespaceIfScoped(k.namespace, k.namespace != "").Resource(k.resource)
	if len(name) > 0 {
		request = request.Name(name[0]).SubResource(name[1:]...)
	}
	return request
}

func (k *Kind[T, L]) into(ctx context.Context, request *rest.Request) (T, error) {
	answer := k.object()
	return answer, request.Do(ctx).Into(answer)
}

// Get reads the object with that name.
func (k *Kind[T, L]) Get(ctx context.Context, name string, options metav1.GetOptions) (T, error) {
	return k.into(ctx, k.at(k.rest.Get(), name).VersionedParams(&options, k.parameter))
}

// List lists all objects that the options select.
func (k *Kind[T, L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	answer := k.list()
	return answer, k.at(k.rest.Get()).VersionedParams(&options, k.parameter).Timeout(timeout(options)).Do(ctx).Into(answer)
}

// Watch watches the objects that the options select.
func (k *Kind[T, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return k.at(k.rest.Get()).VersionedParams(&options, k.parameter).Timeout(timeout(options)).Watch(ctx)
}

func timeout(options metav1.ListOptions) time.Duration {
	if options.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*options.TimeoutSeconds) * time.Second
}

// Create creates an object that must not exist. It returns the created object.
func (k *Kind[T, L]) Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error) {
	options.DryRun = slices.Concat(options.DryRun, k.dryRun)
	return k.into(ctx, k.at(k.rest.Post()).VersionedParams(&options, k.parameter).Body(object))
}

// Update replaces an object of the given resource version.
func (k *Kind[T, L]) Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error) {
	options.DryRun = slices.Concat(options.DryRun, k.dryRun)
	return k.into(ctx, k.at(k.rest.Put(), object.GetName()).VersionedParams(&options, k.parameter).Body(object))
}

// UpdateStatus is Update for the status subresource.
func (k *Kind[T, L]) UpdateStatus(ctx context.Context, object T, options metav1.UpdateOptions) (T, error) {
	options.DryRun = slices.Concat(options.DryRun, k.dryRun)
	return k.into(ctx, k.at(k.rest.Put(), object.GetName(), "status").VersionedParams(&options, k.parameter).Body(object))
}

// Patch changes parts of an object.
func (k *Kind[T, L]) Patch(ctx context.Context, name string, form types.PatchType, body []byte, options metav1.PatchOptions, subresource ...string) (T, error) {
	options.DryRun = slices.Concat(options.DryRun, k.dryRun)
	return k.into(ctx, k.at(k.rest.Patch(form), append([]string{name}, subresource...)...).VersionedParams(&options, k.parameter).Body(body))
}

// Delete deletes an object.
func (k *Kind[T, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	options.DryRun = slices.Concat(options.DryRun, k.dryRun)
	return k.at(k.rest.Delete(), name).Body(&options).Do(ctx).Error()
}

// DeleteCollection deletes all objects that the list options select.
func (k *Kind[T, L]) DeleteCollection(ctx context.Context, options metav1.DeleteOptions, which metav1.ListOptions) error {
	options.DryRun = slices.Concat(options.DryRun, k.dryRun)
	return k.at(k.rest.Delete()).VersionedParams(&which, k.parameter).Timeout(timeout(which)).Body(&options).Do(ctx).Error()
}

// Apply sets the given fields of an object, and removes those that manager applied earlier
// and that are not given (server-side apply). It takes over fields of other managers. A
// missing object is created, even if a resource version is given; an existing object with
// another resource version is a conflict. Apply returns the whole object and does not
// change its argument.
func (k *Kind[T, L]) Apply(ctx context.Context, fields T, manager string) (T, error) {
	return k.apply(ctx, fields, manager)
}

// ApplyStatus is Apply for the status subresource. The object must exist.
func (k *Kind[T, L]) ApplyStatus(ctx context.Context, fields T, manager string) (T, error) {
	return k.apply(ctx, fields, manager, "status")
}

func (k *Kind[T, L]) apply(ctx context.Context, fields T, manager string, subresource ...string) (none T, err error) {
	fields = fields.DeepCopyObject().(T)
	fields.GetObjectKind().SetGroupVersionKind(k.kind)
	fields.SetManagedFields(nil) // the API server rejects them
	body, err := json.Marshal(fields)
	if err != nil {
		return none, fmt.Errorf("apply %s %s: %w", k.kind.Kind, fields.GetName(), err)
	}
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	return k.Patch(ctx, fields.GetName(), types.ApplyPatchType, body, options.ToPatchOptions(), subresource...)
}

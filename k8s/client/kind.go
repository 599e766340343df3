package client

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Object is a pointer to an object of Kubernetes.
type Object interface {
	metav1.Object
	runtime.Object
}

// List is a pointer to a list of them.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// Kind is all objects of one kind: T is a pointer to its type, L to the type of its
// lists. It has client-go's Get, List, Create, Update, UpdateStatus, Patch, Delete and
// Watch. It may be used concurrently.
type Kind[T Object, L List] struct {
	*gentype.ClientWithList[T, L]
	name string // like Peering
}

func kindOf[T, L any, PT interface {
	*T
	Object
}, PL interface {
	*L
	List
}](c *Client, name, resource string) *Kind[PT, PL] {
	return &Kind[PT, PL]{
		ClientWithList: gentype.NewClientWithList(resource, c.ours, c.parameter, "",
			func() PT { return new(T) }, func() PL { return new(L) }),
		name: name,
	}
}

// Apply gives an object the fields that are set here, and takes from it those that
// manager applied earlier and that are not (server-side apply). Fields that somebody
// else applied become the manager's. The object is created where it is missing; with a
// resource version it must be there, in that version. The answer is the whole object.
// What is given stays as it is.
func (k *Kind[T, L]) Apply(ctx context.Context, fields T, manager string) (T, error) {
	return k.apply(ctx, fields, manager)
}

// ApplyStatus is Apply for the status. The object must be there.
func (k *Kind[T, L]) ApplyStatus(ctx context.Context, fields T, manager string) (T, error) {
	return k.apply(ctx, fields, manager, "status")
}

func (k *Kind[T, L]) apply(ctx context.Context, fields T, manager string, subresource ...string) (none T, err error) {
	fields = fields.DeepCopyObject().(T)
	fields.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.name))
	fields.SetManagedFields(nil) // the API server refuses them
	body, err := json.Marshal(fields)
	if err != nil {
		return none, fmt.Errorf("client: apply %s %s: %w", k.name, fields.GetName(), err)
	}
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	return k.Patch(ctx, fields.GetName(), types.ApplyPatchType, body, options.ToPatchOptions(), subresource...)
}

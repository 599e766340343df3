package controller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// objectID identifies an object that belongs to a peering.
type objectID struct {
	peering    types.UID
	kind, name string
}

// applied records the last result of applying an object. It only avoids requests while
// nothing changes: a controller applies every object once after its start.
type applied struct {
	wanted, is digest
	version    string    // the resource version with that content
	corrected  time.Time // when it was last repaired
}

// digest is a hash of the desired or actual content of an object.
type digest [sha256.Size]byte

// repairDelay is the time for which an object is not repaired again, so that the controller
// and another writer with other wishes do not flood the API server. A later pass repairs
// it.
var repairDelay = 10 * time.Second

// apply brings an object to its desired state. It sends no request while the cached object
// is the result of the last apply.
func apply[T client.Object, L client.List](ctx context.Context, c *controller, peering *v1alpha1.Peering, kind *client.Kind[T, L], cached *client.Cache[T], wanted T) error {
	id := objectID{peering.UID, kindName(wanted), wanted.GetName()}
	now := applied{wanted: digestOf(wanted)}
	if was, ok := c.applied[id]; ok && was.wanted == now.wanted {
		is, exists := cached.Get(wanted.GetNamespace() + "/" + wanted.GetName())
		if exists && (is.GetResourceVersion() == was.version || digestOf(is) == was.is) {
			was.version = is.GetResourceVersion()
			c.applied[id] = was
			return nil
		}
		if time.Since(was.corrected) < repairDelay {
			return nil
		}
		now.corrected = time.Now()
	}
	answer, err := kind.Apply(ctx, wanted, Manager)
	if err != nil {
		return explainAPIError(kindName(wanted), wanted.GetNamespace(), wanted.GetName(), err)
	}
	now.is, now.version = digestOf(answer), answer.GetResourceVersion()
	c.applied[id] = now
	return nil
}

// remove deletes an object, but not another one that has replaced it.
func remove[T client.Object, L client.List](ctx context.Context, c *controller, peering *v1alpha1.Peering, kind *client.Kind[T, L], object T) error {
	delete(c.applied, objectID{peering.UID, kindName(object), object.GetName()})
	uid := object.GetUID()
	err := kind.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return explainAPIError("delete "+kindName(object), object.GetNamespace(), object.GetName(), err)
}

// digestOf returns the digest of an object without its status and server-managed metadata.
func digestOf(object client.Object) digest {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // every Kubernetes object can be encoded as JSON
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	for _, name := range []string{"kind", "apiVersion", "metadata", "status"} {
		delete(fields, name)
	}
	text, err = json.Marshal([]any{fields, object.GetLabels(), object.GetAnnotations(), object.GetOwnerReferences()})
	if err != nil {
		panic(err)
	}
	return sha256.Sum256(text)
}

// kindName returns the kind of an object for messages.
func kindName(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }

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

// objectID is one of the objects that belong to a peering.
type objectID struct {
	peering    types.UID
	kind, name string
}

// applied is what became of an object when it was applied. It is remembered only to
// send nothing while nothing changes: a controller that starts applies everything once.
type applied struct {
	wanted, is digest
	version    string    // the resource version that is known to be the same
	corrected  time.Time // when it was last applied again because it had changed
}

// digest is of what somebody wants of an object.
type digest [sha256.Size]byte

// repairDelay is how long an object is left alone that was just put right, so that two who
// want different things of it do not fill the API server. The next pass puts it right.
var repairDelay = 10 * time.Second

// apply makes an object as it is wanted, and asks nothing of the API server while what
// the cache has is what came of that.
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

// remove deletes an object, but not one that took its place.
func remove[T client.Object, L client.List](ctx context.Context, c *controller, peering *v1alpha1.Peering, kind *client.Kind[T, L], object T) error {
	delete(c.applied, objectID{peering.UID, kindName(object), object.GetName()})
	uid := object.GetUID()
	err := kind.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return explainAPIError("delete "+kindName(object), object.GetNamespace(), object.GetName(), err)
}

// digestOf is the digest of an object, without its status and what changes with it.
func digestOf(object client.Object) digest {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // no object of Kubernetes holds what JSON cannot
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

// kindName is what people call an object's kind.
func kindName(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }

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
	"strait.dev/strait/k8s/controller/workload"
)

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

func remove[T client.Object, L client.List](ctx context.Context, c *controller, peering *v1alpha1.Peering, kind *client.Kind[T, L], object T) error {
	delete(c.applied, objectID{peering.UID, kindName(object), object.GetName()})
	return explainAPIError("delete "+kindName(object), object.GetNamespace(), object.GetName(), deleteExactly(ctx, kind, object))
}

// deleteExactly deletes an object, but not another one that has replaced it.
func deleteExactly[T client.Object, L client.List](ctx context.Context, kind *client.Kind[T, L], object T) error {
	err := kind.Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(object.GetUID()))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
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
	return client.Digest([]any{fields, object.GetLabels(), object.GetAnnotations(), object.GetOwnerReferences()})
}

func kindName(object client.Object) string { return reflect.TypeOf(object).Elem().Name() }

// applyCiliumPolicy brings the CiliumNetworkPolicy of a peering to its desired state. It is not
// watched, because most clusters do not have this resource type, but applied in each resync.
func (c *controller) applyCiliumPolicy(ctx context.Context, peering *v1alpha1.Peering, now time.Time) error {
	policies, wanted := c.client.CiliumNetworkPolicies(c.gateways.Namespace), workload.CiliumNetworkPolicy(c.gateways, peering)
	id := objectID{peering.UID, kindName(wanted), wanted.Name}
	if now.Sub(c.noCilium) < resync || now.Sub(c.applied[id].corrected) < resync {
		return nil
	}
	var err error
	if c.gateways.NoPolicies {
		err = policies.Delete(ctx, wanted.Name, metav1.DeleteOptions{})
	} else {
		_, err = policies.Apply(ctx, wanted, Manager)
	}
	switch {
	case apierrors.IsNotFound(err): // the resource type does not exist, or there is nothing to delete
		c.noCilium = now
		return nil
	case err != nil:
		return explainAPIError(kindName(wanted), wanted.Namespace, wanted.Name, err)
	}
	c.applied[id] = applied{corrected: now}
	return nil
}

package lender

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// writeObject makes a change of an object that is not a pod. It returns false if it has to be
// tried again without another change.
func (l *lender) writeObject(ctx context.Context, w *ObjectWrite) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch namespace := w.Object.GetNamespace(); w.Kind {
	case protocol.KindConfigMap:
		return writeObject(ctx, l, l.Client.ConfigMaps(namespace), w)
	case protocol.KindSecret:
		return writeObject(ctx, l, l.Client.Secrets(namespace), w)
	case protocol.KindService:
		return writeObject(ctx, l, l.Client.Services(namespace), w)
	case kindEndpoints:
		return writeObject(ctx, l, l.Client.EndpointSlices(namespace), w)
	}
	panic("no object of kind " + w.Kind + " is written")
}

func writeObject[T client.Object, L client.List](ctx context.Context, l *lender, kind *client.Kind[T, L], w *ObjectWrite) bool {
	name := w.Object.GetName()
	log := l.log.With("namespace", w.Object.GetNamespace(), "kind", w.Kind, "name", name)
	uid, version := w.Object.GetUID(), w.Object.GetResourceVersion()
	remove := func() error {
		return kind.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	}
	var err error
	switch w.Act {
	case CreateObject:
		_, err = kind.Create(ctx, w.Object.(T), metav1.CreateOptions{})
	case UpdateObject:
		if _, err = kind.Update(ctx, w.Object.(T), metav1.UpdateOptions{}); apierrors.IsInvalid(err) {
			err = remove() // what is immutable has changed, like the type of a Secret: it is created again
		}
	case DeleteObject:
		err = remove()
	}
	switch {
	case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true // the caches will show the present state
	case w.Act == CreateObject && apierrors.IsAlreadyExists(err):
		is, err := kind.Get(ctx, name, metav1.GetOptions{})
		if err == nil && is.GetLabels()[translate.PeeringLabel] != l.Peering {
			l.refuse(w.Key, "NameTaken", "the other cluster has one of this name that is not of this peering; use another name")
		}
		return false
	case w.Act != DeleteObject && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
		log.Warn("this cluster refuses the object", "error", err)
		l.refuse(w.Key, "ObjectRefused", err.Error())
		return false
	}
	log.Warn("cannot write the object; retrying", "error", err)
	return false
}

// confirmAbsent returns a *translate.Refusal if an object exists that is not of the Peering: a twin
// would read it.
func (l *lender) confirmAbsent(ctx context.Context, namespace string, all []translate.Reference) error {
	for _, r := range all {
		var is metav1.Object
		var err error
		switch r.Kind {
		case protocol.KindConfigMap:
			is, err = l.Client.ConfigMaps(namespace).Get(ctx, r.Name, metav1.GetOptions{})
		default:
			is, err = l.Client.Secrets(namespace).Get(ctx, r.Name, metav1.GetOptions{})
		}
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read %s %s: %w", r.Kind, r.Name, err)
		case is.GetLabels()[translate.PeeringLabel] != l.Peering:
			return &translate.Refusal{Field: r.Kind + " " + r.Name, Why: "namespace " + namespace + " of the other cluster has one that is not of this peering; use another name"}
		}
	}
	return nil
}

package lender

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

const maxText = 1024 // bytes of a refusal

// purposes say what acts on a pod do, for messages.
var purposes = map[Act]string{
	CreateRecord: "store the pod", UpdateRecord: "update the stored pod", ChangeRecord: "update the stored pod", DeleteRecord: "delete the stored pod",
	CreateTwin: "create the pod", UpdateTwin: "change the pod", DeleteTwin: "delete the pod", ConfirmGone: "confirm that the pod is gone",
}

// write makes a change. It returns false if it has to be tried again without another change.
func (l *lender) write(ctx context.Context, w *Write) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var of metav1.Object = w.Twin
	if w.Twin == nil {
		of = w.Record
	}
	what, namespace, name := purposes[w.Act], of.GetNamespace(), of.GetName()
	err := l.confirm(ctx, w, of)
	if err == nil || w.TakenBack && apierrors.IsForbidden(err) {
		err = l.perform(ctx, w, namespace, name)
	}
	log := l.log.With("namespace", namespace, "pod", name)
	var foreign *translate.Refusal
	switch {
	case err == nil:
		return true
	case errors.As(err, &foreign):
		l.refuse(namespace+"/"+name, "NameTaken", foreign.Error())
		return false
	case (w.Act == CreateRecord || w.Act == CreateTwin) && apierrors.IsAlreadyExists(err):
		return l.taken(ctx, w, namespace, name)
	case refusable(w.Act) && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
		log.Warn("this cluster refuses to "+what, "error", err)
		l.refuse(namespace+"/"+name, "TwinRefused", err.Error())
		return false
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true // the caches will show another state
	}
	log.Warn("cannot "+what+"; retrying", "error", err)
	return false
}

func (l *lender) perform(ctx context.Context, w *Write, namespace, name string) (err error) {
	records, twins := l.Client.PodTemplates(namespace), l.Client.Pods(namespace)
	switch w.Act {
	case CreateRecord:
		_, err = records.Create(ctx, w.Record, metav1.CreateOptions{})
	case UpdateRecord, ChangeRecord:
		_, err = records.Update(ctx, w.Record, metav1.UpdateOptions{})
	case DeleteRecord:
		err = records.Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &w.Record.UID, ResourceVersion: &w.Record.ResourceVersion},
		})
	case CreateTwin:
		if err = l.confirmAbsent(ctx, namespace, w.Absent); err == nil {
			_, err = twins.Create(ctx, w.Twin, metav1.CreateOptions{})
		}
	case UpdateTwin:
		_, err = twins.Update(ctx, w.Twin, metav1.UpdateOptions{})
	case DeleteTwin:
		err = twins.Delete(ctx, name, metav1.DeleteOptions{
			GracePeriodSeconds: &w.Grace, Preconditions: metav1.NewUIDPreconditions(string(w.Twin.UID)),
		})
	case ConfirmGone:
		l.mu.Lock()
		l.state.Gone(w.Twin.Labels[translate.OriginLabel])
		l.mu.Unlock()
		l.loop.Wake()
	}
	return err
}

// refuse notes that this cluster refuses the object with a key, or the record or twin.
func (l *lender) refuse(key, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Refuse(key, reason, client.Clip(message, maxText), time.Now())
}

// taken handles the name of a record or twin that exists: the caches are late, or it is not of
// the Peering.
func (l *lender) taken(ctx context.Context, w *Write, namespace, name string) bool {
	var is metav1.Object
	var err error
	if w.Act == CreateRecord {
		is, err = l.Client.PodTemplates(namespace).Get(ctx, name, metav1.GetOptions{})
	} else {
		is, err = l.Client.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err == nil && is.GetLabels()[translate.PeeringLabel] != l.Peering {
		l.refuse(namespace+"/"+name, "NameTaken", fmt.Sprintf(
			"namespace %s of the other cluster has an object of the name %s that is not of this peering; rename the pod", namespace, name))
	}
	return false
}

// confirm returns an error if the API server does not confirm what a write assumes: a conflict
// if it is not so. of is an object of the pod.
func (l *lender) confirm(ctx context.Context, w *Write, of metav1.Object) error {
	namespace, name, uid := of.GetNamespace(), of.GetName(), of.GetLabels()[translate.OriginLabel]
	late := func(what string) error {
		return apierrors.NewConflict(corev1.Resource("pods"), name, fmt.Errorf("the %s of UID %s is another than expected", what, uid))
	}
	if w.UnlessTwin {
		is, err := l.Client.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && is.Labels[translate.OriginLabel] == uid {
			return late("twin")
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if !w.UnlessRecord && w.IfRecord == nil {
		return nil
	}
	is, err := l.Client.PodTemplates(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case w.UnlessRecord && err == nil && is.Labels[translate.OriginLabel] == uid,
		w.IfRecord != nil && (err != nil || is.ResourceVersion != w.IfRecord.ResourceVersion):
		return late("record")
	}
	return nil
}

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

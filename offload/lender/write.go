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
	if err == nil {
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

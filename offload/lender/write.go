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

// maxText is the maximum length of a refusal, in bytes.
const maxText = 1024

// write makes a change. It returns false if it has to be tried again without another change.
func (l *lender) write(ctx context.Context, w *Write) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var what, namespace, name string
	var err error
	switch w.Act {
	case CreateRecord:
		what, namespace, name = "store the pod", w.Record.Namespace, w.Record.Name
		_, err = l.Client.PodTemplates(namespace).Create(ctx, w.Record, metav1.CreateOptions{})
	case CreateTwin:
		what, namespace, name = "create the pod", w.Twin.Namespace, w.Twin.Name
		if err = l.confirm(ctx, w, w.Twin); err == nil {
			err = l.confirmAbsent(ctx, namespace, w.Absent)
		}
		var foreign *foreignError
		if errors.As(err, &foreign) {
			l.refuse(namespace+"/"+name, "NameTaken", foreign.Error())
			return false
		}
		if err == nil {
			_, err = l.Client.Pods(namespace).Create(ctx, w.Twin, metav1.CreateOptions{})
		}
	case UpdateTwin:
		what, namespace, name = "change the pod", w.Twin.Namespace, w.Twin.Name
		if err = l.confirm(ctx, w, w.Twin); err == nil {
			_, err = l.Client.Pods(namespace).Update(ctx, w.Twin, metav1.UpdateOptions{})
		}
	case UpdateRecord, ChangeRecord:
		what, namespace, name = "update the stored pod", w.Record.Namespace, w.Record.Name
		if err = l.confirm(ctx, w, w.Record); err == nil {
			_, err = l.Client.PodTemplates(namespace).Update(ctx, w.Record, metav1.UpdateOptions{})
		}
	case DeleteRecord:
		what, namespace, name = "delete the stored pod", w.Record.Namespace, w.Record.Name
		if err = l.confirm(ctx, w, w.Record); err == nil {
			err = l.Client.PodTemplates(namespace).Delete(ctx, name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &w.Record.UID, ResourceVersion: &w.Record.ResourceVersion},
			})
		}
	case DeleteTwin:
		what, namespace, name = "delete the pod", w.Twin.Namespace, w.Twin.Name
		if err = l.confirm(ctx, w, w.Twin); err == nil {
			err = l.Client.Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{
				GracePeriodSeconds: &w.Grace, Preconditions: metav1.NewUIDPreconditions(string(w.Twin.UID)),
			})
		}
	case ConfirmGone:
		what, namespace, name = "confirm that the pod is gone", w.Twin.Namespace, w.Twin.Name
		if err = l.confirm(ctx, w, w.Twin); err == nil {
			l.mu.Lock()
			l.state.Gone(w.Twin.Labels[translate.OriginLabel])
			l.mu.Unlock()
			l.loop.Wake()
		}
	}
	creates := w.Act == CreateRecord || w.Act == CreateTwin
	log := l.log.With("namespace", namespace, "pod", name)
	switch {
	case err == nil:
		return true
	case creates && apierrors.IsAlreadyExists(err):
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

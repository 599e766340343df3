package kube

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// Objects is the part of a typed client that Edit requires.
type Objects[T any] interface {
	Get(context.Context, string, metav1.GetOptions) (*T, error)
	Update(context.Context, *T, metav1.UpdateOptions) (*T, error)
}

// Statuses is the part of a typed client that EditStatus requires.
type Statuses[T any] interface {
	Get(context.Context, string, metav1.GetOptions) (*T, error)
	UpdateStatus(context.Context, *T, metav1.UpdateOptions) (*T, error)
}

// Edit changes an object like a user with an editor: it retries after a conflict with
// another writer, such as the controller under test. It returns the stored object.
func Edit[T any](t testing.TB, of Objects[T], name string, edit func(*T)) *T {
	t.Helper()
	return change(t, of.Get, of.Update, name, edit)
}

// EditStatus does the same for the object's status.
func EditStatus[T any](t testing.TB, of Statuses[T], name string, edit func(*T)) *T {
	t.Helper()
	return change(t, of.Get, of.UpdateStatus, name, edit)
}

func change[T any](
	t testing.TB, get func(context.Context, string, metav1.GetOptions) (*T, error),
	put func(context.Context, *T, metav1.UpdateOptions) (*T, error), name string, edit func(*T),
) (stored *T) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object, err := get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(object)
		stored, err = put(t.Context(), object, metav1.UpdateOptions{})
		return err
	}))
	return stored
}

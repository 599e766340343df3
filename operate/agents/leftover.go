package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
)

// Leftover returns the namespaces of all groups: of running ones, and of those whose
// command was killed.
func Leftover(ctx context.Context, c *client.Client) ([]string, error) {
	return namespaces(ctx, c, label, func(corev1.Namespace) bool { return true })
}

// Abandoned returns the namespaces of groups with a purpose that were created before a
// time: of a command that was killed, or that was to keep them.
func Abandoned(ctx context.Context, c *client.Client, purpose string, before time.Time) ([]string, error) {
	return namespaces(ctx, c, label+"="+purpose, func(n corev1.Namespace) bool { return n.CreationTimestamp.Time.Before(before) })
}

func namespaces(ctx context.Context, c *client.Client, selector string, is func(corev1.Namespace) bool) (names []string, err error) {
	list, err := c.Namespaces().List(ctx, metav1.ListOptions{LabelSelector: selector})
	for _, n := range list.Items {
		if is(n) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names, err
}

// Remove deletes namespaces of groups, and waits until they are gone.
func Remove(ctx context.Context, c *client.Client, namespaces []string) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	var all error
	for _, name := range namespaces {
		err := c.Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			all = errors.Join(all, fmt.Errorf("namespace %s was not deleted: %w; delete it with kubectl delete namespace", name, err))
		}
	}
	for _, name := range namespaces {
		for {
			_, err := c.Namespaces().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || all != nil {
				break
			}
			if !pause(ctx) {
				all = errors.Join(all, fmt.Errorf("namespace %s is not gone after %v; see kubectl get namespace %[1]s -o yaml", name, endTimeout))
			}
		}
	}
	return all
}

// Image returns the image of the Strait that is installed in the cluster.
func Image(ctx context.Context, c *client.Client) (string, error) {
	list, err := c.Pods("").List(ctx, metav1.ListOptions{LabelSelector: install.NameLabel + "=" + install.Name})
	if err != nil {
		return "", fmt.Errorf("look up Strait's image: %w; set --image", err)
	}
	for i := range list.Items {
		for _, of := range list.Items[i].Spec.Containers {
			if of.Image != "" && slices.Contains([]string{install.Controller, install.Gateway, install.Node}, of.Name) {
				return of.Image, nil
			}
		}
	}
	return "", errors.New("no pod of Strait runs in the cluster, so its image is not known; install Strait, or set --image")
}

package offload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/lender"
	"strait.dev/strait/offload/translate"
	"strait.dev/strait/operate/operator"
)

// UnlendOptions are what is not lent to the cluster of a Peering any more.
type UnlendOptions struct {
	Peering    string
	Namespaces []string      // none: all
	Wait       time.Duration // for pods to end, at most
	Say        func(string)  // progress
}

// Unlending is what Unlend ends.
type Unlending struct {
	Cluster    string   `json:"cluster"` // as in operator.Cluster
	Peering    string   `json:"peering"`
	Namespaces []string `json:"namespaces"`
	Deleted    []string `json:"deleted,omitempty"` // namespaces among them that are deleted: strait lend made them
	Pods       int      `json:"pods"`              // of the other cluster, that run there
	Lender     bool     `json:"lender"`            // it ends, too: nothing is lent to the Peering any more
}

// PlanUnlend returns what Unlend ends. The Peering may be gone.
func PlanUnlend(ctx context.Context, c operator.Cluster, o UnlendOptions) (u Unlending, err error) {
	u = Unlending{Cluster: c.Name, Peering: o.Peering}
	labelled, err := operator.List(ctx, c, "Namespaces", c.Client.Namespaces(), metav1.ListOptions{LabelSelector: translate.PeeringLabel + "=" + o.Peering})
	if err != nil {
		return u, err
	}
	made := make(map[string]bool)
	var all []string
	for _, n := range labelled.Items {
		all = append(all, n.Name)
		made[n.Name] = n.Annotations[madeAnnotation] != ""
	}
	u.Namespaces = o.Namespaces
	if len(u.Namespaces) == 0 {
		u.Namespaces = all
	}
	for _, name := range u.Namespaces {
		if !slices.Contains(all, name) {
			return u, fmt.Errorf("%s: namespace %s is not lent to Peering %s; these are: %s", c.Name, name, o.Peering, strings.Join(all, ", "))
		}
		pods, err := twins(ctx, c, name, o.Peering)
		if err != nil {
			return u, err
		}
		u.Pods += len(pods)
		if made[name] {
			u.Deleted = append(u.Deleted, name)
		}
	}
	u.Lender = !slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(u.Namespaces, name) })
	return u, nil
}

// Unlend ends the pods of the other cluster in namespaces and removes what Lend has made: first
// new pods are refused, then records are deleted, whose twins end with their grace periods, then
// copies and rights. It may be interrupted and called again.
func Unlend(ctx context.Context, c operator.Cluster, o UnlendOptions) (Unlending, error) {
	u, err := PlanUnlend(ctx, c, o)
	if err != nil {
		return u, err
	}
	if err := keepLending(ctx, c, u); err != nil {
		return u, err
	}
	ours := metav1.ListOptions{LabelSelector: translate.PeeringLabel + "=" + u.Peering}
	for _, namespace := range u.Namespaces {
		if err := deleteAll(ctx, c, "PodTemplate", c.Client.PodTemplates(namespace), ours); err != nil {
			return u, err
		}
	}
	if err := untilEnded(ctx, c, u, o); err != nil {
		return u, err
	}
	v := values{Namespace: Namespace, Agent: lender.Name(u.Peering), Command: "lender", Peering: u.Peering}
	for _, v.Twins = range u.Namespaces {
		if err := empty(ctx, c, v, ours); err != nil {
			return u, err
		}
		if err := release(ctx, c, v.Twins, slices.Contains(u.Deleted, v.Twins)); err != nil {
			return u, err
		}
	}
	if !u.Lender {
		return u, nil
	}
	if err := patchSpec(ctx, c, u.Peering, map[string]any{"lend": nil}); err != nil {
		return u, err
	}
	for _, manifest := range []string{"lender.yaml", "agents.yaml"} {
		if err := remove(ctx, c, manifest, v); err != nil {
			return u, err
		}
	}
	if err := operator.Delete(ctx, c, "AddressMapping", c.Client.AddressMappings(), v.Agent, metav1.DeleteOptions{}); err != nil {
		return u, err
	}
	return u, removeAgent(ctx, c, v.Agent)
}

// keepLending takes namespaces from spec.lend. The lender keeps its address until it is deleted, so
// that it can say why pods end.
func keepLending(ctx context.Context, c operator.Cluster, u Unlending) error {
	p, err := c.Client.Peerings().Get(ctx, u.Peering, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && p.Spec.Lend == nil {
		return nil
	}
	if err != nil {
		return c.Failed("read Peering "+u.Peering, err)
	}
	left := slices.DeleteFunc(slices.Clone(p.Spec.Lend.Namespaces), func(name string) bool { return slices.Contains(u.Namespaces, name) })
	return patchSpec(ctx, c, u.Peering, map[string]any{"lend": map[string]any{"namespaces": left}})
}

// patchSpec changes the spec of a Peering that may be gone.
func patchSpec(ctx context.Context, c operator.Cluster, peering string, spec map[string]any) error {
	text, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = c.Client.Peerings().Patch(ctx, peering, types.MergePatchType, text, metav1.PatchOptions{FieldManager: manager})
	return c.Failed("write Peering "+peering, operator.UnlessMissing(err))
}

func twins(ctx context.Context, c operator.Cluster, namespace, peering string) ([]corev1.Pod, error) {
	pods, err := operator.List(ctx, c, "the pods in namespace "+namespace, c.Client.Pods(namespace), metav1.ListOptions{LabelSelector: translate.PeeringLabel + "=" + peering})
	return pods.Items, err
}

// untilEnded waits until all twins have ended. It deletes those that the lender has not: it may be
// stopped.
func untilEnded(ctx context.Context, c operator.Cluster, u Unlending, o UnlendOptions) error {
	return untilNone(ctx, c, o.Wait, o.Say, func() (left []string, err error) {
		for _, namespace := range u.Namespaces {
			pods, err := twins(ctx, c, namespace, u.Peering)
			if err != nil {
				return nil, err
			}
			for _, pod := range pods {
				left = append(left, namespace+"/"+pod.Name)
				if pod.DeletionTimestamp != nil {
					continue
				}
				err := operator.Delete(ctx, c, "pod", c.Client.Pods(namespace), pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
				if err != nil && !apierrors.IsConflict(err) {
					return nil, err
				}
			}
		}
		return left, nil
	})
}

// errNotEnded is the error of pods that have not ended in time.
var errNotEnded = errors.New("run the command again with a longer --wait")

// untilNone waits until no pods are left. The error after the timeout names those that are.
func untilNone(ctx context.Context, c operator.Cluster, wait time.Duration, say func(string), look func() (left []string, err error)) error {
	for deadline := time.Now().Add(wait); ; {
		left, err := look()
		if err != nil || len(left) == 0 {
			return err
		}
		some := strings.Join(left[:min(len(left), 3)], ", ")
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %d pods have not ended after %v, like %s; %w", c.Name, len(left), wait, some, errNotEnded)
		}
		say(fmt.Sprintf("waiting for %d pods to end, like %s", len(left), some))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
	}
}

// empty deletes what the lender has in a namespace, and its rights there.
func empty(ctx context.Context, c operator.Cluster, v values, ours metav1.ListOptions) error {
	k := c.Client
	for _, failed := range []error{
		deleteAll(ctx, c, "Service", k.Services(v.Twins), ours),
		deleteAll(ctx, c, "EndpointSlice", k.EndpointSlices(v.Twins), ours),
		deleteAll(ctx, c, "ConfigMap", k.ConfigMaps(v.Twins), ours),
		deleteAll(ctx, c, "Secret", k.Secrets(v.Twins), ours),
	} {
		if failed != nil {
			return failed
		}
	}
	v.Isolate = true // if it has a NetworkPolicy
	return remove(ctx, c, "twins.yaml", v)
}

// release deletes a namespace, or takes the label of the Peering from it.
func release(ctx context.Context, c operator.Cluster, namespace string, made bool) error {
	if made {
		return operator.Delete(ctx, c, "namespace", c.Client.Namespaces(), namespace, metav1.DeleteOptions{})
	}
	return unlabel(ctx, c, namespace, translate.PeeringLabel)
}

func unlabel(ctx context.Context, c operator.Cluster, namespace, label string) error {
	_, err := c.Client.Namespaces().Patch(ctx, namespace, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, label), metav1.PatchOptions{FieldManager: manager})
	return c.Failed("remove the label "+label+" of namespace "+namespace, operator.UnlessMissing(err))
}

func deleteAll[T client.Object, L client.List](ctx context.Context, c operator.Cluster, name string, kind *client.Kind[T, L], which metav1.ListOptions) error {
	all, err := operator.List(ctx, c, "objects of type "+name, kind, which)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	return meta.EachListItem(all, func(item runtime.Object) error {
		return operator.Delete(ctx, c, name, kind, item.(T).GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
	})
}

// removeAgent removes what an agent has made, and the namespace of the agents if it was the last
// one.
func removeAgent(ctx context.Context, c operator.Cluster, agent string) error {
	if err := operator.Delete(ctx, c, "Secret", c.Client.Secrets(Namespace), agent, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := operator.Delete(ctx, c, "Lease", c.Client.Leases(Namespace), agent, metav1.DeleteOptions{}); err != nil {
		return err
	}
	others, err := operator.List(ctx, c, "Deployments in namespace "+Namespace, c.Client.Deployments(Namespace), metav1.ListOptions{})
	if err != nil || len(others.Items) > 0 {
		return err
	}
	return operator.Delete(ctx, c, "namespace", c.Client.Namespaces(), Namespace, metav1.DeleteOptions{})
}

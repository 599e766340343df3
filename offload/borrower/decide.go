package borrower

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// Offered is the condition of a pod that the lender may know.
const Offered corev1.PodConditionType = "strait.dev/Offered"

// OffloadLabel is the label of a namespace whose pods may run in the cluster of a Peering: its
// value is the Peering's name.
const OffloadLabel = "strait.dev/offload"

// Consent is whether a namespace's pods may run in the other cluster.
type Consent int

// The values of Consent.
const (
	ConsentUnknown Consent = iota // not read yet
	ConsentGiven
	ConsentMissing
)

// View is what a decision about a pod depends on, beside the pod.
type View struct {
	Peering string
	Node    translate.Node
	Fresh   bool     // the lender answers, and has said all about all pods
	Lent    []string // namespaces that the lender offers
	Largest corev1.ResourceList
	Full    bool            // the list has room for no other pod
	Reach   []merge.Mapping // of the other cluster's pods
	Now     metav1.Time
	Shelf   *Shelf
	// Observes is whether the API server keeps the observed generation of pods, as from Kubernetes 1.34.
	Observes bool
}

// Write is a change of one pod, given its version: a status, or its removal.
type Write struct {
	Pod    *corev1.Pod
	Status *corev1.PodStatus // nil: remove the pod
}

// size returns the bytes that a write stores, with an event.
func (w *Write) size() int {
	if w.Status == nil {
		return 0
	}
	return w.Status.Size() + maxEventMessage
}

// offers reports whether the lender may know the pod after a write.
func (w *Write) offers() bool { return w.Status != nil && isOffered(w.Status) }

// Template describes what the lender gets of a pod.
type Template struct {
	Hash       string
	References []translate.Reference
	Err        error // it cannot have a twin
}

// Describe returns the description of a pod's template.
func Describe(pod *corev1.Pod, node translate.Node) *Template {
	t := &Template{References: translate.PodReferences(pod)}
	_, t.Hash, t.Err = Encode(pod, node)
	return t
}

// Encode returns the encoded template of a pod, with its hash.
func Encode(pod *corev1.Pod, node translate.Node) (text []byte, hash string, err error) {
	t, err := translate.Template(pod, node)
	if err != nil {
		return nil, "", err
	}
	return protocol.EncodeTemplate(t)
}

// List returns the list for the lender: all pods of the node that were offered to it, and the
// objects to which those refer that have not finished. of describes pods. Of more pods than a list
// may have, some that finished are left out, the oldest first: nothing of them runs.
func List(pods []*corev1.Pod, of func(*corev1.Pod) *Template, shelf *Shelf) (list []protocol.Pod, objects []protocol.Object) {
	var finished []*corev1.Pod
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !offered(pod) })
	for _, pod := range pods {
		if !takesRoom(pod) {
			finished = append(finished, pod)
		}
	}
	slices.SortFunc(finished, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(string(a.UID), string(b.UID)))
	})
	leftOut := make(map[types.UID]bool)
	for _, pod := range finished[:min(max(len(pods)-protocol.MaxPods, 0), len(finished))] {
		leftOut[pod.UID] = true
	}
	for _, pod := range pods {
		if leftOut[pod.UID] {
			continue
		}
		entry := protocol.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Finished: translate.Final(pod.Status.Phase),
			Once: pod.Status.Phase == corev1.PodRunning && !translate.RestartsAlways(&pod.Spec),
		}
		if pod.DeletionTimestamp != nil {
			entry.Deleting = true
			if pod.DeletionGracePeriodSeconds != nil {
				entry.Grace = *pod.DeletionGracePeriodSeconds
			}
		} else if t := of(pod); t.Err == nil {
			entry.Hash = t.Hash
		} else {
			entry.Hash = protocol.Hash(nil) // refused by this version only: the lender keeps what it has
		}
		list = append(list, entry)
	}
	slices.SortFunc(list, func(a, b protocol.Pod) int { return strings.Compare(a.Key(), b.Key()) })
	return list, shelf.list()
}

// Decide returns the next write for a pod of the node, nil if there is none. t describes the pod's
// template, said is what the lender says about it, nil if nothing.
func Decide(pod *corev1.Pod, t *Template, said *protocol.PodStatus, consent Consent, v *View) *Write {
	if !offered(pod) {
		return offer(pod, t, consent, v)
	}
	if !v.Fresh || said == nil {
		return nil
	}
	switch said.State {
	case protocol.StateGone:
		if pod.DeletionTimestamp != nil {
			return &Write{Pod: pod}
		}
	case protocol.StatePending, protocol.StateUnknown:
		reason, message := v.Shelf.missing(pod.Namespace, t.References)
		return v.waiting(pod, reason, message)
	case protocol.StateRefused:
		if said.Ended && pod.Status.Phase == corev1.PodRunning {
			ended := &corev1.PodStatus{Phase: corev1.PodFailed, Reason: said.Reason, Message: said.Message}
			return v.status(pod, translate.Status(pod, ended, said.Made, v.Node, v.Reach, v.Now))
		}
		return v.waiting(pod, said.Reason, said.Message)
	case protocol.StateMade:
		return v.status(pod, translate.Status(pod, said.Status, said.Made, v.Node, v.Reach, v.Now))
	}
	return nil
}

func offer(pod *corev1.Pod, t *Template, consent Consent, v *View) *Write {
	switch {
	case pod.DeletionTimestamp != nil:
		return &Write{Pod: pod}
	case translate.Final(pod.Status.Phase), !v.Fresh, consent == ConsentUnknown:
		return nil
	case consent == ConsentMissing:
		return v.waiting(pod, "NamespaceNotOffloaded", "the namespace is not offloaded to this node; offload it with: strait offload "+pod.Namespace+" --to "+v.Peering)
	case !slices.Contains(v.Lent, pod.Namespace):
		return v.waiting(pod, "NamespaceNotLent", "the other cluster does not lend the namespace; its admin can: strait lend "+pod.Namespace)
	}
	if t.Err != nil {
		return v.waiting(pod, "FieldRefused", t.Err.Error())
	}
	if v.Full {
		return v.waiting(pod, "TooManyPods", fmt.Sprintf("the node has %d pods that have not finished, and can have no more; the pod waits until one has ended", protocol.MaxPods))
	}
	if why := translate.TooLarge(&pod.Spec, v.Largest); why != "" {
		return v.waiting(pod, "TooLarge", why)
	}
	is := translate.Waiting(pod, "", "", v.Now)
	is.Conditions = append(is.Conditions, corev1.PodCondition{
		Type: Offered, Status: corev1.ConditionTrue, LastTransitionTime: v.Now, Reason: "NamespaceOffloaded",
	})
	return v.status(pod, is)
}

// Room returns how many more pods can be offered. offers are pods that were, though their status
// may not say so yet.
func Room(pods []*corev1.Pod, offers map[types.UID]bool) int {
	n := protocol.MaxPods
	for _, pod := range pods {
		if (offered(pod) || offers[pod.UID]) && takesRoom(pod) {
			n--
		}
	}
	return n
}

// takesRoom reports whether List never leaves a pod out that was offered.
func takesRoom(pod *corev1.Pod) bool {
	return !translate.Final(pod.Status.Phase) || pod.DeletionTimestamp != nil
}

// offered reports whether the lender may know a pod.
func offered(pod *corev1.Pod) bool { return isOffered(&pod.Status) }

func isOffered(s *corev1.PodStatus) bool {
	return slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == Offered })
}

func (v *View) waiting(pod *corev1.Pod, reason, message string) *Write {
	return v.status(pod, translate.Waiting(pod, reason, message, v.Now))
}

// status returns the write of a status, nil if the pod has it.
func (v *View) status(pod *corev1.Pod, is corev1.PodStatus) *Write {
	if v.Observes {
		is.ObservedGeneration = pod.Generation
	}
	if apiequality.Semantic.DeepEqual(pod.Status, is) {
		return nil
	}
	return &Write{Pod: pod, Status: &is}
}

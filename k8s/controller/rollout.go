package controller

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/condition"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/peering"
)

// Kubernetes replaces the pods of a StatefulSet one after the other when their template
// changes, and continues when the new pod is ready, which requires a link (linksup.go). An
// upgrade of Strait changes the templates of all peerings; the controller changes that of
// the next peering when the rollout of the one before is complete. An image with which no
// link comes up therefore stops at the first gateway of the first peering.
//
// The only gateway of a peering is replaced when a temporary one has a link (surge.go).
//
// A peering that did not work before the rollout began proves nothing and holds up no other
// one.

// rolloutAnnotation on a StatefulSet has the rollout, as JSON, that its template is from.
// It is written together with the template, so that a controller may stop at any time.
// Without it, the next pass begins a rollout, which expects only the links that are up, and
// no temporary gateway.
const rolloutAnnotation = "strait.dev/rollout"

type rollout struct {
	Settings string   `json:"settings"`        // digest of what the installation sets for all peerings
	Template string   `json:"template"`        // digest of the pod template
	Links    []string `json:"links,omitempty"` // gateways that had a link up when it began
	Surge    bool     `json:"surge,omitempty"` // the only gateway is replaced when a temporary one has a link
}

// rolloutOf returns the rollout that the template of a StatefulSet is from, the zero
// rollout if it is not known.
func rolloutOf(set *appsv1.StatefulSet) (r rollout) {
	if err := json.Unmarshal([]byte(set.Annotations[rolloutAnnotation]), &r); err != nil {
		return rollout{}
	}
	return r
}

func (r rollout) annotations() map[string]string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings can be encoded as JSON
	}
	return map[string]string{rolloutAnnotation: string(text)}
}

func templateDigest(template corev1.PodTemplateSpec) string {
	sum := client.Digest(template)
	return hex.EncodeToString(sum[:8])
}

// settingsDigest returns a digest of the part of pod templates that is the same for all
// peerings.
func settingsDigest(g workload.Gateways) string {
	anyPeering := &v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{Gateway: v1alpha1.GatewaySpec{Replicas: 1}}}
	return templateDigest(workload.PodTemplate(g, anyPeering))
}

// complete reports whether all pods of a StatefulSet had its current template and were
// ready at once since that template was set.
func complete(set *appsv1.StatefulSet) bool {
	s := set.Status
	return s.ObservedGeneration >= set.Generation && s.UpdateRevision != "" && s.CurrentRevision == s.UpdateRevision
}

func (c *controller) statefulSetOf(peering *v1alpha1.Peering) (*appsv1.StatefulSet, bool) {
	set, ok := c.statefulSets.Get(c.gateways.Namespace + "/" + peering.Name)
	return set, ok && metav1.IsControlledBy(set, peering)
}

func gatewaysUp(peering *v1alpha1.Peering) (up []string) {
	for _, g := range peering.Status.Gateways {
		if g.LinkUp {
			up = append(up, g.Name)
		}
	}
	return up
}

// turns returns the peerings whose template must not change yet, each with the peering that
// it waits for. Peerings of which all gateways have a link are updated first, then those of
// which some have one, then the others, which lose nothing; older ones come first. It
// changes with the rollouts' progress only, so that two controllers agree.
func (c *controller) turns(peerings []*v1alpha1.Peering) (waits map[string]string) {
	settings, current := settingsDigest(c.gateways), ""
	var next [3][]*v1alpha1.Peering // by how many gateways have a link: all, some, none
	for _, peering := range peerings {
		set, ok := c.statefulSetOf(peering)
		switch up := len(gatewaysUp(peering)); {
		case !ok || peering.DeletionTimestamp != nil:
		case rolloutOf(set).Settings == settings:
			if current == "" && c.holdsUp(peering, set) {
				current = peering.Name
			}
		case up == 0:
			next[2] = append(next[2], peering)
		case up < len(gatewayNames(peering)):
			next[1] = append(next[1], peering)
		default:
			next[0] = append(next[0], peering)
		}
	}
	waits = make(map[string]string)
	for working, some := range next {
		for _, peering := range some {
			if current != "" {
				waits[peering.Name] = current
			} else if working < 2 {
				current = peering.Name // it is updated in this pass
			}
		}
	}
	return waits
}

// holdsUp reports whether the others have to wait for the rollout of a peering: it is not
// complete, and either all its gateways had a link before, or one that had a link before is
// not ready. A gateway that did not work before cannot keep the others from being updated.
func (c *controller) holdsUp(peering *v1alpha1.Peering, set *appsv1.StatefulSet) bool {
	if complete(set) {
		return false
	}
	had, names := rolloutOf(set).Links, gatewayNames(peering)
	all := !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(had, name) })
	return all || slices.ContainsFunc(had, func(name string) bool {
		pod, ok := c.pods.Get(c.gateways.Namespace + "/" + name)
		return slices.Contains(names, name) && (!ok || !podReady(pod))
	})
}

// desiredSet returns the StatefulSet of a peering's gateways as it should be at a time. wait
// keeps its template. It has a temporary gateway only if surge says that this is possible.
func (c *controller) desiredSet(p *v1alpha1.Peering, wait, surge bool, pods gatewayPods, at time.Time) *appsv1.StatefulSet {
	wanted := workload.StatefulSet(c.gateways, p)
	now := rollout{Settings: settingsDigest(c.gateways), Template: templateDigest(wanted.Spec.Template)}
	if set, ok := c.statefulSetOf(p); ok {
		was := rolloutOf(set)
		switch {
		case wait:
			wanted.Spec.Template, now = set.Spec.Template, was
		case was.Settings == now.Settings && was.Template == now.Template:
			now = was
			now.Surge = was.Surge && !complete(set) && !waitsForNode(pods[peering.GatewayName(p, 1)], at)
		default: // a stale cache must not begin the same rollout again, when links are down
			now.Links, wanted.ResourceVersion = gatewaysUp(p), set.ResourceVersion
			now.Surge = surge && was.Template != "" && slices.Contains(now.Links, peering.GatewayName(p, 0))
		}
		if c.surges(p, set, now, surge, pods, at) {
			wanted.Spec.Replicas = new(int32(2))
		}
	}
	wanted.Annotations = now.annotations()
	return wanted
}

func (c *controller) updated(peering *v1alpha1.Peering, waitsFor string) metav1.Condition {
	set, ok := c.statefulSetOf(peering)
	if !ok {
		set = new(appsv1.StatefulSet) // it is created in this pass
	}
	switch {
	case waitsFor != "":
		return condition.New(metav1.ConditionFalse, "Waiting", "the gateways are updated when those of Peering %s are", waitsFor)
	case complete(set):
		return condition.New(metav1.ConditionTrue, "Complete", "the gateways have the current settings")
	}
	return condition.New(metav1.ConditionFalse, "RollingOut", "%s", c.progress(peering, set))
}

// progress describes what an incomplete rollout waits for, with a remedy where it may need
// one.
func (c *controller) progress(p *v1alpha1.Peering, set *appsv1.StatefulSet) string {
	names := gatewayNames(p)
	slices.Reverse(names) // the order in which Kubernetes replaces the pods
	if rolloutOf(set).Surge && len(names) == 1 {
		temporary := peering.GatewayName(p, 1)
		pod, _ := c.pods.Get(c.gateways.Namespace + "/" + temporary)
		if text := surgeProgress(set, temporary, names[0], pod); text != "" {
			return text
		}
	}
	for _, name := range names {
		pod, ok := c.pods.Get(c.gateways.Namespace + "/" + name)
		switch {
		case !ok || pod.DeletionTimestamp != nil || pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision:
			return fmt.Sprintf("gateway %s is being started or replaced", name)
		case !podRuns(pod):
			return fmt.Sprintf("gateway %s is updated, but its pod is not ready; run `kubectl describe pod %s --namespace %s` and check its log", name, name, pod.Namespace)
		case !podReady(pod) && !slices.Contains(rolloutOf(set).Links, name):
			return fmt.Sprintf("gateway %s has no link yet; the update continues when it has one, after %v in any case", name, replacementTimeout)
		case !podReady(pod):
			return fmt.Sprintf("gateway %s is updated, but has no link yet, which it had before; check its log and TunnelUp. To continue without a link, run `kubectl annotate statefulset %s --namespace %s %s-`",
				name, set.Name, set.Namespace, rolloutAnnotation)
		}
	}
	return "all gateways are updated; Kubernetes has not confirmed it yet"
}

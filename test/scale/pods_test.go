//go:build nightly

package scale

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// onePod is a pod of the test.
type onePod struct {
	namespace, name string
	node            int
	address         netip.Addr
}

// podSet is pods of one type: with addresses inside their nodes' podCIDRs, or outside.
// Safe for concurrent use.
type podSet struct {
	kind    string
	nodes   int
	serial  atomic.Int64
	free    chan netip.Addr // addresses for new pods outside, longest unused first; nil: inside
	running chan onePod     // oldest first
}

// spare is the number of unused addresses outside: so few that each moves between nodes
// repeatedly.
const spare = 100

func newWorkloads(s size) (inside, outside *podSet) {
	room := s.pods + s.rate*s.seconds
	inside = &podSet{kind: "in", nodes: s.nodes, running: make(chan onePod, room)}
	outside = &podSet{kind: "out", nodes: s.nodes, running: make(chan onePod, room), free: make(chan netip.Addr, room)}
	for i := range s.pods/outsideShare + spare {
		outside.free <- after(outsideRange.Addr(), 1+i)
	}
	return inside, outside
}

// next returns a pod that does not exist yet. It waits for a free address.
func (l *podSet) next(ctx context.Context) (onePod, error) {
	n := int(l.serial.Add(1))
	p := onePod{namespace: fmt.Sprintf("work-%d", n%podNamespaces), name: fmt.Sprintf("%s-%06d", l.kind, n), node: 1 + n%(l.nodes-1)}
	if l.free != nil {
		p.node = 1 + n*7919%(l.nodes-1) // another node than the address had
		var err error
		p.address, err = take(ctx, l.free)
		return p, err
	}
	p.address = after(nodeRange(p.node).Addr(), 2+n/(l.nodes-1)%250)
	return p, nil
}

// oldest returns the oldest pod that no other goroutine has taken.
func (l *podSet) oldest(ctx context.Context) (onePod, error) { return take(ctx, l.running) }

func take[T any](ctx context.Context, from <-chan T) (one T, err error) {
	select {
	case one = <-from:
		return one, nil
	case <-ctx.Done():
		return one, context.Cause(ctx)
	}
}

const podNamespaces = 10

func (w *world) createPods(t *testing.T) {
	for i := range podNamespaces {
		// Controllers would create the service account that pods need.
		w.api.ServiceAccount(t, fmt.Sprintf("work-%d", i), "default")
	}
	var made atomic.Int64
	each(t, w.pods, func(ctx context.Context, i int) error {
		l := w.inside
		if i%outsideShare == 0 {
			l = w.outside
		}
		p, err := l.next(ctx)
		if err == nil {
			err = w.run(ctx, p)
		}
		if err != nil {
			return err
		}
		l.running <- p
		if n := made.Add(1); n%10000 == 0 {
			w.say("%d pods", n)
		}
		return nil
	})
}

// run creates a pod like a scheduler and a kubelet. It returns when the API server has
// stored the status with the address.
func (w *world) run(ctx context.Context, p onePod) error {
	pod, err := w.admin.Pods(p.namespace).Create(ctx, podObject(p), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status = podStatus(p)
	_, err = w.admin.Pods(p.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// remove deletes a pod at once, like a kubelet after its containers have ended.
func (w *world) remove(ctx context.Context, p onePod) error {
	now := int64(0)
	return w.admin.Pods(p.namespace).Delete(ctx, p.name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// podObject is about as large as pods of web services.
func podObject(p onePod) *corev1.Pod {
	mount := false // no controller creates the ConfigMap for the token's volume
	app := fmt.Sprintf("service-%d", p.node%200)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.namespace, Name: p.name,
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/version": "v1.27.3",
				"pod-template-hash": "6d4cf56db6", "topology.kubernetes.io/zone": "zone-a",
			},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
				"checksum/config": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
			},
		},
		Spec: corev1.PodSpec{
			NodeName: nodeName(p.node), AutomountServiceAccountToken: &mount,
			Containers: []corev1.Container{{
				Name: "server", Image: "registry.example.com/team/" + app + ":v1.27.3",
				Args:  []string{"--listen=:8080", "--metrics=:9090", "--log-level=info"},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}},
				Env: []corev1.EnvVar{
					{Name: "DATABASE_URL", Value: "postgres://database.storage.svc.cluster.local:5432/" + app},
					{Name: "CACHE_URL", Value: "redis://cache.storage.svc.cluster.local:6379/0"},
					{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
				},
			}},
		},
	}
}

func podStatus(p onePod) corev1.PodStatus {
	now, started := metav1.Now(), true
	var conditions []corev1.PodCondition
	for _, which := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		conditions = append(conditions, corev1.PodCondition{Type: which, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, Conditions: conditions, QOSClass: corev1.PodQOSBurstable,
		HostIP: nodeAddress(p.node).String(), HostIPs: []corev1.HostIP{{IP: nodeAddress(p.node).String()}},
		PodIP: p.address.String(), PodIPs: []corev1.PodIP{{IP: p.address.String()}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "server", Ready: true, Started: &started, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
			Image:       "registry.example.com/team/service:v1.27.3",
			ImageID:     "registry.example.com/team/service@sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
			ContainerID: "containerd://5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
		}},
	}
}

package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/node"
	"strait.dev/strait/operate/operator"
)

// Pods implements Asked by running strait in the pods of gateways and node helpers.
type Pods struct {
	Client                          *client.Client
	Exec                            operator.Exec
	GatewayNamespace, NodeNamespace string

	Say func(string) // progress; nil: not reported
}

const askTimeout = 15 * time.Second

// Pod returns the pod with that name, nil if there is none.
func (p *Pods) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := p.Client.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return pod, err
}

// PodsOn returns the pods of a node.
func (p *Pods) PodsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := p.Client.Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("read the pods of node %s: %w", node, err)
	}
	return list.Items, nil
}

// Way queries the kernel of a node through the pod of its node helper.
func (p *Pods) Way(ctx context.Context, onNode string, to, from netip.Addr) (*node.Way, error) {
	list, err := p.Client.Pods(p.NodeNamespace).List(ctx, metav1.ListOptions{LabelSelector: install.Selector(install.Node), FieldSelector: "spec.nodeName=" + onNode})
	if err != nil {
		return nil, fmt.Errorf("find the node helper of node %s: %w", onNode, err)
	}
	for i := range list.Items {
		if helper := &list.Items[i]; helper.Status.Phase == corev1.PodRunning {
			args := []string{"node", "route", to.String(), "-o", "json"}
			if from.IsValid() {
				args = append(args, "--from", from.String())
			}
			way := new(node.Way)
			return way, p.ask(ctx, helper.Namespace, helper.Name, install.Node, way, args...)
		}
	}
	return nil, fmt.Errorf("no node helper runs on node %s in namespace %s; check kubectl get pods -n %[2]s -o wide, or set --node-namespace", onNode, p.NodeNamespace)
}

// Gateway queries a gateway over the socket in its pod.
func (p *Pods) Gateway(ctx context.Context, name string, q localsocket.TraceQuestion) (*localsocket.TraceAnswer, error) {
	question, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	answer := new(localsocket.TraceAnswer)
	return answer, p.ask(ctx, p.GatewayNamespace, name, install.Gateway, answer, "trace", "--socket", install.Socket, "--question", string(question))
}

// ask runs strait in a pod, and parses the JSON that it prints.
func (p *Pods) ask(ctx context.Context, namespace, pod, container string, into any, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if p.Say != nil {
		p.Say("asking pod " + namespace + "/" + pod)
	}
	out, err := p.Exec.Strait(ctx, namespace, pod, container, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("pod %s/%s: unexpected answer: %w; use a strait of the version of that pod", namespace, pod, err)
	}
	return nil
}

package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/node"
)

// Executor runs a command in a container: a client.Client, or a substitute where there are
// no kubelets.
type Executor interface {
	Exec(ctx context.Context, o client.ExecOptions) error
}

// Pods implements Asked by running strait in the pods of gateways and node helpers.
type Pods struct {
	Client *client.Client
	Executor
	GatewayNamespace, NodeNamespace string

	Say func(string) // progress; nil: not reported
}

// askTimeout is the timeout of one query.
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
			return way, p.ask(ctx, client.ExecOptions{Namespace: helper.Namespace, Pod: helper.Name, Container: install.Node}, args, way)
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
	at := client.ExecOptions{Namespace: p.GatewayNamespace, Pod: name, Container: install.Gateway}
	return answer, p.ask(ctx, at, []string{"trace", "--socket", install.Socket, "--question", string(question)}, answer)
}

// ask runs strait in a pod, and parses the JSON that it prints.
func (p *Pods) ask(ctx context.Context, at client.ExecOptions, args []string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	at.Command, at.Stdout, at.Stderr = append([]string{install.Binary}, args...), &out, &errs
	where := at.Namespace + "/" + at.Pod
	if p.Say != nil {
		p.Say("asking pod " + where)
	}
	err := p.Exec(ctx, at)
	var exit *client.ExitError
	switch {
	case errors.As(err, &exit):
		return fmt.Errorf("pod %s: strait %s: %s", where, args[0], strings.TrimSpace(errs.String()))
	case apierrors.IsForbidden(err):
		return fmt.Errorf("pod %s: exec is not permitted: %w; use a context with permission to create pods/exec", where, err)
	case err != nil:
		return fmt.Errorf("pod %s: %w; check that it runs: kubectl get pods -n %s", where, err, at.Namespace)
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("pod %s: unexpected answer: %w; use a strait of the version of that pod", where, err)
	}
	return nil
}

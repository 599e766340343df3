package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
)

// Options configure a group of agents.
type Options struct {
	Client      *client.Client
	Image       string // of Strait
	Purpose     string // of the command, like "verify": part of the namespaces' names
	Suffix      string // of the namespaces' names; empty: a random one
	PullSecrets []corev1.LocalObjectReference
	Say         func(line string) // progress; nil: not reported
}

const (
	agentLabel   = "strait.dev/agent" // label of an agent, with its name
	pollInterval = 200 * time.Millisecond
	// startTimeout is the time that agents have to start, including the pull of the image.
	startTimeout = 2 * time.Minute
	endTimeout   = 2 * time.Minute
	// startFailureTimeout is the time after which a start failure that the kubelet reports
	// is final: the kubelet retries, but such errors rarely resolve later.
	startFailureTimeout = 20 * time.Second
)

// Group is a set of running agents. Its methods are safe for concurrent use, except End.
type Group struct {
	o           Options
	namespaces  map[bool]string // by use of the host network
	hostNetwork map[string]bool // the same, by agent
	pods        map[string]*corev1.Pod
	virtual     []string // names of nodes
}

// Start starts agents and waits until all of them run. After an error nothing is left
// behind.
func Start(ctx context.Context, o Options, all ...Agent) (*Group, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	c := &Group{o: o, namespaces: make(map[bool]string), hostNetwork: make(map[string]bool), pods: make(map[string]*corev1.Pod)}
	if err := c.start(ctx, all); err != nil {
		return nil, errors.Join(err, c.End(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Group) start(ctx context.Context, all []Agent) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %v", startTimeout))
	defer cancel()
	suffix := c.o.Suffix
	if suffix == "" {
		suffix = rand.String(5)
	}
	if err := c.findVirtual(ctx, all); err != nil {
		return err
	}
	for _, a := range all {
		host := a.Profile == Node
		if c.namespaces[host] == "" {
			if err := c.namespace(ctx, host, suffix); err != nil {
				return err
			}
		}
		c.hostNetwork[a.Name] = host
		if err := c.create(ctx, a); err != nil {
			return fmt.Errorf("agent %s: %w", a.Name, err)
		}
	}
	for _, a := range all {
		if err := c.await(ctx, a.Name); err != nil {
			return err
		}
	}
	return nil
}

// findVirtual finds the nodes that agents without a node avoid. Without the permission to list
// nodes, they avoid none.
func (c *Group) findVirtual(ctx context.Context, all []Agent) error {
	if !slices.ContainsFunc(all, func(a Agent) bool { return a.Node == "" }) {
		return nil
	}
	nodes, err := c.o.Client.Nodes().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	c.virtual = virtual(nodes.Items)
	return nil
}

// namespace creates a namespace for agents with its Pod Security level.
func (c *Group) namespace(ctx context.Context, host bool, suffix string) error {
	name, level := "strait-"+c.o.Purpose+"-"+suffix, "restricted"
	if host {
		name, level = name+"-host", "privileged" // required for the host network
	}
	_, err := c.o.Client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{label: c.o.Purpose, "pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": "latest"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	c.namespaces[host] = name
	return nil
}

// create creates the pod of an agent. A new namespace rejects pods until it has a service
// account.
func (c *Group) create(ctx context.Context, a Agent) error {
	for {
		_, err := c.o.Client.Pods(c.namespaces[c.hostNetwork[a.Name]]).Create(ctx, a.pod(c.o, c.virtual), metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "serviceaccount") {
			return err
		}
		if !pause(ctx) {
			return err
		}
	}
}

// await waits until an agent runs.
func (c *Group) await(ctx context.Context, name string) error {
	namespace := c.namespaces[c.hostNetwork[name]]
	var stuck time.Time // since when
	for {
		p, err := c.o.Client.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("agent %s: %w", name, err)
		}
		if err == nil && p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" {
			c.pods[name] = p
			return nil
		}
		if err == nil && (p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded) {
			return fmt.Errorf("agent %s ended: %s", name, state(p))
		}
		switch {
		case err != nil:
		case !refused(p):
			stuck = time.Time{}
		case stuck.IsZero():
			stuck = time.Now()
		case time.Since(stuck) > startFailureTimeout:
			return fmt.Errorf("agent %s cannot be started: %s; set --image to an image that the nodes can pull, or load the image on the nodes", name, state(p))
		}
		if err == nil {
			status, _, _ := strings.Cut(state(p), ":") // the rest is shown in the error
			c.o.Say(fmt.Sprintf("waiting for pod %s/%s: %s", namespace, name, status))
		}
		if !pause(ctx) {
			return fmt.Errorf("agent %s does not run: %s: %w", name, state(p), context.Cause(ctx))
		}
	}
}

// state returns the state of a pod, with the reason why it does not start.
func state(p *corev1.Pod) string {
	if p == nil {
		return "unknown"
	}
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
		if t := s.State.Terminated; t != nil {
			return fmt.Sprintf("exit code %d %s", t.ExitCode, strings.TrimSpace(t.Reason+" "+t.Message))
		}
	}
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return strings.TrimSuffix(condition.Reason+": "+condition.Message, ": ")
		}
	}
	return string(p.Status.Phase)
}

// refused reports whether the kubelet reports that it cannot start a pod.
func refused(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && slices.Contains([]string{
			"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError",
		}, s.State.Waiting.Reason)
	})
}

// pause waits for the poll interval and reports whether time is left.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pollInterval):
		return true
	}
}

// Pod returns an agent's pod as of its start, with its addresses and its node.
func (c *Group) Pod(name string) *corev1.Pod { return c.pods[name] }

// Exec runs strait with these arguments in an agent. Its error output becomes part of the
// error.
func (c *Group) Exec(ctx context.Context, name string, stdin io.Reader, stdout io.Writer, args ...string) error {
	var stderr strings.Builder
	err := c.o.Client.Exec(ctx, client.ExecOptions{
		Namespace: c.namespaces[c.hostNetwork[name]], Pod: name, Container: container,
		Command: append([]string{install.Binary}, args...), Stdin: stdin, Stdout: stdout, Stderr: &stderr,
	})
	var exit *client.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && stderr.Len() > 0:
		return fmt.Errorf("agent %s: %s: %w", name, strings.TrimPrefix(strings.TrimSpace(stderr.String()), "strait: "), err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("agent %s: %w; use a context with permission to exec into pods", name, err)
	}
	return fmt.Errorf("agent %s: %w", name, err)
}

// Service creates a Service for an agent, in all IP families of the cluster. It is deleted
// with the group.
func (c *Group) Service(ctx context.Context, name, agent string, kind corev1.ServiceType, ports ...corev1.ServicePort) (*corev1.Service, error) {
	s, err := c.o.Client.Services(c.namespaces[c.hostNetwork[agent]]).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: c.o.Purpose}},
		Spec: corev1.ServiceSpec{Type: kind, Selector: map[string]string{agentLabel: agent}, Ports: ports,
			IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack)},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create Service %s: %w", name, err)
	}
	return s, nil
}

// End deletes the agents with their namespaces, and waits until they are gone.
func (c *Group) End(ctx context.Context) error {
	var all []string
	for _, name := range c.namespaces {
		all = append(all, name)
	}
	return Remove(ctx, c.o.Client, all)
}

package gather

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
)

const (
	atOnce    = 8                // pods that are read concurrently
	askWithin = 30 * time.Second // timeout of one command
	logAtMost = 4 << 20          // bytes of one container's log, from its end
	// nodesAtMost is the number of additional nodes that are read: those that are ready and
	// have no gateway.
	nodesAtMost = 50
)

// askPods reads the logs, the metrics and the kernel state of nodes from Strait's pods.
func (s *site) askPods(ctx context.Context, pods []*corev1.Pod, nodes []*v1alpha1.NodeAttachment) {
	pods = s.selectPods(pods, nodes)
	var all sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	for _, p := range pods {
		if ctx.Err() != nil {
			break
		}
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			s.say("%s: pod %s", s.Name, p.Name)
			s.pod(ctx, p)
		})
	}
	all.Wait()
}

// selectPods returns the pods to read: all except the node helpers of ready nodes beyond a
// limit. The most relevant come first, because the archive may reach its size limit.
func (s *site) selectPods(pods []*corev1.Pod, nodes []*v1alpha1.NodeAttachment) (chosen []*corev1.Pod) {
	notReady := map[string]bool{}
	for _, n := range nodes {
		notReady[n.Name] = !meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionReady)
	}
	var others []*corev1.Pod
	for _, p := range pods {
		if p.Labels[install.ComponentLabel] != install.Node || notReady[p.Spec.NodeName] || s.gatewayNodes[p.Spec.NodeName] || !running(p) {
			chosen = append(chosen, p)
		} else {
			others = append(others, p)
		}
	}
	if left := len(others) - nodesAtMost; left > 0 {
		others = others[:nodesAtMost]
		s.note("%d more ready nodes were skipped", left)
	}
	return append(chosen, others...)
}

// running reports whether commands can run in a pod.
func running(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }

func (s *site) pod(ctx context.Context, p *corev1.Pod) {
	if len(p.Spec.Containers) == 0 {
		return
	}
	what := p.Labels[install.ComponentLabel]
	if running(p) {
		switch what {
		case install.Controller, install.Gateway, install.Borrower, install.Lender:
			s.ask(ctx, p, fmt.Sprintf("%s/metrics/%s.txt", p.Namespace, p.Name), what, "agent", "fetch", fmt.Sprintf("http://127.0.0.1:%d/metrics", install.HTTPPort))
		case install.Node:
			s.ask(ctx, p, fmt.Sprintf("%s/metrics/%s.txt", p.Namespace, p.Name), what, "agent", "fetch", "http://"+net.JoinHostPort(p.Status.HostIP, strconv.Itoa(install.NodeHTTPPort))+"/metrics")
			s.ask(ctx, p, fmt.Sprintf("nodes/%s.json", p.Spec.NodeName), what, "node", "state")
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Waiting == nil || c.RestartCount > 0 {
			s.log(ctx, p, c.Name, false)
		}
		if c.RestartCount > 0 {
			s.log(ctx, p, c.Name, true)
		}
	}
}

func (s *site) ask(ctx context.Context, p *corev1.Pod, file, container string, args ...string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	text, err := s.exec.Strait(ctx, p.Namespace, p.Name, container, args...)
	if err != nil {
		s.recordMissing(file, err)
	}
	if len(text) > 0 {
		s.put(file, s.scanner.redactText(text))
	}
}

// log adds the end of a container's log as a file.
func (s *site) log(ctx context.Context, p *corev1.Pod, container string, previous bool) {
	file := fmt.Sprintf("%s/logs/%s.%s.log", p.Namespace, p.Name, container)
	if previous {
		file = fmt.Sprintf("%s/logs/%s.%s.previous.log", p.Namespace, p.Name, container)
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	o := corev1.PodLogOptions{Timestamps: true, Previous: previous}
	if s.since > 0 {
		o.SinceSeconds = new(int64(s.since.Seconds()))
	}
	from, err := s.logs(ctx, p.Namespace, p.Name, container, o)
	if err != nil {
		s.recordMissing(file, err)
		return
	}
	defer from.Close()
	text, before, err := tail(from, logAtMost)
	if err != nil {
		s.recordMissing(file, err)
	}
	if before > 0 {
		text = append(fmt.Appendf(nil, "... %d earlier bytes are omitted; kubectl logs prints them\n", before), text...)
	}
	s.put(file, s.scanner.redactText(text))
}

// tail returns the end of a text, from the start of a line, and the number of bytes before
// it.
func tail(from io.Reader, most int) (text []byte, before int64, err error) {
	block := make([]byte, 64<<10)
	for {
		n, err := from.Read(block)
		text = append(text, block[:n]...)
		if over := len(text) - most; over > most || over > 0 && err != nil {
			if i := bytes.IndexByte(text[over:], '\n'); i >= 0 {
				over += i + 1
			}
			before += int64(over)
			text = append(text[:0], text[over:]...)
		}
		if errors.Is(err, io.EOF) {
			return text, before, nil
		}
		if err != nil {
			return text, before, err
		}
	}
}

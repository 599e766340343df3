//go:build apiserver || nightly

package clusters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	commands "strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/trace"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/program"
)

// podExec does a kubelet's work for commands in pods: in gateway pods as user nobody with
// their mounts, and in helper pods in the node's network with CAP_NET_ADMIN only.
type podExec struct{ *cluster }

func (r podExec) Exec(ctx context.Context, o client.ExecOptions) error {
	binary, err := program.Binary()
	if err != nil {
		return err
	}
	args, confined, in := slices.Clone(o.Command[1:]), program.Unprivileged, (*netns.Namespace)(nil)
	switch g, is := r.gateways[o.Pod]; {
	case o.Namespace == gatewayNamespace && is:
		in = g.Namespace
		for i := range args {
			args[i] = g.hostPath(args[i])
		}
	case o.Namespace == nodeNamespace:
		confined = program.OnlyNetAdmin
		for i, node := range r.nodes {
			if o.Pod == helperPod(i) {
				in = node.Namespace
			}
		}
	}
	cmd := exec.CommandContext(ctx, "setpriv", append(append(slices.Clone(confined), binary), args...)...)
	cmd.Stdout, cmd.Stderr = o.Stdout, o.Stderr
	if in == nil {
		return fmt.Errorf("no pod %s/%s", o.Namespace, o.Pod)
	}
	if err := in.In(cmd.Start); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		return &client.ExitError{Code: exit.ExitCode()}
	} else if err != nil {
		return err
	}
	return nil
}

func helperPod(node int) string { return "helper-of-" + nodeName(node) }

// createHelperPods creates the Pod objects of the node helpers.
func (c *cluster) createHelperPods(t *testing.T) {
	t.Helper()
	for i, node := range c.nodes {
		c.createRunning(t, nodeNamespace, helperPod(i), i, node.address)
	}
}

// createRunning creates the object of a running pod.
func (c *cluster) createRunning(t *testing.T, namespace, name string, node int, ips ...string) {
	t.Helper()
	automount := false
	pod, err := c.admin.Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{install.NameLabel: install.Name, install.ComponentLabel: install.Node}},
		Spec: corev1.PodSpec{
			NodeName: nodeName(node), AutomountServiceAccountToken: &automount, HostNetwork: namespace == nodeNamespace,
			Containers: []corev1.Container{{Name: "c", Image: "strait.test/strait:test", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: hostPort(namespace)}}}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, HostIP: c.nodes[node].address, PodIP: ips[0], Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for _, ip := range ips {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	_, err = c.admin.Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(t, err)
}

// hostPort is the host port that the API requires for pods in the node's network.
func hostPort(namespace string) int32 {
	if namespace == nodeNamespace {
		return 80
	}
	return 0
}

// side returns a cluster as strait trace opens it.
func (c *cluster) side(t *testing.T) *trace.Side {
	t.Helper()
	asked := &trace.Pods{Client: c.admin, Exec: podExec{c}.Exec, GatewayNamespace: gatewayNamespace, NodeNamespace: nodeNamespace}
	s, err := trace.Open(t.Context(), commands.Cluster{Name: "cluster " + c.name, Client: c.admin}, asked)
	must(t, err)
	return s
}

// traced returns the trace of a packet from the pod on a's first node.
func (p *pair) traced(t *testing.T, to string, edits ...func(*trace.Question)) *trace.Report {
	t.Helper()
	q := trace.Question{Namespace: "default", Pod: "web", To: netip.MustParseAddr(to), Port: 80, Protocol: "tcp"}
	for _, edit := range edits {
		edit(&q)
	}
	r, err := trace.Run(t.Context(), q, p.a.side(t), p.b.side(t), time.Now())
	must(t, err)
	return r
}

func table(t *testing.T, r *trace.Report) string {
	t.Helper()
	var text bytes.Buffer
	must(t, trace.Table(&text, r))
	return text.String()
}

func TestTraceMatchesThePathOfPackets(t *testing.T) {
	p := newPair(t)
	for _, c := range []*cluster{p.a, p.b} {
		c.ServiceAccount(t, "default", "default")
		c.ServiceAccount(t, nodeNamespace, "default")
		c.createHelperPods(t)
	}
	p.a.createRunning(t, "default", "web", 0, podAddresses[0], podAddresses6[0])
	p.b.createRunning(t, "default", "api", 1, podAddresses[1], podAddresses6[1])
	b, a := p.join(t)
	pingAll(t, p.a, p.b, b)

	for _, address := range []string{podAddresses[1], podAddresses6[1]} {
		to := seen(t, b, address)
		r := p.traced(t, to)
		t.Logf("strait trace prints\n%s", table(t, r))
		if r.Verdict != trace.Delivered || len(r.Hops) != 9 || len(r.Reply) != 9 {
			t.Errorf("a packet to %s, which is reachable: %s", to, r.Conclusion())
			continue
		}
		own := podAddresses[0]
		if address == podAddresses6[1] {
			own = podAddresses6[0]
		}
		if last := r.Hops[8]; last.Where != "default/api" || last.Packet.Source.String() != seen(t, a, own) || last.Packet.Destination.String() != address || last.Packet.TTL != 60 {
			t.Errorf("arrives as %+v at %s", last.Packet, last.Where)
		}
		// ping shows the same TTL of the reply as the trace.
		out, err := p.a.pods[0].Try("ping", "-n", "-c", "1", "-W", "2", to)
		if want := fmt.Sprintf("ttl=%d ", r.Reply[8].Packet.TTL); err != nil || !strings.Contains(out, want) {
			t.Errorf("ping does not print %s: %s", want, out)
		}
	}
	to := seen(t, b, podAddresses[1])
	for what, c := range map[string]struct {
		r       *trace.Report
		cluster string
		stage   trace.Stage
		reason  string
	}{
		"to a missing pod":               {p.traced(t, seen(t, b, "10.0.2.77")), "b", trace.StagePod, "no_pod"},
		"to a missing node":              {p.traced(t, seen(t, b, "10.0.99.5")), "b", trace.StageGateway, "no_node"},
		"too big":                        {p.traced(t, to, func(q *trace.Question) { q.Size = 1500 }), "a", trace.StageNode, "too_big"},
		"to an unrouted address":         {p.traced(t, "198.18.0.1"), "a", trace.StageNode, "not_remote"},
		"with the source of another pod": {p.traced(t, to, func(q *trace.Question) { q.From = netip.MustParseAddr("10.0.2.5") }), "a", trace.StageGateway, "spoofed_source"},
	} {
		if c.r.Verdict != trace.Dropped || c.r.Cluster != c.cluster || c.r.Stage != c.stage || c.r.Reason != c.reason {
			t.Errorf("%s:\n%s", what, table(t, c.r))
		}
	}

	t.Run("outside the grant", func(t *testing.T) { p.tracesRevokedGrant(t, to) })
}

// tracesRevokedGrant removes a pod of b from the grant to a: whether or not a has been
// notified, the trace reports that the packet does not arrive.
func (p *pair) tracesRevokedGrant(t *testing.T, to string) {
	kube.Edit(t, p.b.admin.Peerings(), "a", func(peering *v1alpha1.Peering) {
		peering.Spec.LocalPods, peering.Spec.LocalPrefixes = false, []v1alpha1.CIDR{"10.0.1.0/24"}
	})
	reasons := []string{"destination_not_granted", "not_remote"}
	var r *trace.Report
	within(t, 30*time.Second, "the grant is revoked", func() error {
		if r = p.traced(t, to); r.Verdict != trace.Dropped || !slices.Contains(reasons, r.Reason) {
			return errors.New(r.Conclusion())
		}
		return nil
	})
	t.Logf("strait trace prints\n%s", table(t, r))
	if out, err := p.a.pods[0].Try("ping", "-n", "-c", "1", "-W", "1", to); err == nil {
		t.Errorf("but the address is still reachable:\n%s", out)
	}
}

package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/operator"
)

// recoveryTime is the time within which the gateways of both clusters must have links again.
const recoveryTime = 5 * time.Minute

// killedGap is the published limit of the time that a flow gets no answer when one of several
// gateways is killed.
const killedGap = time.Second

// disruption is something that happens to a gateway.
type disruption struct {
	what string
	of   *operator.Side // nil: to none
	do   func(context.Context, *operator.Side) error
	// planned disruptions lose nothing. Others have a limit of the time without an answer; 0: none.
	planned bool
	limit   time.Duration
}

// disruptionsOf returns what to do to the gateways of two clusters, in order.
func disruptionsOf(sides ...*operator.Side) []disruption {
	all := []disruption{{what: "nothing", planned: true, do: func(ctx context.Context, _ *operator.Side) error { return rest(ctx, quietTime) }}}
	for _, s := range sides {
		var limit time.Duration
		if s.Peering.Spec.Gateway.Replicas > 1 {
			limit = killedGap
		}
		all = append(all,
			disruption{what: "gateway drained", of: s, do: drain, planned: true},
			disruption{what: "gateway killed", of: s, do: kill, limit: limit},
			disruption{what: "new keys", of: s, do: rotate, planned: true})
	}
	return all
}

func (d disruption) String() string {
	if d.of == nil {
		return d.what
	}
	return d.of.Name + ": " + d.what
}

// run disrupts, and waits until the gateways of both clusters have links again.
func (d disruption) run(ctx context.Context, sides [2]*operator.Side) error {
	if err := d.do(ctx, d.of); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recoveryTime, fmt.Errorf("not within %v", recoveryTime))
	defer cancel()
	for _, s := range sides {
		if err := recovered(ctx, s); err != nil {
			return fmt.Errorf("%s: the gateways do not recover: %w", s.Name, err)
		}
	}
	return rest(ctx, afterwardsTime)
}

// drain evicts the first gateway, as a drain of its node does, and waits until its pod is
// replaced.
func drain(ctx context.Context, s *operator.Side) error {
	was, err := s.Client.Pods(install.GatewayNamespace).Get(ctx, peering.GatewayName(s.Peering, 0), metav1.GetOptions{})
	if err != nil {
		return err
	}
	for {
		err := s.Client.Evict(ctx, was.Namespace, was.Name)
		if err == nil {
			return awaitPod(ctx, s, was.Name, func(is *corev1.Pod) bool { return is.UID != was.UID })
		}
		if !apierrors.IsTooManyRequests(err) { // a PodDisruptionBudget
			return err
		}
		if err := rest(ctx, time.Second); err != nil {
			return err
		}
	}
}

// kill makes the process of the first gateway crash, and waits until it runs again. Deleting
// its pod would not do: the kubelet gives it at least two seconds to leave.
func kill(ctx context.Context, s *operator.Side) error {
	was, err := s.Client.Pods(install.GatewayNamespace).Get(ctx, peering.GatewayName(s.Peering, 0), metav1.GetOptions{})
	if err != nil {
		return err
	}
	err = s.Client.Exec(ctx, client.ExecOptions{Namespace: was.Namespace, Pod: was.Name, Container: install.Gateway, Stdout: io.Discard, Stderr: io.Discard, Command: []string{install.Binary, "agent", "crash"}})
	var exit *client.ExitError
	if errors.As(err, &exit) && exit.Code == 2 {
		return fmt.Errorf("gateway %s does not know the command; check that its image has the version of this strait: %w", was.Name, err)
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("gateway %s: %w; use a context with permission to exec into pods", was.Name, err)
	}
	if again := awaitPod(ctx, s, was.Name, func(is *corev1.Pod) bool { return is.UID != was.UID || restarts(is) > restarts(was) }); again != nil {
		return errors.Join(again, err)
	}
	return nil // err is the end of the container in which the command ran
}

func restarts(p *corev1.Pod) (n int32) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// awaitPod waits until the pod of a gateway is another one, and ready.
func awaitPod(ctx context.Context, s *operator.Side, name string, other func(*corev1.Pod) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recoveryTime, fmt.Errorf("not within %v", recoveryTime))
	defer cancel()
	for {
		is, err := s.Client.Pods(install.GatewayNamespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && other(is) && agents.PodReady(is) {
			return nil
		}
		if wait := rest(ctx, importPause); wait != nil {
			return fmt.Errorf("gateway %s is not ready again: %w", name, errors.Join(wait, err))
		}
	}
}

// rotate gives all gateways new keys, and waits until they are used.
func rotate(ctx context.Context, s *operator.Side) error {
	_, err := operator.RotateKeys(ctx, s.Cluster, s.Peering.Name, operator.Waiting{For: recoveryTime, Progress: operator.NewProgress(io.Discard, nil)})
	return err
}

// recovered waits until all gateways of a Peering have a link.
func recovered(ctx context.Context, s *operator.Side) error {
	for {
		is, err := s.Client.Peerings().Get(ctx, s.Peering.Name, metav1.GetOptions{})
		if err == nil && allUp(is, s.Peering.UID) {
			return nil
		}
		if wait := rest(ctx, importPause); wait != nil {
			return errors.Join(wait, err)
		}
	}
}

func allUp(p *v1alpha1.Peering, uid types.UID) bool {
	up := 0
	for _, g := range p.Status.Gateways {
		if g.LinkUp {
			up++
		}
	}
	return p.UID == uid && up >= int(p.Spec.Gateway.Replicas) && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) &&
		meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionGatewaysUp)
}

// rest waits, and returns why ctx ended before.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// judge compares what flows lost with the limit.
func (d disruption) judge(from, to string, lost endpoint.StreamsResult) DisruptRow {
	row := DisruptRow{
		What: d.what, From: from, To: to, Flows: lost.Flows, Hit: lost.Hit, GapSeconds: lost.Gap.Seconds(),
		Sent: lost.Sent, Lost: lost.Lost, Duplicated: lost.Duplicated, Broken: lost.Broken, Moved: lost.Moved, Outcome: Passed, Limit: "none",
	}
	if d.of != nil {
		row.Cluster = d.of.Name
	}
	exceeded := false
	switch {
	case d.planned:
		row.Limit, exceeded = "nothing lost", lost.Lost > 0 || lost.Broken > 0
	case d.limit > 0:
		row.Limit, exceeded = fmt.Sprintf("gap ≤ %v", d.limit), lost.Gap > d.limit
	}
	if exceeded {
		row.Outcome = Failed
	}
	return row
}

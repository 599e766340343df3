package verify

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/lender"
	"strait.dev/strait/operate/offload"
	"strait.dev/strait/operate/operator"
)

// offloadChecks checks the agents of peerings over which pods are lent or borrowed. The virtual
// node is ready while the lender in the other cluster answers, which the borrower shows by its
// lease; so its condition proves both agents and the path between them.
func offloadChecks(ctx context.Context, c operator.Cluster, r *operator.Report) (checks []Check, err error) {
	for i := range r.Peerings {
		p := &r.Peerings[i]
		if p.Offload == nil {
			continue
		}
		if p.Offload.Node != "" {
			checks = append(checks, judgeNode(string(r.ClusterID), p))
		}
		if len(p.Offload.Lent) > 0 {
			d, err := c.Client.Deployments(offload.Namespace).Get(ctx, lender.Name(p.Name), metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
				return nil, c.Failed("read the lender of Peering "+p.Name, err)
			}
			checks = append(checks, judgeLender(string(r.ClusterID), p, d.Status.ReadyReplicas, err))
		}
	}
	return checks, nil
}

// judgeNode evaluates the virtual node of a peering.
func judgeNode(cluster string, p *operator.PeeringReport) Check {
	o := p.Offload
	is := Check{Group: OfPeering, From: cluster, What: "virtual node " + o.Node + " is ready", Outcome: Passed, Detail: "pods: " + operator.Counts(o.Pods)}
	switch {
	case o.Unread != "":
		is.Outcome, is.Detail = Skipped, o.Unread
	case o.Ready != string(corev1.ConditionTrue):
		is.Outcome, is.Detail = Failed, "ready is "+o.Ready
		is.Cause = "the borrower does not run, or the lender in the remote cluster does not answer it"
		is.Remedy = fmt.Sprintf("check the log of the borrower: kubectl logs -n %s deployment/strait-borrower-%s; then the lender in the remote cluster", offload.Namespace, p.Name)
	}
	return is
}

// judgeLender evaluates the lender of a peering from the ready pods of its Deployment, or why
// that was not read.
func judgeLender(cluster string, p *operator.PeeringReport, ready int32, failed error) Check {
	is := Check{Group: OfPeering, From: cluster, What: "the lender of Peering " + p.Name + " runs", Outcome: Passed, Detail: "pods of the remote cluster: " + operator.Counts(p.Offload.Twins)}
	switch {
	case apierrors.IsForbidden(failed):
		is.Outcome, is.Detail = Skipped, "the account may not read it"
	case failed != nil || ready == 0:
		is.Outcome, is.Detail = Failed, "no pod of it is ready"
		if failed != nil {
			is.Detail = "it has no Deployment"
		}
		is.Cause = "the lender was removed, or its pod does not start"
		is.Remedy = fmt.Sprintf("check its pod: kubectl describe pods -n %s; if there is none, run strait lend again", offload.Namespace)
	}
	return is
}

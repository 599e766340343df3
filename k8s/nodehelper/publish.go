package nodehelper

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// fieldManager is the field manager of the status, which has no other writer.
const fieldManager = "strait-node"

// generationInterval is the additional delay of a write that only changes observed
// generations: the spec changes with the pods of the node, up to once per second.
const generationInterval = time.Minute

// publish writes the status if it has changed, and returns the time until the next attempt;
// 0: none is needed.
func (h *helper) publish(ctx context.Context, is v1alpha1.NodeAttachmentStatus) time.Duration {
	a, ok := h.attachments.Get(h.Node)
	if !ok {
		return 0
	}
	now := time.Now()
	to, differs := statusToWrite(is, a.Status, a.Generation, now)
	if !differs {
		return 0
	}
	soon := h.write.Sub(now)
	if onlyGenerations(is, a.Status, now) {
		soon += generationInterval
	}
	if soon > 0 && !urgent(to, a.Status) {
		return min(soon, statusInterval)
	}
	h.write = now.Add(statusInterval)
	limited, stop := context.WithTimeout(ctx, statusTimeout)
	defer stop()
	_, err := h.Client.NodeAttachments().ApplyStatus(limited, &v1alpha1.NodeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: h.Node, UID: a.UID}, // not of an object that replaced it
		Status:     to,
	}, fieldManager)
	if err != nil && ctx.Err() == nil {
		h.Log.Warn("cannot write the status of the NodeAttachment; trying again", "error", err)
		h.write = now.Add(2 * statusInterval)
	}
	return time.Until(h.write)
}

// onlyGenerations reports whether a status differs from the written one in nothing but
// observed generations.
func onlyGenerations(is, written v1alpha1.NodeAttachmentStatus, now time.Time) bool {
	_, more := statusToWrite(is, written, written.ObservedGeneration, now)
	return !more
}

// urgent reports whether a difference must be written at once: gateways need it to accept
// the node's packets, or an uninstall waits for it.
func urgent(to, is v1alpha1.NodeAttachmentStatus) bool {
	if released(to) != released(is) {
		return true
	}
	for _, g := range to.Gateways {
		i := slices.IndexFunc(is.Gateways, func(was v1alpha1.NodeGateway) bool { return was.Name == g.Name })
		switch {
		case i < 0 && (g.Source != "" || g.Encapsulation == v1alpha1.VXLAN):
			return true
		case i >= 0 && (is.Gateways[i].Source != g.Source || is.Gateways[i].Encapsulation != g.Encapsulation):
			return true
		}
	}
	return false
}

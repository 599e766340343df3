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

// publishAll publishes the statuses until ctx ends. It has a goroutine of its own: the choice of
// gateways must not wait for the API server.
func (h *helper) publishAll(ctx context.Context) {
	var is v1alpha1.NodeAttachmentStatus
	var earliest time.Time // of the next write
	again := time.NewTimer(refresh)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case is = <-h.statuses:
		case <-again.C:
		}
		if is.Conditions == nil {
			continue // none yet
		}
		if next := h.publish(ctx, is, &earliest); next > 0 {
			again.Reset(next)
		}
	}
}

// publish writes the status if it has changed, and returns the time until the next attempt;
// 0: none is needed. It keeps the earliest time of the next write.
func (h *helper) publish(ctx context.Context, is v1alpha1.NodeAttachmentStatus, earliest *time.Time) time.Duration {
	a, ok := h.attachments.Get(h.Node)
	if !ok {
		return 0
	}
	now := time.Now()
	to, differs := statusToWrite(is, a.Status, a.Generation, now)
	if !differs {
		return 0
	}
	soon := earliest.Sub(now)
	if onlyGenerations(is, a.Status, now) {
		soon += generationInterval
	}
	if soon > 0 && !urgent(to, a.Status) {
		return min(soon, statusInterval)
	}
	*earliest = now.Add(statusInterval)
	limited, stop := context.WithTimeout(ctx, statusTimeout)
	defer stop()
	_, err := h.Client.NodeAttachments().ApplyStatus(limited, &v1alpha1.NodeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: h.Node, UID: a.UID}, // not of an object that replaced it
		Status:     to,
	}, fieldManager)
	if err != nil && ctx.Err() == nil {
		h.Log.Warn("cannot write the status of the NodeAttachment; trying again", "error", err)
		*earliest = now.Add(2 * statusInterval)
	}
	return time.Until(*earliest)
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

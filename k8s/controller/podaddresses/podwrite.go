package podaddresses

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"strait.dev/strait/k8s/api/v1alpha1"
)

type podWrite struct {
	to      *v1alpha1.NodeAttachment // with the resource version that it replaces
	had     []v1alpha1.CIDR          // what earlier writes with an unknown outcome may have given the node
	at      time.Time                // when it started
	outcome podOutcome
}

type podOutcome int

const (
	podPending   podOutcome = iota
	podStored               // the cache will show it
	podUnchanged            // the API server had it already
	podRefused              // the API server has another version, which the cache will show
	podUnknown              // the request failed, but may have been performed
)

type podEnd struct {
	*podWrite
	result podOutcome
}

// open reports whether the node may have other addresses than those of its attachment in the cache, nil if there is none.
func (w *podWrite) open(cached *v1alpha1.NodeAttachment) bool {
	switch {
	case w == nil || w.outcome == podUnchanged:
		return false
	case w.outcome == podPending:
		return true
	}
	return cached != nil && cached.UID == w.to.UID && cached.ResourceVersion == w.to.ResourceVersion
}

// hold returns the longest time until another write for the node may follow; 0: now.
func (w *podWrite) hold(cached *v1alpha1.NodeAttachment, now time.Time) time.Duration {
	switch {
	case w == nil:
		return 0
	case w.open(cached) && w.outcome != podUnknown:
		return podInterval // or until the request ends, or the cache changes
	case w.outcome == podRefused:
		return 0
	}
	return max(0, podInterval-now.Sub(w.at))
}

func (p *Publisher) perform(ctx context.Context, w *podWrite) podOutcome {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	stored, err := p.Client.NodeAttachments().Apply(ctx, w.to, p.Manager)
	switch {
	case err == nil && stored.ResourceVersion == w.to.ResourceVersion:
		return podUnchanged
	case err == nil:
		return podStored
	case apierrors.IsConflict(err):
		return podRefused
	case !errors.Is(ctx.Err(), context.Canceled):
		p.Log.Warn("cannot write the addresses of a node's pods; trying again", "node", w.to.Name, "error", err)
	}
	return podUnknown
}

package borrower

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// maxReads is the maximum number of objects that are read in one pass: fewer than the client
// permits in a second, so that the lease of the node is renewed in time.
const maxReads = 100

func (b *borrower) read(ctx context.Context, now time.Time) {
	due := b.shelf.Due(now, maxReads)
	var mu sync.Mutex
	workqueue.ParallelizeUntil(ctx, writers, len(due), func(i int) {
		text, hash, err := b.content(ctx, due[i])
		mu.Lock()
		defer mu.Unlock()
		b.note(due[i].Key(), hash, len(text), err, now)
	})
}

func (b *borrower) note(key, hash string, size int, err error, now time.Time) {
	var refusal *translate.Refusal
	switch {
	case err == nil:
		b.shelf.Found(key, hash, size, now)
	case apierrors.IsNotFound(err):
		b.shelf.Absent(key, now)
	case errors.As(err, &refusal):
		b.shelf.Refused(key, err.Error(), now)
	default: // also Forbidden, until the authorizer has seen the pod
		b.shelf.Failed(key, err.Error(), now)
	}
}

// content reads an object as the node, and returns its encoded content and its hash.
func (b *borrower) content(ctx context.Context, o protocol.Object) (text []byte, hash string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var c *protocol.Content
	switch o.Kind {
	case protocol.KindConfigMap:
		is, err := b.asNode.ConfigMaps(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return nil, "", err
		}
		c = translate.ConfigMapContent(is)
	default:
		is, err := b.asNode.Secrets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return nil, "", err
		}
		if c, err = translate.SecretContent(is); err != nil {
			return nil, "", err
		}
	}
	if text, hash, err = protocol.EncodeContent(c); err != nil {
		return nil, "", &translate.Refusal{Field: "content", Why: err.Error()}
	}
	return text, hash, nil
}

// sendContents sends the contents that the lender needs. It reads them again, because the
// borrower keeps none.
func (b *borrower) sendContents(ctx context.Context, needs []string, now time.Time) error {
	for _, o := range b.shelf.Having(needs) {
		if now.Sub(b.sent[o.Hash]) < resend {
			continue
		}
		text, hash, err := b.content(ctx, o)
		b.note(o.Key(), hash, len(text), err, now)
		if err != nil || hash != o.Hash {
			continue // the next list has the new content
		}
		if err := b.link.put(ctx, protocol.ObjectsPath+hash, text); err != nil {
			return err
		}
		b.sent[hash] = now
	}
	return nil
}

package borrower

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// maxReads is the maximum number of objects that are read in one pass: fewer than the client
// permits in a second, so that the lease of the node is renewed in time.
const maxReads = 100

// read reads the objects that are due.
func (b *borrower) read(ctx context.Context, now time.Time) {
	due := b.shelf.Due(now, maxReads)
	var all sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, writers)
	for _, o := range due {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			_, _, err := b.content(ctx, o, func(hash string, size int) {
				mu.Lock()
				defer mu.Unlock()
				b.shelf.Found(o.Key(), hash, size, now)
			})
			mu.Lock()
			defer mu.Unlock()
			b.missed(o.Key(), err, now)
		})
	}
	all.Wait()
}

// missed notes why an object was not read; nil: it was.
func (b *borrower) missed(key string, err error, now time.Time) {
	var refusal *translate.Refusal
	switch {
	case err == nil:
	case apierrors.IsNotFound(err):
		b.shelf.Absent(key, now)
	case errors.As(err, &refusal):
		b.shelf.Refused(key, err.Error(), now)
	default: // also Forbidden, until the authorizer has seen the pod
		b.shelf.Failed(key, err.Error(), now)
	}
}

// content reads an object as the node, and returns its encoded content and its hash. It calls
// found with what the shelf keeps of it.
func (b *borrower) content(ctx context.Context, o protocol.Object, found func(hash string, size int)) (text []byte, hash string, err error) {
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
	case protocol.KindSecret:
		is, err := b.asNode.Secrets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return nil, "", err
		}
		if c, err = translate.SecretContent(is); err != nil {
			return nil, "", err
		}
	default:
		return nil, "", fmt.Errorf("objects of kind %s are not read", o.Kind)
	}
	if text, hash, err = protocol.EncodeContent(c); err != nil {
		return nil, "", &translate.Refusal{Field: "content", Why: err.Error()}
	}
	found(hash, len(text))
	return text, hash, nil
}

// sendContents sends the contents that the lender needs. It reads them again, because the
// borrower keeps none.
func (b *borrower) sendContents(ctx context.Context, needs []string, now time.Time) error {
	for _, o := range b.shelf.Having(needs) {
		if now.Sub(b.sent[o.Hash]) < resend {
			continue
		}
		text, hash, err := b.content(ctx, o, func(hash string, size int) { b.shelf.Found(o.Key(), hash, size, now) })
		if err != nil {
			b.missed(o.Key(), err, now)
			continue
		}
		if hash != o.Hash {
			continue // the next list has the new content
		}
		if err := b.link.put(ctx, protocol.ObjectsPath+hash, text); err != nil {
			return err
		}
		b.sent[hash] = now
	}
	return nil
}

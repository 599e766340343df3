package controller

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// The private keys of a gateway are in Secrets of their own, <gateway>-key-<generation>, in
// the form of `wg genkey`. The controller makes them and has no right to read, change or
// delete any: it may create Secrets, which cannot be limited to names, and nothing else.
// So a key that is there is never written over, whoever made it. Old ones go with their
// Peering; nobody trusts them any more.

// keyEvery is how long after a key was made, or found to be there, it is tried again
// while the gateway does not say that it has it: somebody may have deleted the Secret.
const keyEvery = time.Minute

// generationsAtOnce is how many generations of keys a pod can get without being made anew.
const generationsAtOnce = 8

// keyID is one key of one gateway.
type keyID struct {
	peering    types.UID
	gateway    string
	generation int32
}

func secretName(gateway string, generation int32) string {
	return fmt.Sprintf("%s-key-%d", gateway, generation)
}

func keyFile(generation int32) string { return fmt.Sprintf("%d.key", generation) }

// generation is that of the keys that a peering wants.
func generation(p *v1alpha1.Peering) int32 { return max(p.Spec.Gateway.KeyGeneration, 1) }

// generations are those whose keys pods shall get if they exist: blocks of them, so that
// most new keys come to pods that run, with the keys that are in use.
func generations(p *v1alpha1.Peering) (all []int32) {
	last := block(generation(p))
	blocks := []int32{last - 1, last}
	for _, g := range p.Status.Gateways {
		if g.KeyGeneration > 0 {
			blocks = append(blocks, block(g.KeyGeneration))
		}
	}
	slices.Sort(blocks)
	for _, b := range slices.Compact(blocks) {
		if b < 0 || b > last {
			continue
		}
		for i := range int32(generationsAtOnce) {
			all = append(all, b*generationsAtOnce+i+1)
		}
	}
	return all
}

func block(generation int32) int32 { return (generation - 1) / generationsAtOnce }

// key sees to it that a gateway has a key of the generation that the peering wants.
func (c *controller) key(ctx context.Context, p *v1alpha1.Peering, gateway string) error {
	id := keyID{p.UID, gateway, generation(p)}
	for _, has := range p.Status.Gateways {
		if has.Name == gateway && (has.NextPublicKey != "" || has.PublicKey != "" && has.KeyGeneration >= id.generation) {
			return nil
		}
	}
	if time.Since(c.made[id]) < keyEvery {
		return nil
	}
	err := c.makeKey(ctx, p, id)
	if err == nil {
		c.made[id] = time.Now()
	}
	return err
}

// makeKey makes a key, if there is none of the generation.
func (c *controller) makeKey(ctx context.Context, p *v1alpha1.Peering, id keyID) error {
	name, private := secretName(id.gateway, id.generation), privateKey()
	secret := &corev1.Secret{
		ObjectMeta: objectMeta(c.gateways, p, name), Type: corev1.SecretTypeOpaque, Immutable: new(true),
		Data: map[string][]byte{keyFile(id.generation): private},
	}
	_, err := c.client.Secrets(c.gateways.Namespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: Manager})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return explainAPIError("Secret", c.gateways.Namespace, name, withoutKey(err, private))
}

// privateKey is a new key for Curve25519, as `wg genkey` prints one.
func privateKey() []byte {
	key, err := peering.NewPrivateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return []byte(key + "\n")
}

// withoutKey is an error that certainly does not hold the key: whoever stands between us
// and the API server may quote what was sent.
func withoutKey(err error, key []byte) error {
	if err == nil {
		return nil
	}
	plain := strings.TrimSpace(string(key))
	if strings.Contains(err.Error(), plain) || strings.Contains(err.Error(), base64.StdEncoding.EncodeToString(key)) {
		return fmt.Errorf("the key was not taken, because of: %s", apierrors.ReasonForError(err))
	}
	return err
}

package controller

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// The private keys of a gateway are in the Secret <gateway>-key, one for each generation,
// in the form of `wg genkey`. The controller makes them, and never reads one: it may
// create Secrets and patch them, but not get them.
//
// A key that is there is never written over. Each attempt to add one is a server-side
// apply, not forced, under a name that nobody used before: if the field has an owner, be
// it another controller or this one a moment ago, the API server itself refuses.

// keyEvery is how long after a key was made, or found to be there, it is tried again
// while the gateway does not say that it has it: somebody may have deleted the Secret.
const keyEvery = time.Minute

// keysRetired is how many old generations are removed at most: those before them went
// when their time was over, unless whole thousands were skipped at once.
const keysRetired = 1000

// keyID is one key of one gateway.
type keyID struct {
	peering    types.UID
	gateway    string
	generation int32
}

// keyRecord is what this process did for a key.
type keyRecord struct {
	at      time.Time // made, or found to be there
	retired bool      // those before it are removed
}

func secretName(gateway string) string { return gateway + "-key" }

// key sees to it that a gateway has a key of the generation that the peering wants, and
// once that is in use none of earlier ones.
func (c *controller) key(ctx context.Context, peering *v1alpha1.Peering, gateway string) error {
	id := keyID{peering.UID, gateway, max(peering.Spec.Gateway.KeyGeneration, 1)}
	var has v1alpha1.GatewayStatus
	for _, status := range peering.Status.Gateways {
		if status.Name == gateway {
			has = status
		}
	}
	record := c.made[id]
	switch {
	case has.NextPublicKey != "":
		return nil // it is on its way
	case has.PublicKey != "" && has.KeyGeneration >= id.generation:
		if has.KeyGeneration > id.generation || id.generation == 1 || record.retired {
			return nil
		}
		if err := c.retireKeys(ctx, id); err != nil {
			return err
		}
		record.retired = true
	case time.Since(record.at) < keyEvery:
		return nil
	default:
		if err := c.makeKey(ctx, peering, id); err != nil {
			return err
		}
		record.at = time.Now()
	}
	c.made[id] = record
	return nil
}

// makeKey adds a key, if there is none of the generation. The Secret comes first, so that
// there is never a key without an owner.
func (c *controller) makeKey(ctx context.Context, peering *v1alpha1.Peering, id keyID) error {
	secrets, name := c.client.Secrets(c.gateways.Namespace), secretName(id.gateway)
	shell := &corev1.Secret{ObjectMeta: objectMeta(c.gateways, peering, name), Type: corev1.SecretTypeOpaque}
	if _, err := secrets.Apply(ctx, shell, Manager); err != nil {
		return explained("Secret", c.gateways.Namespace, name, err)
	}
	private := privateKey()
	body, err := json.Marshal(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string][]byte{keyFile(id.generation): private},
	})
	if err != nil {
		return errors.New("a key cannot be written as JSON") // without the key
	}
	_, err = secrets.Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: Manager + "-key-" + strings.ToLower(rand.Text())})
	if apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return nil // there is one
	}
	return explained("Secret", c.gateways.Namespace, name, withoutKey(err, private))
}

// retireKeys removes the keys before a generation.
func (c *controller) retireKeys(ctx context.Context, id keyID) error {
	old := make(map[string]any)
	for generation := max(id.generation-keysRetired, 1); generation < id.generation; generation++ {
		old[keyFile(generation)] = nil
	}
	body, err := json.Marshal(map[string]any{"data": old})
	if err != nil {
		return err
	}
	_, err = c.client.Secrets(c.gateways.Namespace).Patch(ctx, secretName(id.gateway), types.MergePatchType, body, metav1.PatchOptions{FieldManager: Manager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return explained("Secret", c.gateways.Namespace, secretName(id.gateway), err)
}

func keyFile(generation int32) string { return fmt.Sprintf("%d.key", generation) }

// privateKey is a new key for Curve25519, as `wg genkey` prints one.
func privateKey() []byte {
	var key [32]byte
	rand.Read(key[:]) // never fails
	key[0] &= 248
	key[31] = key[31]&127 | 64
	return append(base64.StdEncoding.AppendEncode(nil, key[:]), '\n')
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

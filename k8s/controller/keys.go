package controller

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/peering"
)

// The private keys of a gateway are stored in Secrets named <gateway>-key-<generation>, in
// the format of `wg genkey`. The controller may create Secrets, which RBAC cannot limit to
// names, but not read, change or delete them. An existing key is therefore never
// overwritten. Old keys are deleted with their Peering; they are no longer trusted.

// keyEvery is the interval after which the controller tries again to create a key that the
// gateway does not report: the Secret may have been deleted, or be that of an earlier Peering of
// this name, which the garbage collector deletes.
const keyEvery = time.Minute

type keyID struct {
	peering    types.UID
	gateway    string
	generation int32
}

// key ensures that a gateway has a key of the generation that the peering requests. The status
// keeps the key of a gateway that has lost it.
func (c *controller) key(ctx context.Context, p *v1alpha1.Peering, pods gatewayPods, gateway string) error {
	id := keyID{p.UID, gateway, workload.Generation(p)}
	report := pods[gateway].report
	for _, has := range p.Status.Gateways {
		lost := report != nil && report.PublicKey == ""
		if has.Name == gateway && !lost && (has.NextPublicKey != "" || has.PublicKey != "" && has.KeyGeneration >= id.generation) {
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

func (c *controller) makeKey(ctx context.Context, p *v1alpha1.Peering, id keyID) error {
	name, private := workload.SecretName(id.gateway, id.generation), privateKey()
	secret := &corev1.Secret{
		ObjectMeta: workload.ObjectMeta(c.gateways, p, name), Type: corev1.SecretTypeOpaque, Immutable: new(true),
		Data: map[string][]byte{workload.KeyFile(id.generation): private},
	}
	_, err := c.client.Secrets(c.gateways.Namespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: Manager})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return explainAPIError("Secret", c.gateways.Namespace, name, withoutKey(err, private))
}

func privateKey() []byte {
	key, err := peering.NewPrivateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return []byte(key + "\n")
}

// withoutKey returns the error without the key: a proxy or the API server may quote the
// request.
func withoutKey(err error, key []byte) error {
	if err == nil {
		return nil
	}
	plain := strings.TrimSpace(string(key))
	if strings.Contains(err.Error(), plain) || strings.Contains(err.Error(), base64.StdEncoding.EncodeToString(key)) {
		return fmt.Errorf("the key was not stored: %s", apierrors.ReasonForError(err))
	}
	return err
}

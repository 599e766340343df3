package operator

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Rotated is the state of the gateways' keys after a rotation.
type Rotated struct {
	Peering       string       `json:"peering"`
	KeyGeneration int32        `json:"keyGeneration"`
	Gateways      []GatewayKey `json:"gateways"`
}

// GatewayKey is the key in use of one gateway.
type GatewayKey struct {
	Name          string             `json:"name"`
	PublicKey     v1alpha1.PublicKey `json:"publicKey"`
	KeyGeneration int32              `json:"keyGeneration"`
}

// RotateKeys gives each gateway of a Peering a new key pair and waits until all gateways
// use it: it raises spec.gateway.keyGeneration. The old keys stay in use until the remote
// cluster uses the new ones. A rotation that is in progress is waited for instead.
func RotateKeys(ctx context.Context, c Cluster, name string, w Waiting) (*Rotated, error) {
	all, err := c.Peerings(ctx)
	if err != nil {
		return nil, err
	}
	was := named(all, name)
	switch {
	case was == nil:
		return nil, fmt.Errorf("%s: %w", c.Name, noPeering(name, all))
	case was.DeletionTimestamp != nil:
		return nil, fmt.Errorf("%s: Peering %s is being deleted", c.Name, name)
	}
	generation := max(was.Spec.Gateway.KeyGeneration, 1)
	if oldKey(was, generation) == "" {
		generation++
		if err := c.raiseKeyGeneration(ctx, was, generation); err != nil {
			return nil, err
		}
	}
	r := &Rotated{Peering: name, KeyGeneration: generation}
	err = w.Until(ctx, func(ctx context.Context) (string, error) {
		is, err := c.again(ctx, name, was.UID, "rotate its keys")
		if err != nil {
			return "", err
		}
		r.Gateways = []GatewayKey{}
		for _, g := range is.Status.Gateways {
			r.Gateways = append(r.Gateways, GatewayKey{g.Name, g.PublicKey, g.KeyGeneration})
		}
		return oldKey(is, generation), nil
	})
	return r, err
}

// oldKey says which gateway does not use a key of the generation yet, empty if all do.
func oldKey(p *v1alpha1.Peering, generation int32) string {
	for _, g := range p.Status.Gateways {
		switch {
		case g.KeyGeneration >= generation:
		case g.NextPublicKey != "":
			return fmt.Sprintf("gateway %s has a new key, which the remote cluster does not use yet; see strait status %s", g.Name, p.Name)
		default:
			return fmt.Sprintf("gateway %s has no key of generation %d yet", g.Name, generation)
		}
	}
	return ""
}

// raiseKeyGeneration patches the one field. It is not applied with the fields that other
// commands apply, which would take it back.
func (c Cluster) raiseKeyGeneration(ctx context.Context, p *v1alpha1.Peering, generation int32) error {
	body := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"gateway":{"keyGeneration":%d}}}`, p.UID, generation)
	ctx, cancel := c.within(ctx)
	defer cancel()
	is, err := c.Client.Peerings().Patch(ctx, p.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: Manager})
	if err != nil {
		return c.Failed("write Peering "+p.Name, err)
	}
	c.changed(is, true)
	return nil
}

package translate

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/peering"
)

// peers returns the remote cluster's gateways, by ordinal. Each has a peer for each pair of
// one of its keys and one of this gateway's own, so that either cluster can rotate keys
// independently: the pair of the newest keys first, under the gateway's name. A gateway
// whose preshared key is not available is left out: without it the link would be weaker
// than configured.
func (t *translation) peers() (all []config.Peer) {
	own := t.ownKeys()
	taken := make(map[config.Key]string) // names of gateways, by their keys
	gateways := slices.Clone(t.remoteState.Gateways)
	slices.SortStableFunc(gateways, func(a, b peering.Gateway) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	for i, g := range gateways {
		if i > 0 && gateways[i-1].Name == g.Name {
			t.problem(t.peering(), t.peerField(g.Name), "two gateways have that name", "use a unique name for each gateway")
			continue
		}
		theirs := t.keysOf(g, taken)
		preshared := ""
		if secret := g.PresharedKeySecretName; secret != "" {
			if preshared = t.PresharedKeyFiles[secret]; preshared == "" {
				t.problem(t.peering(), t.peerField(g.Name), "the preshared key is not available",
					"create the Secret "+secret+" with the key presharedKey in the namespace of the gateways")
				continue
			}
		}
		endpoint, more := endpoints(g)
		pairs := 0
		for _, ours := range own {
			for _, key := range theirs {
				p := config.Peer{Name: g.Name, PublicKey: key, PresharedKeyFile: preshared, Endpoint: endpoint, MoreEndpoints: more, PersistentKeepalive: ptr.Deref(g.PersistentKeepalive, metav1.Duration{}).Duration}
				if pairs++; pairs > 1 {
					p.Name, p.Gateway = fmt.Sprintf("%s.%d", g.Name, pairs), g.Name
				}
				if ours.File != t.config.WireGuard.PrivateKeyFile {
					p.PrivateKeyFile = ours.File
				}
				all = append(all, p)
			}
		}
	}
	return all
}

// ownKeys returns the gateway's own valid keys, newest first: the current and the next
// ones, and that of the invite while it is valid.
func (t *translation) ownKeys() (keys []OwnKey) {
	for _, k := range t.Keys {
		switch {
		case k.Generation == invited && (t.InviteUsed || t.Peering.Spec.InviteUntil == nil || peering.Expired(t.Peering.Spec.InviteUntil, t.Now)):
		case k.Generation != invited && k.Generation < t.assigned.KeyGeneration:
		default:
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		t.problem(t.peering(), "status.gateways", fmt.Sprintf("gateway %s has no key of generation %d or later", t.Name, t.assigned.KeyGeneration),
			"restore the key in its Secret, or increment spec.gateway.keyGeneration for a new one")
	}
	return keys
}

// keysOf returns the keys of a remote gateway that are unique, newest first.
func (t *translation) keysOf(g peering.Gateway, taken map[config.Key]string) (keys []config.Key) {
	const remedy = "set the key of the remote cluster's gateway"
	field := t.peerField(g.Name)
	for _, text := range g.PublicKeys {
		key, err := config.ParseKey(string(text))
		switch other, again := taken[key]; {
		case err != nil:
			t.problem(t.peering(), field, "the public key "+err.Error(), "set the key as `wg pubkey` prints it")
		case slices.ContainsFunc(t.Keys, func(k OwnKey) bool { return k.Public == key }):
			t.problem(t.peering(), field, "the public key is this gateway's own", remedy)
		case again:
			t.problem(t.peering(), field, fmt.Sprintf("%s is already the key of %s", key, t.peerField(other)), "use separate key pairs for each gateway")
		default:
			taken[key] = g.Name
			keys = append(keys, key)
		}
	}
	return keys
}

func endpoints(g peering.Gateway) (first string, more []string) {
	for i, e := range g.Endpoints {
		if i == 0 {
			first = string(e)
		} else {
			more = append(more, string(e))
		}
	}
	return first, more
}

// peerField returns the field that contains a remote gateway, for a Problem.
func (t *translation) peerField(name string) string {
	if t.remoteState.Announced {
		return "status.announcement.gateways[" + name + "]"
	}
	return "spec.peers[" + name + "]"
}

package translate

import (
	"cmp"
	"slices"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// peers are the remote cluster's gateways, by name. One whose preshared key is not at
// hand is left out: without it the link would be weaker than wished for.
func (t *translation) peers() (all []config.Peer) {
	for _, p := range t.Peering.Spec.Peers {
		field := peerField(p.Name)
		key, err := config.ParseKey(string(p.PublicKey))
		if err != nil {
			t.problem(t.peering(), field, "the public key "+err.Error(), "give the key as `wg pubkey` prints it")
			continue
		}
		if key == t.PublicKey {
			t.problem(t.peering(), field, "the public key is this gateway's own", "give the key of the remote cluster's gateway")
			continue
		}
		preshared := ""
		if secret := p.PresharedKeySecretName; secret != "" {
			if preshared = t.PresharedKeyFiles[secret]; preshared == "" {
				t.problem(t.peering(), field, "the preshared key is not here",
					"create the Secret "+secret+" with the key presharedKey in Strait's namespace")
				continue
			}
		}
		all = append(all, config.Peer{
			Name: p.Name, PublicKey: key, PresharedKeyFile: preshared, Endpoint: string(p.Endpoint), PersistentKeepalive: keepalive(&p),
		})
	}
	slices.SortFunc(all, func(a, b config.Peer) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// keepalive is the interval of keepalives, 0 for none.
func keepalive(p *v1alpha1.Peer) (none time.Duration) {
	if p.PersistentKeepalive == nil {
		return none
	}
	return p.PersistentKeepalive.Duration
}

// peerField is how a Problem names a peer.
func peerField(name string) string { return "spec.peers[" + name + "]" }

package operator

import (
	"fmt"
	"slices"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// checkNotSuperseded returns the reason why a Peering cannot trust gateways with these keys
// even if they are added to its spec, nil if it can: it trusted them once, and the remote
// cluster has announced other keys since.
func (c Cluster) checkNotSuperseded(name string, p *v1alpha1.Peering, keys []v1alpha1.PublicKey) error {
	if p == nil || len(keys) == 0 {
		return nil
	}
	written := p.DeepCopy()
	for i, key := range keys {
		written.Spec.Peers = append(written.Spec.Peers, v1alpha1.Peer{Name: fmt.Sprint("written-", i), PublicKey: key})
	}
	remote := peering.RemoteOf(written, time.Now())
	if slices.ContainsFunc(remote.Gateways, func(g peering.Gateway) bool {
		return slices.ContainsFunc(g.PublicKeys, func(key v1alpha1.PublicKey) bool { return slices.Contains(keys, key) })
	}) {
		return nil
	}
	return fmt.Errorf("%s: Peering %s is with newer gateways of cluster %s, which replaced these; "+
		"delete it (kubectl delete peering %s) and run the command again",
		c.Name, name, remoteOf(p), name)
}

// checkKnown returns an error if a Peering trusts gateways, but none with these keys, unless
// yes is true: the cluster that has them may use the ID of another one. The key of an invite
// does not count.
func (c Cluster) checkKnown(name string, p *v1alpha1.Peering, keys []v1alpha1.PublicKey, yes bool) error {
	if p == nil || yes {
		return nil
	}
	trusted := false
	for _, g := range peering.RemoteOf(p, time.Now()).Gateways {
		if slices.ContainsFunc(g.PublicKeys, func(key v1alpha1.PublicKey) bool { return slices.Contains(keys, key) }) {
			return nil
		}
		trusted = trusted || g.NotAfter == nil
	}
	if !trusted {
		return nil
	}
	return fmt.Errorf("%s: Peering %s is with other gateways of cluster %s, and would trust these too; "+
		"make sure that they are of that cluster, for instance because it was installed again, and add --yes", c.Name, name, remoteOf(p))
}

// announced reports whether a granted announcement contains one of these keys.
func announced(p *v1alpha1.Peering, keys []v1alpha1.PublicKey) bool {
	a := p.Status.Announcement
	return a != nil && peering.Refusal(p, peering.Holders{}, a) == nil && slices.ContainsFunc(a.Gateways, func(g v1alpha1.AnnouncedGateway) bool {
		return slices.ContainsFunc(g.PublicKeys, func(key v1alpha1.PublicKey) bool { return slices.Contains(keys, key) })
	})
}

// ownLink reports whether a link with the gateways' own keys is up: the one with the name
// of a remote gateway. The names of links with other keys, like that of an invite, have a
// numeric suffix; see package translate.
func ownLink(p *v1alpha1.Peering, links []Link) bool {
	return slices.ContainsFunc(links, func(l Link) bool {
		return l.Up && slices.ContainsFunc(peering.RemoteOf(p, time.Now()).Gateways, func(g peering.Gateway) bool { return g.Name == l.Remote })
	})
}

func keysOf(gateways []v1alpha1.GatewayStatus) (keys []v1alpha1.PublicKey) {
	for _, g := range gateways {
		keys = append(keys, g.PublicKey)
		if g.NextPublicKey != "" {
			keys = append(keys, g.NextPublicKey)
		}
	}
	return keys
}

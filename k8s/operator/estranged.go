package operator

import (
	"fmt"
	"slices"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// estranged is why a Peering cannot come to trust gateways with these keys, nil if it can.
// The remote cluster announced others, and only those may announce newer ones: keys that
// are written beside an announcement count for nothing. So it is where the Peering over
// there was deleted and made anew.
func (c Cluster) estranged(name string, p *v1alpha1.Peering, keys []v1alpha1.PublicKey) error {
	if p == nil {
		return nil
	}
	remote := peering.RemoteOf(p, time.Now())
	if !remote.Announced || slices.ContainsFunc(remote.Gateways, func(g peering.Gateway) bool {
		return slices.ContainsFunc(g.PublicKeys, func(key v1alpha1.PublicKey) bool { return slices.Contains(keys, key) })
	}) {
		return nil
	}
	return fmt.Errorf("%s: Peering %s is with gateways of cluster %s that are not there any more, and trusts no others; "+
		"delete it (kubectl delete peering %s) and run the command again",
		c.Name, name, remoteOf(p), name)
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

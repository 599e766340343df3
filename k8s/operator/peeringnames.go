package operator

import (
	"fmt"
	"regexp"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// nameForm is that of the names of Peerings.
var nameForm = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)

// CheckName says what is wrong with the name of a Peering.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of a Peering: use up to 40 lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit", name)
	}
	return nil
}

// remoteID is the ID of the cluster that a Peering is with, empty while it is not known.
func remoteID(p *v1alpha1.Peering) v1alpha1.ClusterID {
	if p.Spec.ClusterID != "" {
		return p.Spec.ClusterID
	}
	return p.Status.ClusterID
}

// findPeering is the name of the Peering with a cluster, and the Peering if it is there: the one
// that is with that cluster already, or else one of the name that is wished for or, by
// default, of the cluster's ID. Flag is that of the name.
func findPeering(c Cluster, all []v1alpha1.Peering, with v1alpha1.ClusterID, wished, flag string) (string, *v1alpha1.Peering, error) {
	for i := range all {
		p := &all[i]
		if remoteID(p) != with {
			continue
		}
		if wished != "" && wished != p.Name {
			return "", nil, fmt.Errorf("%s: it is joined to cluster %s already, by Peering %s; leave %s out, or delete that Peering first", c.Name, with, p.Name, flag)
		}
		return p.Name, p, nil
	}
	name := wished
	if name == "" {
		name = string(with)
	}
	if err := CheckName(name); err != nil {
		return "", nil, fmt.Errorf("%w; choose another with %s", err, flag)
	}
	for i := range all {
		p := &all[i]
		switch {
		case p.Name != name:
		case remoteID(p) != "":
			return "", nil, fmt.Errorf("%s: Peering %s is with cluster %s, and not with %s; choose another name with %s", c.Name, name, remoteID(p), with, flag)
		default:
			return name, p, nil
		}
	}
	return name, nil, nil
}

// ranges are all that a cluster shows to others.
func ranges(n *v1alpha1.ClusterNetwork) []v1alpha1.CIDR {
	pods := peering.LocalPrefixes(&v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{LocalPods: true}}, n)
	return append(pods, n.Spec.ExternalCIDRs...)
}

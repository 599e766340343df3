package config

func (r *ranges) mappings(list *place, mappings []Mapping) {
	for i, m := range mappings {
		external, target := list.item(i).field("external"), list.item(i).field("target")
		if r.own(external, m.External) && !r.external.Contains(m.External) {
			r.add(external, "choose one from local.externalPrefixes, or add its prefix there", "%s is in none of local.externalPrefixes", m.External)
		}
		// The remote cluster must not reach local services of the gateway's machine: loopback and link-local addresses,
		// including the metadata services of clouds.
		if !r.address(target, m.Target) {
			continue
		}
		if other := r.hosts[m.Target]; other != nil {
			r.add(target, "give an address outside of Strait's own", "%s is that of %s", m.Target, other)
		}
	}
}

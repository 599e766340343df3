package gateway

import (
	"fmt"
	"net/netip"

	"strait.dev/strait/config"
	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
)

// toControl converts an announcement to the form of the control protocol. If it does not
// list this gateway, it is not complete yet and has no gateways.
func toControl(a v1alpha1.Announcement, gateway string) (c control.Announcement, err error) {
	c = control.Announcement{Revision: a.Revision, Cluster: string(a.ClusterID), Gateway: gateway}
	if c.Prefixes, err = cidrs.Parse(a.Prefixes); err != nil {
		return c, err
	}
	if c.ExternalPrefixes, err = cidrs.Parse(a.ExternalPrefixes); err != nil {
		return c, err
	}
	if o := a.Offload; o != nil {
		c.Borrower = string(o.Borrower)
		if o.Lender != nil {
			address, err := netip.ParseAddr(string(o.Lender.Address))
			if err != nil {
				return c, fmt.Errorf("%q is not the address of a lender", o.Lender.Address)
			}
			c.Lender = &control.Lender{Address: address, Port: o.Lender.Port, Fingerprint: string(o.Lender.Fingerprint)}
		}
	}
	named := false
	for _, g := range a.Gateways {
		one := control.Gateway{Name: g.Name}
		for _, text := range g.PublicKeys {
			key, err := config.ParseKey(string(text))
			if err != nil {
				return c, fmt.Errorf("gateway %s: public key: %w", g.Name, err)
			}
			one.PublicKeys = append(one.PublicKeys, key)
		}
		for _, e := range g.Endpoints[:min(len(g.Endpoints), maxEndpoints)] {
			one.Endpoints = append(one.Endpoints, string(e))
		}
		named = named || g.Name == gateway
		c.Gateways = append(c.Gateways, one)
	}
	if !named {
		c.Gateways = nil
	}
	return c, nil
}

func fromControl(c control.Announcement) v1alpha1.Announcement {
	a := v1alpha1.Announcement{
		Revision: c.Revision, ClusterID: v1alpha1.ClusterID(c.Cluster),
		Prefixes: cidrs.Texts(c.Prefixes), ExternalPrefixes: cidrs.Texts(c.ExternalPrefixes),
	}
	if c.Lender != nil || c.Borrower != "" {
		a.Offload = &v1alpha1.AnnouncedOffload{Borrower: v1alpha1.Fingerprint(c.Borrower)}
		if l := c.Lender; l != nil {
			a.Offload.Lender = &v1alpha1.OffloadLender{Address: v1alpha1.IP(l.Address.String()), Port: l.Port, Fingerprint: v1alpha1.Fingerprint(l.Fingerprint)}
		}
	}
	for _, g := range c.Gateways {
		one := v1alpha1.AnnouncedGateway{Name: g.Name}
		for _, key := range g.PublicKeys {
			one.PublicKeys = append(one.PublicKeys, v1alpha1.PublicKey(key.String()))
		}
		for _, e := range g.Endpoints {
			one.Endpoints = append(one.Endpoints, v1alpha1.Endpoint(e))
		}
		a.Gateways = append(a.Gateways, one)
	}
	return a
}

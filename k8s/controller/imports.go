package controller

import (
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func (r *report) services(p *v1alpha1.Peering) *v1alpha1.PeeringServicesStatus {
	if r.multicluster == nil {
		return nil
	}
	is := v1alpha1.PeeringServicesStatus{}
	if was := p.Status.Services; was != nil {
		is = *was
	}
	is.Receiver = receiver(p.Status.Gateways, is.Receiver)
	if summary, known := r.multicluster.Summary(p.Name); known {
		is.Imported, is.Refused, is.Failed, is.Message = summary.Imported, summary.Refused, summary.Failed, summary.Message
	}
	return &is
}

// receiver returns the gateway that receives the exports of the remote cluster: the same one
// as before while it has a link that is up, otherwise the first one that has. Empty: none has.
func receiver(gateways []v1alpha1.GatewayStatus, was string) string {
	linked := func(g v1alpha1.GatewayStatus) bool { return g.LinkUp }
	if slices.ContainsFunc(gateways, func(g v1alpha1.GatewayStatus) bool { return g.Name == was && linked(g) }) {
		return was
	}
	if i := slices.IndexFunc(gateways, linked); i >= 0 {
		return gateways[i].Name
	}
	return ""
}

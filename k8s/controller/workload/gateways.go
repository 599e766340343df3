// Package workload makes the objects that run the gateways of a Peering and expose them, as data:
// the StatefulSet, Services, policies and a disruption budget. It reads and writes nothing.
package workload

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Check returns an error that names a missing option.
func (g Gateways) Check() error {
	switch {
	case g.Namespace == "":
		return errors.New("the namespace of the gateways is missing; set --gateway-namespace")
	case g.ServiceAccount == "":
		return errors.New("the service account of the gateways is missing; set --gateway-service-account")
	case g.Image == "" && !g.templateHasImage():
		return errors.New("the image of the gateways is missing; set --gateway-image, or an image in the pod template")
	}
	return nil
}

func (g Gateways) templateHasImage() bool {
	return g.Template != nil && slices.ContainsFunc(g.Template.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == gatewayContainer && c.Image != ""
	})
}

// Gateways configure the gateways of all peerings.
type Gateways struct {
	Namespace      string                  // of their pods and related objects; used for nothing else
	ServiceAccount string                  // of their pods, in that namespace
	Image          string                  // of `strait`; empty: that of the template
	Template       *corev1.PodTemplateSpec // fields of their pods that the installation sets; nil: none. See ParseTemplate
	WithoutNodes   bool                    // the cluster has no node helpers: gateways carry connections
	AssignedUID    bool                    // the cluster assigns the UID of their pods, as OpenShift does; otherwise it is 65534
	NoPolicies     bool                    // create no NetworkPolicies: for network plugins whose policies cannot match nodes by address
}

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReceivedService is a Service that a remote cluster exports, as a gateway received it: not
// checked against what the Peering permits. The gateway in status.services.receiver of the
// Peering writes it into the namespace of the gateways; the controller derives ServiceImports,
// Services and EndpointSlices from it. Its name is that of the Service, of its namespace and
// of the Peering, joined by dots. It is deleted with the Peering.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=rcsvc,categories=strait
// +kubebuilder:printcolumn:name="PEERING",type=string,JSONPath=`.spec.peering`
// +kubebuilder:printcolumn:name="NAMESPACE",type=string,JSONPath=`.spec.service.namespace`
// +kubebuilder:printcolumn:name="SERVICE",type=string,JSONPath=`.spec.service.name`
// +kubebuilder:printcolumn:name="TYPE",type=string,JSONPath=`.spec.service.type`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.split('.') == [self.spec.service.name, self.spec.service.__namespace__, self.spec.peering]",message="the name must be that of the Service, of its namespace and of the Peering, joined by dots"
type ReceivedService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec ReceivedServiceSpec `json:"spec"`
	// +optional
	Status ReceivedServiceStatus `json:"status,omitzero"`
}

// ReceivedServiceSpec is what a gateway received.
type ReceivedServiceSpec struct {
	// Peering is the name of the Peering with the exporting cluster.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`
	Peering string `json:"peering"`

	// Service is the record of the exporting cluster.
	Service ServiceRecord `json:"service"`
}

// ReceivedServiceStatus is written by the controller only.
type ReceivedServiceStatus struct {
	// Ports are the TCP and UDP ports on which each gateway of the Peering accepts
	// connections to the Service, in a cluster without node helpers. They stay the same while
	// the ReceivedService exists.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Ports []GatewayServicePort `json:"ports,omitempty"`
}

// GatewayServicePort is a port of gateways that stands for a port of a Service.
type GatewayServicePort struct {
	// ServicePort is the name of the port of the Service.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ServicePort string `json:"servicePort,omitempty"`

	// Port is the port of the gateways.
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// ReceivedServiceList is a list of ReceivedServices.
//
// +kubebuilder:object:root=true
type ReceivedServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReceivedService `json:"items"`
}

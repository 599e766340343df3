package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ExportedService is a Service that this cluster exports to its remote clusters. The
// controller writes it from the Service, its ServiceExport and its EndpointSlices, into the
// namespace of the gateways, which send it to the remote clusters: so gateways need not read
// Services. Its name is that of the Service and of its namespace, joined by a dot.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=exsvc,categories=strait
// +kubebuilder:printcolumn:name="NAMESPACE",type=string,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="SERVICE",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="TYPE",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ExportedService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec ServiceRecord `json:"spec"`
}

// ExportedServiceList is a list of ExportedServices.
//
// +kubebuilder:object:root=true
type ExportedServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExportedService `json:"items"`
}

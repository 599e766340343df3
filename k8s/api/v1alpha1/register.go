package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: "strait.dev", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ClusterNetwork{}, &ClusterNetworkList{},
		&Peering{}, &PeeringList{},
		&GatewayReport{}, &GatewayReportList{},
		&NodeAttachment{}, &NodeAttachmentList{},
		&AddressClaim{}, &AddressClaimList{},
		&AddressMapping{}, &AddressMappingList{},
		&ExportedService{}, &ExportedServiceList{},
		&ReceivedService{}, &ReceivedServiceList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers the types of this package in a scheme.
var AddToScheme = schemeBuilder.AddToScheme

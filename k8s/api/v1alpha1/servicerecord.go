package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceRecord describes a Service that a cluster exports (a ServiceExport of
// multicluster.x-k8s.io), with its endpoints. All addresses are those of the exporting
// cluster. Gateways exchange records, and the importing cluster translates them.
type ServiceRecord struct {
	// Namespace is that of the Service, and of its ServiceExport.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`

	// Name is that of the Service, and of its ServiceExport.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// ExportedAt is the time when the ServiceExport was created. Where exports of several
	// clusters conflict, the oldest one applies; an export of a remote cluster is not older
	// than the ReceivedService.
	ExportedAt metav1.Time `json:"exportedAt"`

	// Type is ClusterSetIP for a Service with a cluster IP, and Headless for one without.
	// +kubebuilder:validation:Enum=ClusterSetIP;Headless
	Type ServiceRecordType `json:"type"`

	// Ports are those of the Service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Ports []ServiceRecordPort `json:"ports,omitempty"`

	// SessionAffinity is None or ClientIP.
	// +optional
	// +kubebuilder:validation:Enum=None;ClientIP
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`

	// SessionAffinityTimeout is the duration of ClientIP affinity in seconds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	SessionAffinityTimeout *int32 `json:"sessionAffinityTimeout,omitempty"`

	// IPFamilies are those of the Service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`

	// InternalTrafficPolicy is that of the Service.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`

	// TrafficDistribution is that of the Service.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`

	// Labels are those that the ServiceExport exports.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations are those that the ServiceExport exports.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`

	// Endpoints are the endpoints of the Service, in one entry for each IP family and set of
	// ports, as in EndpointSlices.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Endpoints []ServiceRecordEndpoints `json:"endpoints,omitempty"`
}

// ServiceRecordType is the type of an exported Service, as in ServiceImports.
type ServiceRecordType string

// The types of exported Services.
const (
	ServiceRecordClusterSetIP ServiceRecordType = "ClusterSetIP"
	ServiceRecordHeadless     ServiceRecordType = "Headless"
)

// MaxServicePorts is the maximum number of ports of a Service that is exported. Kubernetes has
// no limit for Services.
const MaxServicePorts = 1024

// ServiceRecordPort is a port of an exported Service or of its endpoints.
type ServiceRecordPort struct {
	// Name of the port. A port of endpoints belongs to the port of the Service with the same
	// name.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// Protocol is TCP, UDP or SCTP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol"`

	// AppProtocol is the application protocol that the Service states, for instance
	// kubernetes.io/h2c.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AppProtocol *string `json:"appProtocol,omitempty"`

	// Port is the number of the port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// ServiceRecordEndpoints are endpoints with the same IP family and ports.
type ServiceRecordEndpoints struct {
	// AddressType is the IP family of the endpoints.
	// +kubebuilder:validation:Enum=IPv4;IPv6
	AddressType discoveryv1.AddressType `json:"addressType"`

	// Ports are those on which the endpoints serve the ports of the Service, by their names.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Ports []ServiceRecordPort `json:"ports,omitempty"`

	// Endpoints are the endpoints, ready or not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5000
	Endpoints []ServiceRecordEndpoint `json:"endpoints,omitempty"`
}

// ServiceRecordEndpoint is one endpoint. Ready, Serving and Terminating are the conditions
// of its EndpointSlice.
type ServiceRecordEndpoint struct {
	// Address is its IP address in the exporting cluster.
	// +kubebuilder:validation:MaxLength=39
	Address string `json:"address"`

	// Hostname is the name of the endpoint below that of a Headless Service.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Hostname string `json:"hostname,omitempty"`

	// Zone is that of the endpoint in the exporting cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`

	// Ready is true if the endpoint is ready for connections, and not terminating.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// Serving is true if the endpoint is ready, even while it terminates.
	// +optional
	Serving bool `json:"serving,omitempty"`

	// Terminating is true if the endpoint is ending.
	// +optional
	Terminating bool `json:"terminating,omitempty"`
}

package client

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/cilium"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// Custom resources of Strait, all cluster-scoped except GatewayReports, ExportedServices and ReceivedServices.

// ClusterNetworks are those of the cluster: there is one at most.
func (c *Client) ClusterNetworks() *Kind[*v1alpha1.ClusterNetwork, *v1alpha1.ClusterNetworkList] {
	return kindOf[v1alpha1.ClusterNetwork, v1alpha1.ClusterNetworkList](c, straitKind("ClusterNetwork"), "clusternetworks", "")
}

// Peerings are those of the cluster.
func (c *Client) Peerings() *Kind[*v1alpha1.Peering, *v1alpha1.PeeringList] {
	return kindOf[v1alpha1.Peering, v1alpha1.PeeringList](c, straitKind("Peering"), "peerings", "")
}

// GatewayReports are those in a namespace.
func (c *Client) GatewayReports(namespace string) *Kind[*v1alpha1.GatewayReport, *v1alpha1.GatewayReportList] {
	return kindOf[v1alpha1.GatewayReport, v1alpha1.GatewayReportList](c, straitKind("GatewayReport"), "gatewayreports", namespace)
}

// NodeAttachments are those of the cluster.
func (c *Client) NodeAttachments() *Kind[*v1alpha1.NodeAttachment, *v1alpha1.NodeAttachmentList] {
	return kindOf[v1alpha1.NodeAttachment, v1alpha1.NodeAttachmentList](c, straitKind("NodeAttachment"), "nodeattachments", "")
}

// AddressClaims are those of the cluster.
func (c *Client) AddressClaims() *Kind[*v1alpha1.AddressClaim, *v1alpha1.AddressClaimList] {
	return kindOf[v1alpha1.AddressClaim, v1alpha1.AddressClaimList](c, straitKind("AddressClaim"), "addressclaims", "")
}

// AddressMappings are those of the cluster.
func (c *Client) AddressMappings() *Kind[*v1alpha1.AddressMapping, *v1alpha1.AddressMappingList] {
	return kindOf[v1alpha1.AddressMapping, v1alpha1.AddressMappingList](c, straitKind("AddressMapping"), "addressmappings", "")
}

// ExportedServices are those in a namespace.
func (c *Client) ExportedServices(namespace string) *Kind[*v1alpha1.ExportedService, *v1alpha1.ExportedServiceList] {
	return kindOf[v1alpha1.ExportedService, v1alpha1.ExportedServiceList](c, straitKind("ExportedService"), "exportedservices", namespace)
}

// ReceivedServices are those in a namespace.
func (c *Client) ReceivedServices(namespace string) *Kind[*v1alpha1.ReceivedService, *v1alpha1.ReceivedServiceList] {
	return kindOf[v1alpha1.ReceivedService, v1alpha1.ReceivedServiceList](c, straitKind("ReceivedService"), "receivedservices", namespace)
}

func straitKind(kind string) schema.GroupVersionKind { return v1alpha1.GroupVersion.WithKind(kind) }

// Resource types of the Multi-Cluster Services API.

var mcsVersion = schema.GroupVersion(mcsv1beta1.GroupVersion)

// ServiceExports are those in a namespace.
func (c *Client) ServiceExports(namespace string) *Kind[*mcsv1beta1.ServiceExport, *mcsv1beta1.ServiceExportList] {
	return kindOf[mcsv1beta1.ServiceExport, mcsv1beta1.ServiceExportList](c, mcsVersion.WithKind("ServiceExport"), "serviceexports", namespace)
}

// ServiceImports are those in a namespace.
func (c *Client) ServiceImports(namespace string) *Kind[*mcsv1beta1.ServiceImport, *mcsv1beta1.ServiceImportList] {
	return kindOf[mcsv1beta1.ServiceImport, mcsv1beta1.ServiceImportList](c, mcsVersion.WithKind("ServiceImport"), "serviceimports", namespace)
}

// Resource types of Kubernetes. A namespace selects the objects in it; an empty one selects all namespaces.

// Nodes are those of the cluster.
func (c *Client) Nodes() *Kind[*corev1.Node, *corev1.NodeList] {
	return kindOf[corev1.Node, corev1.NodeList](c, coreKind("Node"), "nodes", "")
}

// Namespaces are those of the cluster.
func (c *Client) Namespaces() *Kind[*corev1.Namespace, *corev1.NamespaceList] {
	return kindOf[corev1.Namespace, corev1.NamespaceList](c, coreKind("Namespace"), "namespaces", "")
}

// Pods are those in a namespace.
func (c *Client) Pods(namespace string) *Kind[*corev1.Pod, *corev1.PodList] {
	return kindOf[corev1.Pod, corev1.PodList](c, coreKind("Pod"), "pods", namespace)
}

// PodTemplates are those in a namespace.
func (c *Client) PodTemplates(namespace string) *Kind[*corev1.PodTemplate, *corev1.PodTemplateList] {
	return kindOf[corev1.PodTemplate, corev1.PodTemplateList](c, coreKind("PodTemplate"), "podtemplates", namespace)
}

// ConfigMaps are those in a namespace.
func (c *Client) ConfigMaps(namespace string) *Kind[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return kindOf[corev1.ConfigMap, corev1.ConfigMapList](c, coreKind("ConfigMap"), "configmaps", namespace)
}

// Secrets are those in a namespace.
func (c *Client) Secrets(namespace string) *Kind[*corev1.Secret, *corev1.SecretList] {
	return kindOf[corev1.Secret, corev1.SecretList](c, coreKind("Secret"), "secrets", namespace)
}

// Services are those in a namespace.
func (c *Client) Services(namespace string) *Kind[*corev1.Service, *corev1.ServiceList] {
	return kindOf[corev1.Service, corev1.ServiceList](c, coreKind("Service"), "services", namespace)
}

// ResourceQuotas are those in a namespace.
func (c *Client) ResourceQuotas(namespace string) *Kind[*corev1.ResourceQuota, *corev1.ResourceQuotaList] {
	return kindOf[corev1.ResourceQuota, corev1.ResourceQuotaList](c, coreKind("ResourceQuota"), "resourcequotas", namespace)
}

// Events are those in a namespace. Those of objects without one are in default.
func (c *Client) Events(namespace string) *Kind[*corev1.Event, *corev1.EventList] {
	return kindOf[corev1.Event, corev1.EventList](c, coreKind("Event"), "events", namespace)
}

// StatefulSets are those in a namespace.
func (c *Client) StatefulSets(namespace string) *Kind[*appsv1.StatefulSet, *appsv1.StatefulSetList] {
	return kindOf[appsv1.StatefulSet, appsv1.StatefulSetList](c, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), "statefulsets", namespace)
}

// Deployments are those in a namespace.
func (c *Client) Deployments(namespace string) *Kind[*appsv1.Deployment, *appsv1.DeploymentList] {
	return kindOf[appsv1.Deployment, appsv1.DeploymentList](c, appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployments", namespace)
}

// DaemonSets are those in a namespace.
func (c *Client) DaemonSets(namespace string) *Kind[*appsv1.DaemonSet, *appsv1.DaemonSetList] {
	return kindOf[appsv1.DaemonSet, appsv1.DaemonSetList](c, appsv1.SchemeGroupVersion.WithKind("DaemonSet"), "daemonsets", namespace)
}

// Leases are those in a namespace.
func (c *Client) Leases(namespace string) *Kind[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	return kindOf[coordinationv1.Lease, coordinationv1.LeaseList](c, coordinationv1.SchemeGroupVersion.WithKind("Lease"), "leases", namespace)
}

// EndpointSlices are those in a namespace.
func (c *Client) EndpointSlices(namespace string) *Kind[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
	return kindOf[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](c, discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), "endpointslices", namespace)
}

// ServiceCIDRs are those of the cluster.
func (c *Client) ServiceCIDRs() *Kind[*networkingv1.ServiceCIDR, *networkingv1.ServiceCIDRList] {
	return kindOf[networkingv1.ServiceCIDR, networkingv1.ServiceCIDRList](c, networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), "servicecidrs", "")
}

// NetworkPolicies are those in a namespace.
func (c *Client) NetworkPolicies(namespace string) *Kind[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicyList] {
	return kindOf[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](c, networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), "networkpolicies", namespace)
}

// CiliumNetworkPolicies are those in a namespace, in clusters with Cilium.
func (c *Client) CiliumNetworkPolicies(namespace string) *Kind[*cilium.CiliumNetworkPolicy, *cilium.CiliumNetworkPolicyList] {
	return kindOf[cilium.CiliumNetworkPolicy, cilium.CiliumNetworkPolicyList](c, cilium.GroupVersion.WithKind("CiliumNetworkPolicy"), "ciliumnetworkpolicies", namespace)
}

// PodDisruptionBudgets are those in a namespace.
func (c *Client) PodDisruptionBudgets(namespace string) *Kind[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList] {
	return kindOf[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](c, policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), "poddisruptionbudgets", namespace)
}

// ClusterRoles are those of the cluster.
func (c *Client) ClusterRoles() *Kind[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList] {
	return kindOf[rbacv1.ClusterRole, rbacv1.ClusterRoleList](c, rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), "clusterroles", "")
}

// ClusterRoleBindings are those of the cluster.
func (c *Client) ClusterRoleBindings() *Kind[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList] {
	return kindOf[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](c, rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), "clusterrolebindings", "")
}

func coreKind(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }

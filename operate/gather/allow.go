package gather

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/install"
)

// The fields that may leave the cluster. New fields of Kubernetes are left out until they
// are listed here.

// omitted replaces the value of fields that are not shown.
const omitted = "(left out)"

// annotations are the annotations whose values are shown. Others may contain whole objects
// or secrets.
var annotations = []string{
	"strait.dev/uninstall", "deployment.kubernetes.io/revision", "checksum/config",
	"meta.helm.sh/release-name", "meta.helm.sh/release-namespace",
}

// environment are the environment variables whose values are shown.
var environment = []string{"STRAIT_PEERING", "STRAIT_PEERING_UID", "GOMAXPROCS", "GOGC", "GODEBUG"}

// straitContainers are the names of Strait's containers, whose arguments are shown.
var straitContainers = []string{install.Controller, install.Gateway, install.Node, install.Borrower, install.Lender}

func allowMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	is := metav1.ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Labels: m.Labels, OwnerReferences: m.OwnerReferences, Finalizers: m.Finalizers,
	}
	for name, value := range m.Annotations {
		if !slices.Contains(annotations, name) {
			value = omitted
		}
		metav1.SetMetaDataAnnotation(&is, name, value)
	}
	for _, f := range m.ManagedFields { // without the fields themselves
		is.ManagedFields = append(is.ManagedFields, metav1.ManagedFieldsEntry{Manager: f.Manager, Operation: f.Operation, APIVersion: f.APIVersion, Time: f.Time, Subresource: f.Subresource})
	}
	return is
}

func allowTemplate(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: allowMeta(t.ObjectMeta), Spec: allowPodSpec(t.Spec)}
}

func allowPodSpec(s corev1.PodSpec) corev1.PodSpec {
	is := corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, TopologySpreadConstraints: s.TopologySpreadConstraints,
		ServiceAccountName: s.ServiceAccountName, AutomountServiceAccountToken: s.AutomountServiceAccountToken, ImagePullSecrets: s.ImagePullSecrets,
		HostNetwork: s.HostNetwork, HostPID: s.HostPID, HostIPC: s.HostIPC, HostUsers: s.HostUsers, DNSPolicy: s.DNSPolicy, SecurityContext: s.SecurityContext,
		PriorityClassName: s.PriorityClassName, Priority: s.Priority, RuntimeClassName: s.RuntimeClassName, RestartPolicy: s.RestartPolicy,
		TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds, EnableServiceLinks: s.EnableServiceLinks, SchedulerName: s.SchedulerName,
	}
	for _, c := range s.InitContainers {
		is.InitContainers = append(is.InitContainers, allowContainer(c))
	}
	for _, c := range s.Containers {
		is.Containers = append(is.Containers, allowContainer(c))
	}
	for _, v := range s.Volumes {
		is.Volumes = append(is.Volumes, allowVolume(v))
	}
	return is
}

func allowContainer(c corev1.Container) corev1.Container {
	is := corev1.Container{
		Name: c.Name, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, Ports: c.Ports, Resources: c.Resources, SecurityContext: c.SecurityContext,
		RestartPolicy: c.RestartPolicy, TerminationMessagePolicy: c.TerminationMessagePolicy,
	}
	if slices.Contains(straitContainers, c.Name) {
		is.Args = c.Args
	}
	for _, e := range c.Env {
		if e.Value != "" && !slices.Contains(environment, e.Name) {
			e.Value = omitted
		}
		is.Env = append(is.Env, corev1.EnvVar{Name: e.Name, Value: e.Value, ValueFrom: e.ValueFrom}) // ValueFrom is only a reference
	}
	is.EnvFrom = c.EnvFrom
	for _, m := range c.VolumeMounts {
		is.VolumeMounts = append(is.VolumeMounts, corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, SubPath: m.SubPath, ReadOnly: m.ReadOnly})
	}
	return is
}

// allowVolume keeps the type of a volume and the object that it references.
func allowVolume(v corev1.Volume) corev1.Volume {
	is := corev1.Volume{Name: v.Name}
	switch {
	case v.Secret != nil:
		is.Secret = v.Secret
	case v.ConfigMap != nil:
		is.ConfigMap = v.ConfigMap
	case v.EmptyDir != nil:
		is.EmptyDir = v.EmptyDir
	case v.HostPath != nil:
		is.HostPath = v.HostPath
	case v.Projected != nil:
		is.Projected = v.Projected
	}
	return is
}

func allowPodStatus(s corev1.PodStatus) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: s.Phase, Conditions: s.Conditions, Message: s.Message, Reason: s.Reason, HostIP: s.HostIP, HostIPs: s.HostIPs, PodIP: s.PodIP, PodIPs: s.PodIPs,
		StartTime: s.StartTime, InitContainerStatuses: s.InitContainerStatuses, ContainerStatuses: s.ContainerStatuses, QOSClass: s.QOSClass,
	}
}

func allowNode(n corev1.Node) corev1.Node {
	return corev1.Node{
		ObjectMeta: allowMeta(n.ObjectMeta),
		Spec:       corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs, ProviderID: n.Spec.ProviderID, Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status: corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable, Conditions: n.Status.Conditions,
			Addresses: n.Status.Addresses, NodeInfo: n.Status.NodeInfo},
	}
}

func allowEvent(e corev1.Event) corev1.Event {
	return corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: e.Name, Namespace: e.Namespace, CreationTimestamp: e.CreationTimestamp},
		InvolvedObject: e.InvolvedObject, Reason: e.Reason, Message: e.Message, Type: e.Type, Count: e.Count, Action: e.Action,
		FirstTimestamp: e.FirstTimestamp, LastTimestamp: e.LastTimestamp, EventTime: e.EventTime, Source: e.Source,
		ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
	}
}

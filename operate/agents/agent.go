package agents

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/install"
)

// Profile is the set of privileges of an agent.
type Profile int

const (
	// Restricted satisfies the Pod Security Standard of that name. It may ping.
	Restricted Profile = iota
	// Node uses the network namespace of its node and can configure it, like the node helper:
	// as root with NET_ADMIN, and with NET_RAW to capture packets.
	Node
)

// Agent describes a pod to run.
type Agent struct {
	Name    string
	Node    string // name of its node; empty: any that is not virtual
	Profile Profile
	Args    []string // of strait; none: those of an idle agent
	Labels  map[string]string
	Ports   []corev1.ContainerPort // declared ports, for people and policies
}

const container = "agent"

// label is the label of all namespaces of agents; its value is their purpose.
const label = "strait.dev/agents"

// pod returns the agent's Pod, which runs on none of the virtual nodes unless it has one of
// them as its node.
func (a Agent) pod(o Options, virtual []string) *corev1.Pod {
	args := a.Args
	if len(args) == 0 {
		args = []string{"agent"}
	}
	labels := map[string]string{install.NameLabel: install.Name, install.ComponentLabel: container, label: o.Purpose, agentLabel: a.Name}
	for name, value := range a.Labels {
		labels[name] = value
	}
	security := &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	capabilities := &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	switch a.Profile {
	case Restricted: // with the UID of the image, or one that the cluster assigns, as OpenShift does
		security.RunAsNonRoot = new(true)
		security.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ping_group_range", Value: "0 2147483647"}} // allows ping without a capability
	case Node: // root, because other users lose capabilities on exec
		security.RunAsUser, security.RunAsGroup = new(int64(0)), new(int64(0))
		capabilities.Add = []corev1.Capability{"NET_ADMIN", "NET_RAW"}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
			Affinity:                      on(a.Node, virtual),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			HostNetwork:                   a.Profile == Node,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(1)),
			RestartPolicy:                 corev1.RestartPolicyNever,
			ImagePullSecrets:              o.PullSecrets,
			SecurityContext:               security,
			Containers: []corev1.Container{{
				Name: container, Image: o.Image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args, Ports: a.Ports,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: capabilities,
				},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
				},
			}},
		},
	}
}

// on pins a pod to a node through the scheduler, which checks for capacity. It matches the
// name of the Node object, because the hostname label may differ. Without a node, it keeps the
// pod from others, whose taints it tolerates.
func on(node string, others []string) *corev1.Affinity {
	var fields []corev1.NodeSelectorRequirement
	if node != "" {
		fields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}
	} else {
		for _, other := range others {
			fields = append(fields, corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{other}})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: fields}}},
	}}
}

package workload

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/peering"
)

const gatewayContainer = install.Gateway

// The ports of a gateway's pod. They are the same for all gateways, independent of the
// Service.
const (
	genevePort    = 6091             // UDP, from nodes
	vxlanPort     = 6092             // UDP, from nodes
	wireGuardPort = 51840            // UDP, from the other cluster
	httpPort      = install.HTTPPort // TCP: metrics, and the kubelet's probes
	healthPort    = install.HealthPort
)

// The paths of a gateway's files.
const (
	keysPath      = "/etc/strait/keys" // a directory for each gateway
	invitePath    = "/etc/strait/keys/invite"
	presharedPath = "/etc/strait/preshared"
	cachePath     = install.CacheDir
)

// Keys in Secrets that are created elsewhere: <peering>-invite, and those with preshared
// keys.
const (
	inviteKey    = peering.InviteKey
	presharedKey = "presharedKey"
)

// nonRootID is the user and group ID that gateways run as, unless the cluster assigns one.
const nonRootID = 65534

// secretMode makes Secrets readable for root and for the gateway's group.
const secretMode = 0o440

// MinReadySeconds is the time in seconds for nodes and the remote cluster to use a new
// gateway whose link is up, before the next gateway is replaced.
const MinReadySeconds = 5

// lostNodeSeconds is the time in seconds after which a gateway leaves a node that is not
// ready or unreachable. Kubernetes' default is 300.
const lostNodeSeconds = 10

// graceSeconds is the time in seconds that a gateway has to end: longer than it waits for
// nodes that still send to it (gateway.DrainLimit).
const graceSeconds = 30

// StatefulSet returns the StatefulSet of the gateways of a peering. Its pods are based on
// the template of the installation; Strait's own fields take precedence.
func StatefulSet(g Gateways, peering *v1alpha1.Peering) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: ObjectMeta(g, peering, peering.Name),
		Spec: appsv1.StatefulSetSpec{
			Replicas:             &peering.Spec.Gateway.Replicas,
			RevisionHistoryLimit: new(int32(2)),
			MinReadySeconds:      MinReadySeconds,
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			Selector:             &metav1.LabelSelector{MatchLabels: selector(peering)},
			Template:             PodTemplate(g, peering),
		},
	}
}

// PodTemplate returns the template of the pods of a peering.
func PodTemplate(g Gateways, peering *v1alpha1.Peering) corev1.PodTemplateSpec {
	var template corev1.PodTemplateSpec
	if g.Template != nil {
		template = *g.Template.DeepCopy()
	}
	if template.Labels == nil {
		template.Labels = make(map[string]string)
	}
	for name, value := range labels(peering) {
		template.Labels[name] = value
	}
	pod := &template.Spec
	pod.ServiceAccountName = g.ServiceAccount
	pod.AutomountServiceAccountToken = new(true)
	pod.EnableServiceLinks = new(false)
	pod.RestartPolicy = corev1.RestartPolicyAlways
	pod.TerminationGracePeriodSeconds = new(int64(graceSeconds))
	pod.ReadinessGates = mergeByName(pod.ReadinessGates, []corev1.PodReadinessGate{{ConditionType: LinksUpGate}},
		func(g corev1.PodReadinessGate) string { return string(g.ConditionType) })
	if of := peering.Spec.Gateway.NodeSelector; len(of) > 0 {
		if pod.NodeSelector == nil {
			pod.NodeSelector = make(map[string]string)
		}
		maps.Copy(pod.NodeSelector, of)
	}
	pod.Tolerations = append(pod.Tolerations, peering.Spec.Gateway.Tolerations...)
	pod.Tolerations = append(pod.Tolerations, lostNodeTolerations(pod.Tolerations)...)
	pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if !g.AssignedUID {
		pod.SecurityContext.RunAsUser, pod.SecurityContext.RunAsGroup, pod.SecurityContext.FSGroup = new(int64(nonRootID)), new(int64(nonRootID)), new(int64(nonRootID))
	}
	if !g.WithoutNodes {
		pod.Affinity = offVirtualNodes(pod.Affinity)
	}
	if len(pod.TopologySpreadConstraints) == 0 {
		pod.TopologySpreadConstraints = spread(peering)
	}
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == gatewayContainer })
	if i < 0 {
		pod.Containers = append(pod.Containers, corev1.Container{Name: gatewayContainer})
		i = len(pod.Containers) - 1
	}
	volumes, mounts := volumesAndMounts(peering)
	pod.Volumes = mergeByName(pod.Volumes, volumes, func(v corev1.Volume) string { return v.Name })
	pod.Containers[i].VolumeMounts = mergeByName(pod.Containers[i].VolumeMounts, mounts, func(m corev1.VolumeMount) string { return m.MountPath })
	completeContainer(&pod.Containers[i], g, peering)
	return template
}

// lostNodeTolerations returns the tolerations of lost nodes for a pod that has others. One
// that covers the same taint takes precedence, as for Kubernetes' own default.
func lostNodeTolerations(others []corev1.Toleration) (all []corev1.Toleration) {
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(others, func(t corev1.Toleration) bool {
			return (t.Key == "" || t.Key == taint) && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
		}) {
			all = append(all, corev1.Toleration{
				Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(lostNodeSeconds)),
			})
		}
	}
	return all
}

// mergeByName returns the items, plus those of base whose names are not among them.
func mergeByName[T any](base, items []T, name func(T) string) []T {
	for _, one := range base {
		if !slices.ContainsFunc(items, func(item T) bool { return name(item) == name(one) }) {
			items = append(items, one)
		}
	}
	return items
}

func completeContainer(c *corev1.Container, g Gateways, peering *v1alpha1.Peering) {
	if g.Image != "" {
		c.Image = g.Image
	}
	c.Command = nil
	c.Args = []string{
		"gateway", "--key-dir=" + keysPath + "/$(POD_NAME)", "--invite-key-file=" + invitePath + "/" + inviteKey,
		"--preshared-key-dir=" + presharedPath, "--cache-dir=" + cachePath,
	}
	if g.WithoutNodes {
		c.Args = append(c.Args, "--without-nodes")
	}
	c.Env = mergeByName(c.Env, []corev1.EnvVar{
		{Name: "STRAIT_PEERING", Value: peering.Name},
		{Name: "STRAIT_PEERING_UID", Value: string(peering.UID)},
		fieldOfPod("POD_NAMESPACE", "metadata.namespace"),
		fieldOfPod("POD_NAME", "metadata.name"),
		fieldOfPod("POD_UID", "metadata.uid"),
		fieldOfPod("POD_IPS", "status.podIPs"),
		{Name: "GOMEMLIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
			ContainerName: gatewayContainer, Resource: "limits.memory", Divisor: resource.MustParse("1"),
		}}},
	}, func(e corev1.EnvVar) string { return e.Name })
	c.Ports = []corev1.ContainerPort{
		{Name: "geneve", ContainerPort: genevePort, Protocol: corev1.ProtocolUDP},
		{Name: "vxlan", ContainerPort: vxlanPort, Protocol: corev1.ProtocolUDP},
		{Name: "wireguard", ContainerPort: wireGuardPort, Protocol: corev1.ProtocolUDP},
		{Name: "metrics", ContainerPort: httpPort, Protocol: corev1.ProtocolTCP},
		{Name: "health", ContainerPort: healthPort, Protocol: corev1.ProtocolTCP},
	}
	// Two minutes: a gateway may start on a node that is starting many pods.
	c.StartupProbe = probe("/healthz", 2, 60)
	c.LivenessProbe = probe("/healthz", 10, 3)
	c.ReadinessProbe = probe("/readyz", 2, 3)
	c.SecurityContext = &corev1.SecurityContext{
		RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if of := peering.Spec.Gateway.Resources; of != nil {
		c.Resources = corev1.ResourceRequirements{Requests: of.Requests, Limits: of.Limits}
	} else if len(c.Resources.Requests) == 0 && len(c.Resources.Limits) == 0 {
		c.Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		}
	}
}

func fieldOfPod(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

// probe returns an HTTP probe of a path with a period in seconds that fails after a number
// of consecutive failures.
func probe(path string, seconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("metrics")}},
		PeriodSeconds: seconds, TimeoutSeconds: 2, FailureThreshold: failures,
	}
}

// offVirtualNodes returns an affinity that also keeps pods from virtual nodes, which carry no
// packets between nodes and gateways. One that requires nodes is returned unchanged.
func offVirtualNodes(of *corev1.Affinity) *corev1.Affinity {
	if of == nil {
		of = &corev1.Affinity{}
	}
	if of.NodeAffinity == nil {
		of.NodeAffinity = &corev1.NodeAffinity{}
	}
	if of.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		of.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: install.NotVirtual()}},
		}
	}
	return of
}

func spread(peering *v1alpha1.Peering) (all []corev1.TopologySpreadConstraint) {
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		all = append(all, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: selector(peering)},
		})
	}
	return all
}

// volumesAndMounts returns the volumes of a gateway's pod and their mounts. Whole volumes
// are mounted, without subPath, so that the kubelet keeps them up to date: a new key
// reaches a running gateway. All replicas share one template, so each gets the keys of all;
// the gateway reads its own. All Secrets are optional: they may be created later.
func volumesAndMounts(p *v1alpha1.Peering) (volumes []corev1.Volume, mounts []corev1.VolumeMount) {
	add := func(name, path string, readOnly bool, source corev1.VolumeSource) {
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: source})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: readOnly})
	}
	for ordinal := range keyVolumes(p.Spec.Gateway.Replicas) {
		gateway := peering.GatewayName(p, int32(ordinal))
		sources := []corev1.VolumeProjection{}
		for _, g := range generations(p) {
			sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: SecretName(gateway, g)}, Optional: new(true),
			}})
		}
		add(fmt.Sprintf("key-%d", ordinal), keysPath+"/"+gateway, true, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: sources, DefaultMode: new(int32(secretMode)),
		}})
	}
	add("invite", invitePath, true, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: peering.InviteSecret(p.Name), Optional: new(true), DefaultMode: new(int32(secretMode)),
		Items: []corev1.KeyToPath{{Key: inviteKey, Path: inviteKey}},
	}})
	add("preshared", presharedPath, true, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: presharedKeys(p), DefaultMode: new(int32(secretMode)),
	}})
	add("cache", cachePath, false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("64Mi"))}})
	return volumes, mounts
}

// keyVolumes returns the number of gateways whose keys are mounted: more than there are
// gateways, because adding a volume restarts all of them. Scaling from one to two, the most
// common step to high availability, restarts none.
func keyVolumes(replicas int32) int {
	return max(2, 1<<bits.Len(uint(replicas-1)))
}

// presharedKeys returns the preshared keys of all peers, each in a file named like its
// Secret.
func presharedKeys(peering *v1alpha1.Peering) []corev1.VolumeProjection {
	var names []string
	for _, peer := range peering.Spec.Peers {
		if peer.PresharedKeySecretName != "" {
			names = append(names, peer.PresharedKeySecretName)
		}
	}
	slices.Sort(names)
	sources := []corev1.VolumeProjection{} // not null if there are none
	for _, name := range slices.Compact(names) {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: new(true),
			Items: []corev1.KeyToPath{{Key: presharedKey, Path: name}},
		}})
	}
	return sources
}

// LinksUpGate is the readiness gate of gateways' pods: the condition of a pod that the
// controller sets to True once, when the pod has a link or none is expected. It controls
// rollouts and drains only. Traffic does not depend on it: Services publish addresses that
// are not ready, and the status of peerings counts pods that run. A pod therefore keeps
// what it has while no controller leads.
const LinksUpGate corev1.PodConditionType = "strait.dev/LinksUp"

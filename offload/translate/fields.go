package translate

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Refusal is the reason why a pod cannot have a twin. It does not pass by itself.
type Refusal struct {
	Field string // like spec.hostNetwork
	Why   string
}

func (r *Refusal) Error() string { return r.Field + ": " + r.Why }

// verdict is what happens to a field that is set: it is kept, refused for a reason, or dropped.
type verdict struct {
	keep bool
	why  string
}

var keep, drop = verdict{keep: true}, verdict{}

func refuse(why string) verdict { return verdict{why: why} }

const (
	whyHost     = "a twin gets nothing of its host; remove the field"
	whyClaim    = "devices of the other cluster cannot be claimed; remove the field"
	whyVolume   = "volumes of this type cannot be carried over; use emptyDir, or let the pod run in its own cluster"
	whyToken    = "a twin gets no token for the API server; remove the volume"
	whyWindows  = "only Linux containers are supported; remove the field"
	whyUnknown  = "this version of Strait does not know the field; remove it, or upgrade Strait in both clusters"
	whyAddress  = "a probe or hook of a twin may only address its own pod; remove the host"
	whyMetadata = "annotations are not carried over; remove the item"
)

// specFields has a verdict on each field of a pod's spec.
var specFields = map[string]verdict{
	"Volumes": keep, "InitContainers": keep, "Containers": keep,
	"RestartPolicy": keep, "TerminationGracePeriodSeconds": keep, "ActiveDeadlineSeconds": keep,
	"DNSPolicy": keep, "DNSConfig": keep, "HostAliases": keep, "Hostname": keep, "HostnameOverride": keep, "Subdomain": keep, "SetHostnameAsFQDN": keep,
	"ShareProcessNamespace": keep, "SecurityContext": keep, "EnableServiceLinks": keep, "OS": keep, "HostUsers": keep, "Resources": keep,
	"ImagePullSecrets": keep,

	// The consumer's scheduler has decided by these; the provider's decides for itself.
	"NodeSelector": drop, "NodeName": drop, "Affinity": drop, "SchedulerName": drop, "Tolerations": drop, "TopologySpreadConstraints": drop,
	"PriorityClassName": drop, "Priority": drop, "PreemptionPolicy": drop, "Overhead": drop, "RuntimeClassName": drop,
	"SchedulingGates": drop, "SchedulingGroup": drop, "EvictionResponders": drop,
	// The borrower evaluates readiness gates in the consumer.
	"ReadinessGates": drop,
	// A twin has the account default, and no token.
	"ServiceAccountName": drop, "DeprecatedServiceAccount": drop, "AutomountServiceAccountToken": drop,
	// They are added to a pod that runs already; it keeps running.
	"EphemeralContainers": drop,

	"HostNetwork": refuse(whyHost), "HostPID": refuse(whyHost), "HostIPC": refuse(whyHost),
	"ResourceClaims": refuse(whyClaim),
}

// containerFields has a verdict on each field of a container.
var containerFields = map[string]verdict{
	"Name": keep, "Image": keep, "Command": keep, "Args": keep, "WorkingDir": keep, "Ports": keep, "Env": keep, "EnvFrom": keep,
	"Resources": keep, "ResizePolicy": keep, "RestartPolicy": keep, "RestartPolicyRules": keep, "VolumeMounts": keep,
	"LivenessProbe": keep, "ReadinessProbe": keep, "StartupProbe": keep, "Lifecycle": keep,
	"TerminationMessagePath": keep, "TerminationMessagePolicy": keep, "ImagePullPolicy": keep, "SecurityContext": keep,
	"Stdin": keep, "StdinOnce": keep, "TTY": keep,

	"VolumeDevices": refuse(whyVolume),
}

// securityFields has a verdict on each field of a container's security context. What is kept
// is judged by the Pod Security level of the twin's namespace.
var securityFields = map[string]verdict{
	"Capabilities": keep, "SELinuxOptions": keep, "RunAsUser": keep, "RunAsGroup": keep, "RunAsNonRoot": keep,
	"ReadOnlyRootFilesystem": keep, "AllowPrivilegeEscalation": keep, "SeccompProfile": keep, "AppArmorProfile": keep,
	"Privileged": keep, // only false: see checkContainer

	"ProcMount":      refuse(whyHost),
	"WindowsOptions": refuse(whyWindows),
}

// podSecurityFields has a verdict on each field of a pod's security context.
var podSecurityFields = map[string]verdict{
	"SELinuxOptions": keep, "RunAsUser": keep, "RunAsGroup": keep, "RunAsNonRoot": keep, "SupplementalGroups": keep,
	"SupplementalGroupsPolicy": keep, "FSGroup": keep, "Sysctls": keep, "FSGroupChangePolicy": keep, "SeccompProfile": keep,
	"AppArmorProfile": keep, "SELinuxChangePolicy": keep,

	"WindowsOptions": refuse(whyWindows),
}

// envSourceFields has a verdict on each source of an environment variable.
var envSourceFields = map[string]verdict{
	"FieldRef": keep, "ResourceFieldRef": keep, "ConfigMapKeyRef": keep, "SecretKeyRef": keep,
	"FileKeyRef": refuse(whyVolume),
}

// envFromFields has a verdict on each field of a source of several environment variables.
var envFromFields = map[string]verdict{"Prefix": keep, "ConfigMapRef": keep, "SecretRef": keep}

// volumeFields has a verdict on the types of volumes that are not refused with whyVolume.
var volumeFields = map[string]verdict{
	"EmptyDir": keep, "DownwardAPI": keep, "ConfigMap": keep, "Secret": keep, "Projected": keep, // see checkVolume
	"HostPath": refuse(whyHost),
}

// projectedFields has a verdict on the sources of projected volumes that are not refused with
// whyVolume.
var projectedFields = map[string]verdict{"ConfigMap": keep, "Secret": keep, "DownwardAPI": keep, "ServiceAccountToken": refuse(whyToken)}

// pick returns a copy of a struct with the fields that are kept. It returns a *Refusal for the
// first field that is refused; otherwise is the verdict on those without one.
func pick[T any](path string, from T, verdicts map[string]verdict, otherwise verdict) (kept T, err error) {
	all, into := reflect.ValueOf(from), reflect.ValueOf(&kept).Elem()
	for i := range all.NumField() {
		if all.Field(i).IsZero() {
			continue
		}
		field := all.Type().Field(i)
		v, known := verdicts[field.Name]
		if !known {
			v = otherwise
		}
		switch {
		case v.keep:
			into.Field(i).Set(all.Field(i))
		case v.why != "":
			return kept, &Refusal{path + "." + jsonName(field), v.why}
		}
	}
	return kept, nil
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// maxContainers is the maximum number of containers of a pod, which bounds its status.
const maxContainers = 32

// allowed returns a copy of a spec with the fields that a twin may have, or a *Refusal.
func allowed(from *corev1.PodSpec) (*corev1.PodSpec, error) {
	spec, err := pick("spec", *from.DeepCopy(), specFields, refuse(whyUnknown))
	if err != nil {
		return nil, err
	}
	if n := len(spec.InitContainers) + len(spec.Containers); n > maxContainers {
		return nil, &Refusal{"spec.containers", fmt.Sprintf("%d containers are too many; use at most %d", n, maxContainers)}
	}
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"spec.initContainers", spec.InitContainers}, {"spec.containers", spec.Containers}} {
		for i := range list.containers {
			c, path := &list.containers[i], fmt.Sprintf("%s[%d]", list.field, i)
			if *c, err = pick(path, *c, containerFields, refuse(whyUnknown)); err != nil {
				return nil, err
			}
			if err := checkContainer(path, c); err != nil {
				return nil, err
			}
		}
	}
	for i := range spec.Volumes {
		if err := checkVolume(fmt.Sprintf("spec.volumes[%d]", i), &spec.Volumes[i]); err != nil {
			return nil, err
		}
	}
	if spec.SecurityContext != nil {
		_, err = pick("spec.securityContext", *spec.SecurityContext, podSecurityFields, refuse(whyUnknown))
	}
	return &spec, err
}

func checkContainer(path string, c *corev1.Container) error {
	if s := c.SecurityContext; s != nil {
		if _, err := pick(path+".securityContext", *s, securityFields, refuse(whyUnknown)); err != nil {
			return err
		}
		if s.Privileged != nil && *s.Privileged {
			return &Refusal{path + ".securityContext.privileged", whyHost}
		}
	}
	if len(c.Resources.Claims) > 0 {
		return &Refusal{path + ".resources.claims", whyClaim}
	}
	for i, p := range c.Ports {
		if p.HostPort != 0 || p.HostIP != "" {
			return &Refusal{fmt.Sprintf("%s.ports[%d].hostPort", path, i), whyHost}
		}
	}
	for i, e := range c.Env {
		if e.ValueFrom != nil {
			if _, err := pick(fmt.Sprintf("%s.env[%d].valueFrom", path, i), *e.ValueFrom, envSourceFields, refuse(whyUnknown)); err != nil {
				return err
			}
		}
	}
	for i, from := range c.EnvFrom {
		if _, err := pick(fmt.Sprintf("%s.envFrom[%d]", path, i), from, envFromFields, refuse(whyUnknown)); err != nil {
			return err
		}
	}
	for name, probe := range map[string]*corev1.Probe{"livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe, "startupProbe": c.StartupProbe} {
		if probe != nil && (probe.HTTPGet != nil && probe.HTTPGet.Host != "" || probe.TCPSocket != nil && probe.TCPSocket.Host != "") {
			return &Refusal{path + "." + name, whyAddress} // the provider's kubelet would send requests there
		}
	}
	if c.Lifecycle != nil {
		for name, hook := range map[string]*corev1.LifecycleHandler{"postStart": c.Lifecycle.PostStart, "preStop": c.Lifecycle.PreStop} {
			if hook != nil && (hook.HTTPGet != nil && hook.HTTPGet.Host != "" || hook.TCPSocket != nil && hook.TCPSocket.Host != "") {
				return &Refusal{path + ".lifecycle." + name, whyAddress}
			}
		}
	}
	return nil
}

func checkVolume(path string, v *corev1.Volume) error {
	if _, err := pick(path, v.VolumeSource, volumeFields, refuse(whyVolume)); err != nil {
		return err
	}
	if v.DownwardAPI != nil {
		return checkItems(path+".downwardAPI", v.DownwardAPI.Items)
	}
	if v.Projected == nil {
		return nil
	}
	for i, s := range v.Projected.Sources {
		at := fmt.Sprintf("%s.projected.sources[%d]", path, i)
		if _, err := pick(at, s, projectedFields, refuse(whyVolume)); err != nil {
			return err
		}
		if s.DownwardAPI == nil {
			continue
		}
		if err := checkItems(at+".downwardAPI", s.DownwardAPI.Items); err != nil {
			return err
		}
	}
	return nil
}

func checkItems(path string, items []corev1.DownwardAPIVolumeFile) error {
	for i, item := range items {
		if item.FieldRef != nil && strings.HasPrefix(item.FieldRef.FieldPath, "metadata.annotations") {
			return &Refusal{fmt.Sprintf("%s.items[%d]", path, i), whyMetadata}
		}
	}
	return nil
}

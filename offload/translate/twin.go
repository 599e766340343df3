package translate

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// domain is that of Strait's own labels, which no pod brings along.
const domain = "strait.dev/"

// Labels of records and twins.
const (
	PeeringLabel = domain + "peering"
	OriginLabel  = domain + "origin-uid" // UID of the pod in the consumer
)

// TemplateAnnotation is the hash of the template that a record stores, or that a twin has.
const TemplateAnnotation = domain + "template"

// tokenVolume is the prefix of the volume with a token that admission adds to each pod.
const tokenVolume = "kube-api-access-"

// Node is the virtual node as its pods see it.
type Node struct {
	Name      string
	Addresses []string // first the one of the primary family
}

// Template returns what the provider gets of a pod, or a *Refusal. Values of the environment
// that would be those of the twin, and wrong for the pod, become literal.
func Template(pod *corev1.Pod, node Node) (*corev1.PodTemplateSpec, error) {
	from := pod.DeepCopy()
	withoutToken(&from.Spec)
	spec, err := allowed(&from.Spec)
	if err != nil {
		return nil, err
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			literal(containers[i].Env, pod, node)
		}
	}
	t := &corev1.PodTemplateSpec{Spec: *spec}
	for key, value := range pod.Labels {
		if !strings.HasPrefix(key, domain) {
			if t.Labels == nil {
				t.Labels = make(map[string]string)
			}
			t.Labels[key] = value
		}
	}
	return t, nil
}

// withoutToken removes the token that admission added, and where it is mounted.
func withoutToken(spec *corev1.PodSpec) {
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		return strings.HasPrefix(v.Name, tokenVolume) && v.Projected != nil
	})
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1.VolumeMount) bool {
				return strings.HasPrefix(m.Name, tokenVolume)
			})
		}
	}
}

// literal sets the variables that refer to what differs in the twin. status.podIP is not among
// them: it is the address that the containers themselves have.
func literal(env []corev1.EnvVar, pod *corev1.Pod, node Node) {
	for i := range env {
		if env[i].ValueFrom == nil || env[i].ValueFrom.FieldRef == nil {
			continue
		}
		var value string
		switch path := env[i].ValueFrom.FieldRef.FieldPath; path {
		case "metadata.namespace":
			value = pod.Namespace
		case "metadata.uid":
			value = string(pod.UID)
		case "spec.nodeName":
			value = node.Name
		case "spec.serviceAccountName":
			value = pod.Spec.ServiceAccountName
		case "status.hostIP":
			value = strings.Join(node.Addresses[:min(len(node.Addresses), 1)], "")
		case "status.hostIPs":
			value = strings.Join(node.Addresses, ",")
		default:
			key, quoted := strings.CutPrefix(path, "metadata.annotations['")
			if !quoted {
				continue
			}
			value = pod.Annotations[strings.TrimSuffix(key, "']")]
		}
		// Kubernetes expands $(NAME) in a literal value, and not in the value of a field.
		env[i].Value, env[i].ValueFrom = strings.ReplaceAll(value, "$", "$$"), nil
	}
}

// Judge returns a *Refusal for a template that Template cannot have produced.
func Judge(t *corev1.PodTemplateSpec) error {
	spec, err := allowed(&t.Spec)
	if err != nil {
		return err
	}
	for field, v := range specFields {
		if v == drop && !reflect.ValueOf(t.Spec).FieldByName(field).IsZero() {
			f, _ := reflect.TypeFor[corev1.PodSpec]().FieldByName(field)
			return &Refusal{"spec." + jsonName(f), "the provider decides this for itself"}
		}
	}
	for key := range t.Labels {
		if strings.HasPrefix(key, domain) {
			return &Refusal{"metadata.labels", strconv.Quote(key) + " is a label of Strait"}
		}
	}
	bare := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: t.Labels}, Spec: *spec}
	if !reflect.DeepEqual(bare, t) {
		return &Refusal{"metadata", "a template has labels, and nothing else"}
	}
	return nil
}

// Twin returns the twin of a record: a pod with its name, which is deleted with it.
func Twin(record *corev1.PodTemplate) *corev1.Pod {
	yes, no := true, false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: record.Namespace, Name: record.Name,
			Labels: maps.Clone(record.Template.Labels),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "PodTemplate", Name: record.Name, UID: record.UID, Controller: &yes,
			}},
		},
		Spec: *record.Template.Spec.DeepCopy(),
	}
	if pod.Labels == nil {
		pod.Labels = make(map[string]string)
	}
	for _, key := range []string{PeeringLabel, OriginLabel} {
		pod.Labels[key] = record.Labels[key]
	}
	if hash := record.Annotations[TemplateAnnotation]; hash != "" {
		pod.Annotations = map[string]string{TemplateAnnotation: hash}
	}
	pod.Spec.AutomountServiceAccountToken = &no
	return pod
}

// ChangeRecord gives a record what may change in a template while a pod runs: labels, images, and
// the deadline. hash is that of the new template.
func ChangeRecord(record *corev1.PodTemplate, to *corev1.PodTemplateSpec, hash string) {
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, TemplateAnnotation, hash)
	record.Template.Labels = maps.Clone(to.Labels)
	change(&record.Template.Spec, &to.Spec)
}

// ChangeTwin gives a twin what may have changed in its record.
func ChangeTwin(twin *corev1.Pod, record *corev1.PodTemplate) {
	to := Twin(record)
	metav1.SetMetaDataAnnotation(&twin.ObjectMeta, TemplateAnnotation, to.Annotations[TemplateAnnotation])
	twin.Labels = to.Labels
	change(&twin.Spec, &to.Spec)
}

func change(spec, to *corev1.PodSpec) {
	spec.ActiveDeadlineSeconds = to.ActiveDeadlineSeconds
	for _, of := range []struct{ is, to []corev1.Container }{{spec.InitContainers, to.InitContainers}, {spec.Containers, to.Containers}} {
		for i := range of.is {
			if j := slices.IndexFunc(of.to, func(c corev1.Container) bool { return c.Name == of.is[i].Name }); j >= 0 {
				of.is[i].Image = of.to[j].Image
			}
		}
	}
}

// RestartsAlways reports whether a lost twin of a pod is made again.
func RestartsAlways(spec *corev1.PodSpec) bool {
	return spec.RestartPolicy == corev1.RestartPolicyAlways || spec.RestartPolicy == ""
}

// clip truncates a text of an untrusted source.
func clip(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// HasContainer reports whether a pod has a container of its own, also one for its start.
func HasContainer(spec *corev1.PodSpec, name string) bool {
	named := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(spec.Containers, named) || slices.ContainsFunc(spec.InitContainers, named)
}

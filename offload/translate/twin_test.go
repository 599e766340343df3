package translate_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"strait.dev/strait/offload/translate"
)

var node = translate.Node{Name: "strait-b", Addresses: []string{"10.0.1.9", "fd00:10::9"}}

// pod returns a pod as the API server of the consumer has it: with defaults, with what admission
// adds, and bound to the virtual node.
func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-0", UID: "u-1",
			Labels:      map[string]string{"app": "web", "strait.dev/peering": "forged"},
			Annotations: map[string]string{"team": "blue $(HOME)", "k8s.v1.cni.cncf.io/networks": "host"},
		},
		Spec: corev1.PodSpec{
			NodeName: "strait-b", NodeSelector: map[string]string{"strait.dev/peering": "b"}, RuntimeClassName: new("strait-b"),
			SchedulerName: "default-scheduler", Priority: new(int32(0)), PreemptionPolicy: new(corev1.PreemptLowerPriority),
			ServiceAccountName: "web", DeprecatedServiceAccount: "web", EnableServiceLinks: new(true),
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, TerminationGracePeriodSeconds: new(int64(30)),
			Tolerations:     []corev1.Toleration{{Key: "strait.dev/remote", Operator: corev1.TolerationOpExists}},
			ReadinessGates:  []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
			Volumes: []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}},
			},
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example/web:1",
				VolumeMounts:    []corev1.VolumeMount{{Name: "scratch", MountPath: "/tmp"}, {Name: "kube-api-access-x7k2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
				Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				ReadinessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}},
				Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)},
				Env: []corev1.EnvVar{
					field("NAMESPACE", "metadata.namespace"), field("UID", "metadata.uid"), field("NODE", "spec.nodeName"),
					field("ACCOUNT", "spec.serviceAccountName"), field("HOST", "status.hostIP"), field("HOSTS", "status.hostIPs"),
					field("TEAM", "metadata.annotations['team']"), field("IP", "status.podIP"), field("NAME", "metadata.name"),
				},
			}},
		},
	}
}

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

func TestATemplateHasWhatTheProviderNeedsAndNothingOfTheConsumersNode(t *testing.T) {
	t.Parallel()
	p := pod()
	before := p.DeepCopy()
	got, err := translate.Template(p, node)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p, before) {
		t.Error("the pod was changed")
	}
	want := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, TerminationGracePeriodSeconds: new(int64(30)),
			EnableServiceLinks: new(true), SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
			Volumes:    before.Spec.Volumes[:1],
			Containers: before.DeepCopy().Spec.Containers,
		},
	}
	c := &want.Spec.Containers[0]
	c.VolumeMounts = c.VolumeMounts[:1]
	c.Env = []corev1.EnvVar{
		{Name: "NAMESPACE", Value: "shop"}, {Name: "UID", Value: "u-1"}, {Name: "NODE", Value: "strait-b"}, {Name: "ACCOUNT", Value: "web"},
		{Name: "HOST", Value: "10.0.1.9"}, {Name: "HOSTS", Value: "10.0.1.9,fd00:10::9"}, {Name: "TEAM", Value: "blue $$(HOME)"},
		field("IP", "status.podIP"), field("NAME", "metadata.name"),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := translate.Judge(got); err != nil {
		t.Errorf("the provider refuses it: %v", err)
	}
}

// refusals are changes of a spec that no twin may have, by the field that the refusal names.
var refusals = map[string]func(s *corev1.PodSpec){
	"spec.hostNetwork":    func(s *corev1.PodSpec) { s.HostNetwork = true },
	"spec.hostPID":        func(s *corev1.PodSpec) { s.HostPID = true },
	"spec.hostIPC":        func(s *corev1.PodSpec) { s.HostIPC = true },
	"spec.resourceClaims": func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} },
	"spec.containers: 33 containers are too many": func(s *corev1.PodSpec) {
		s.Containers = make([]corev1.Container, 33)
	},
	"spec.containers[0].volumeDevices":              func(s *corev1.PodSpec) { s.Containers[0].VolumeDevices = []corev1.VolumeDevice{{}} },
	"spec.containers[0].ports[0].hostPort":          func(s *corev1.PodSpec) { s.Containers[0].Ports[0].HostPort = 80 },
	"spec.containers[0].resources.claims":           func(s *corev1.PodSpec) { s.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} },
	"spec.containers[0].securityContext.privileged": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Privileged = new(true) },
	"spec.containers[0].securityContext.procMount":  func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.ProcMount = new(corev1.UnmaskedProcMount) },
	"spec.containers[0].env[0].valueFrom.fileKeyRef": func(s *corev1.PodSpec) {
		s.Containers[0].Env[0].ValueFrom = &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: "p", Key: "k"}}
	},
	"spec.containers[0].readinessProbe": func(s *corev1.PodSpec) { s.Containers[0].ReadinessProbe.HTTPGet.Host = "169.254.169.254" },
	"spec.containers[0].lifecycle.preStop": func(s *corev1.PodSpec) {
		s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "10.0.0.1"}}}
	},
	"spec.initContainers[0].volumeDevices": func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{{VolumeDevices: []corev1.VolumeDevice{{}}}}
	},
	"spec.securityContext.windowsOptions": func(s *corev1.PodSpec) {
		s.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}
	},
	"spec.volumes[0].hostPath": func(s *corev1.PodSpec) {
		s.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	},
	"spec.volumes[0].persistentVolumeClaim": func(s *corev1.PodSpec) {
		s.Volumes[0].VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	},
	"spec.volumes[0].csi": func(s *corev1.PodSpec) {
		s.Volumes[0].VolumeSource = corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}
	},
	"spec.volumes[0].projected.sources[0]": func(s *corev1.PodSpec) {
		s.Volumes[0].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}}
	},
	"spec.volumes[0].downwardAPI.items[0]": func(s *corev1.PodSpec) {
		s.Volumes[0].VolumeSource = corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}}}}}
	},
}

// The borrower refuses these, and the lender does so too, without trust in the borrower.
func TestFieldsThatATwinMayNotHaveAreRefusedOnBothSides(t *testing.T) {
	t.Parallel()
	for field, change := range refusals {
		p := pod()
		change(&p.Spec)
		var refusal *translate.Refusal
		if _, err := translate.Template(p, node); !errors.As(err, &refusal) || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("the borrower on %s: %v", field, err)
		}
		forged := &corev1.PodTemplateSpec{Spec: *pod().Spec.DeepCopy()}
		forged.Spec.Volumes = forged.Spec.Volumes[:1]
		change(&forged.Spec)
		if err := translate.Judge(forged); !errors.As(err, &refusal) || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("the lender on %s: %v", field, err)
		}
	}
}

func TestTheLenderRefusesWhatTheProviderDecides(t *testing.T) {
	t.Parallel()
	made, err := translate.Template(pod(), node)
	if err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(t *corev1.PodTemplateSpec){
		"spec.nodeName":                func(t *corev1.PodTemplateSpec) { t.Spec.NodeName = "control-plane" },
		"spec.nodeSelector":            func(t *corev1.PodTemplateSpec) { t.Spec.NodeSelector = map[string]string{"a": "b"} },
		"spec.tolerations":             func(t *corev1.PodTemplateSpec) { t.Spec.Tolerations = []corev1.Toleration{{}} },
		"spec.priorityClassName":       func(t *corev1.PodTemplateSpec) { t.Spec.PriorityClassName = "system-node-critical" },
		"spec.serviceAccountName":      func(t *corev1.PodTemplateSpec) { t.Spec.ServiceAccountName = "admin" },
		"spec.automountServiceAccount": func(t *corev1.PodTemplateSpec) { t.Spec.AutomountServiceAccountToken = new(true) },
		"spec.runtimeClassName":        func(t *corev1.PodTemplateSpec) { t.Spec.RuntimeClassName = new("untrusted") },
		`metadata.labels: "strait.dev`: func(t *corev1.PodTemplateSpec) { t.Labels["strait.dev/origin-uid"] = "u-2" },
		"metadata: a template has":     func(t *corev1.PodTemplateSpec) { t.Annotations = map[string]string{"a": "b"} },
	} {
		forged := made.DeepCopy()
		change(forged)
		if err := translate.Judge(forged); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestATwinBelongsToItsRecordAndHasNoToken(t *testing.T) {
	t.Parallel()
	made, err := translate.Template(pod(), node)
	if err != nil {
		t.Fatal(err)
	}
	record := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "r-1", Labels: map[string]string{"strait.dev/peering": "a", "strait.dev/origin-uid": "u-1"}},
		Template:   *made,
	}
	twin := translate.Twin(record)
	want := map[string]string{"app": "web", "strait.dev/peering": "a", "strait.dev/origin-uid": "u-1"}
	if !reflect.DeepEqual(twin.Labels, want) || len(record.Template.Labels) != 1 {
		t.Errorf("labels %v of the twin, %v of the record", twin.Labels, record.Template.Labels)
	}
	if o := metav1.GetControllerOf(twin); twin.Name != "web-0" || o == nil || o.UID != "r-1" || o.Kind != "PodTemplate" {
		t.Errorf("twin %s has owner %+v", twin.Name, o)
	}
	if a := twin.Spec.AutomountServiceAccountToken; a == nil || *a || twin.Spec.ServiceAccountName != "" {
		t.Errorf("the twin has a token of account %q", twin.Spec.ServiceAccountName)
	}
}

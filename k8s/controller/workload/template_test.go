package workload

import (
	"reflect"
	"strings"
	"testing"

	"strait.dev/strait/k8s/controller/values"
)

// fullTemplate asks for what a template may, and for what it may not.
const fullTemplate = `
metadata:
  annotations: {example.com/team: network}
  labels: {team: network, strait.dev/peering: other}
spec:
  serviceAccountName: other
  automountServiceAccountToken: false
  priorityClassName: system-cluster-critical
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{operator: Exists}]
  imagePullSecrets: [{name: pull}]
  securityContext: {runAsUser: 0}
  topologySpreadConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]
  terminationGracePeriodSeconds: 600
  containers:
  - name: sidecar
    image: registry.example/sidecar:v1
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  - name: gateway
    image: registry.example/mirror/strait:v2
    imagePullPolicy: Always
    command: [sh]
    args: [-c, "true"]
    securityContext: {privileged: true}
    env: [{name: HTTPS_PROXY, value: "proxy.example:3128"}, {name: STRAIT_PEERING, value: other}]
    resources: {requests: {cpu: "1"}, limits: {memory: 1Gi}}
    ports: [{containerPort: 9, name: discard}]
    volumeMounts: [{name: extra, mountPath: /etc/extra}, {name: extra, mountPath: /var/cache/strait}]
    livenessProbe: {exec: {command: ["true"]}}
  volumes: [{name: extra, emptyDir: {}}, {name: cache, hostPath: {path: /}}]
`

func TestAMistakeInATemplateIsNamed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"spec: {tolerate: all}", `unknown field "spec.tolerate"`},
		{"spec: {containers: [{name: gateway, img: x}]}", `unknown field "spec.containers[0].img"`},
		{"metadata: {}\nmetadata: {}", `already set`},
		{"apiVersion: v1\nkind: PodTemplate\ntemplate: {}", "write metadata and spec"},
		{"spec: {nodeSelector: [a]}", "nodeSelector"},
		{"spec: {containers: [{image: x}]}", "container 0 of the pod template has no name; Strait's container is named gateway"},
		{"spec: {containers: [{name: a}, {name: a}]}", "two containers of the template are named a"},
		{"spec: {initContainers: [{name: gateway}], containers: [{name: gateway}]}", "two containers of the template are named gateway"},
		{"\t", "not a pod template"},
	} {
		if _, err := values.ParseTemplate([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// For any template, Strait's own fields of the pod are set, and the result is
// deterministic.
func FuzzParseTemplate(f *testing.F) {
	f.Add([]byte(fullTemplate))
	f.Add([]byte("{}"))
	f.Add([]byte("spec: {containers: [{name: gateway, image: x}], initContainers: [{name: wait}]}"))
	f.Add([]byte("spec: {tolerate: all}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		template, err := values.ParseTemplate(text)
		if err != nil {
			return
		}
		g := Gateways{Namespace: "n", ServiceAccount: "a", Image: "i", Template: template}
		peering := wholePeering()
		made := StatefulSet(g, peering)
		if !reflect.DeepEqual(made, StatefulSet(g, peering)) {
			t.Error("made again, it is not the same")
		}
		checkOurs(t, made.Spec.Template)
	})
}

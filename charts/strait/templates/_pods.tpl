{{/*
Scheduling of the pods of a component, from its values. It takes the root and these
values.
*/}}
{{- define "strait.scheduling" -}}
{{- $root := index . 0 }}{{ $values := index . 1 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" }}
{{- with index $values $field }}
{{ $field }}:
{{- if kindIs "string" . }} {{ . }}{{ else }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The fields that decide on which nodes node helpers run. */}}
{{- define "strait.nodeScheduling" -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{ $field }}: {{ index $.Values.node $field | toJson }}
{{- end }}
{{- end }}

{{/* Not empty on OpenShift. */}}
{{- define "strait.openshift" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}yes{{ end }}
{{- end }}

{{/*
Pod security context that complies with Pod Security restricted. On OpenShift the cluster assigns the UID and refuses
others.
*/}}
{{- define "strait.restrictedPod" -}}
runAsNonRoot: true
{{- if not (include "strait.openshift" .) }}
runAsUser: 65534
runAsGroup: 65534
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Container security context that complies with Pod Security restricted. */}}
{{- define "strait.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The image of a container. */}}
{{- define "strait.container" -}}
image: {{ include "strait.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/*
Environment of a container. It takes the values of its component. GOMEMLIMIT makes Go release memory before the limit is
reached; without a limit, Kubernetes sets it to the memory of the node.
*/}}
{{- define "strait.env" -}}
- name: GOMEMLIMIT
  valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: "1"}}
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What the kubelet asks a program that serves its health on the port named metrics. */}}
{{- define "strait.probes" -}}
# Two minutes, because a node that has just booted starts many pods at once.
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 2
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 2
{{- end }}

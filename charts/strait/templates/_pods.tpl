{{/*
Where and how pods of a component run, as its values say, with lines before and after. It takes the root and these
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

{{/* The security context of a pod that may run where Pod Security is restricted. */}}
{{- define "strait.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The same for a container. */}}
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
The environment of a container of ours. It takes the values of its component. Go gives memory back before the limit is
reached; where there is none, Kubernetes says what the node has.
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
# It may start on a node that is busy starting everything: two minutes.
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

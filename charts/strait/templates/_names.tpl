{{/* The namespaces other than that of the release. Their names are fixed, so that commands find them. */}}
{{- define "strait.gateways" -}}strait-gateways{{- end }}
{{- define "strait.nodes" -}}strait-nodes{{- end }}

{{/* Selector labels of pods; immutable. It takes a component. */}}
{{- define "strait.selector" -}}
app.kubernetes.io/name: strait
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/*
The labels of a pod: nothing of the chart's version, because another template restarts the pods. It takes the root and a
component.
*/}}
{{- define "strait.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "strait.selector" (index . 1) }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/part-of: strait
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- end }}

{{/* The labels of an object. It takes the root and a component. */}}
{{- define "strait.labels" -}}
{{- $root := index . 0 -}}
{{ include "strait.selector" (index . 1) }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ include "strait.labelValue" $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: strait
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ include "strait.labelValue" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) }}
{{- end }}

{{/* A version as the value of a label, which may have no + and at most 63 bytes. */}}
{{- define "strait.labelValue" -}}
{{- . | replace "+" "_" | trunc 63 | trimAll "-_." }}
{{- end }}

{{/* The image of all programs. A digest takes precedence over a tag. */}}
{{- define "strait.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

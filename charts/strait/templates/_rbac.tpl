{{/*
A service account with the roles of a file in files/rbac, which has all permissions of a program. A Role without a
namespace gets that of the account. It takes a dict: root, program (of the account strait-PROGRAM and
of the file), namespace, and annotations, which may be left out. Roles named in without are left out.
*/}}
{{- define "strait.account" -}}
{{- $account := printf "strait-%s" .program }}{{ $namespace := .namespace }}
{{- $metadata := dict "labels" (include "strait.labels" (list .root .program) | fromYaml) }}
{{- with .annotations }}{{ $_ := set $metadata "annotations" . }}{{ end }}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- toYaml (merge (dict "name" $account "namespace" $namespace) $metadata) | nindent 2 }}
automountServiceAccountToken: false # pods that need the token mount it explicitly
{{- range $text := splitList "\n---\n" (.root.Files.Get (printf "files/rbac/%s.yaml" .program)) }}
{{- $role := fromYaml $text }}
{{- if not (has $role.metadata.name ($.without | default list)) }}
{{- $own := dict "name" $role.metadata.name }}
{{- if eq $role.kind "Role" }}{{ $_ := set $own "namespace" ($role.metadata.namespace | default $namespace) }}{{ end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}
metadata:
  {{- toYaml (merge $own $metadata) | nindent 2 }}
rules:
  {{- toYaml $role.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}Binding
metadata:
  {{- toYaml (merge (dict) $own $metadata) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $role.kind }}
  name: {{ $role.metadata.name }}
subjects:
- kind: ServiceAccount
  name: {{ $account }}
  namespace: {{ $namespace }}
{{- end }}
{{- end }}
{{- end }}

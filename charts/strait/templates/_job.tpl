{{/*
A Job that runs one command with its own service account, as a Helm hook. Account, roles and Job exist only while it
runs; a failed Job stays for diagnosis. It takes a dict: root, program,
hook, args, seconds.
*/}}
{{- define "strait.hook" -}}
{{- $about := dict "helm.sh/hook" .hook "helm.sh/hook-weight" "-1" "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" -}}
{{ include "strait.account" (dict "root" .root "program" .program "namespace" .root.Release.Namespace "annotations" $about) }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: strait-{{ .program }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "strait.labels" (list .root .program) | nindent 4 }}
  annotations:
    {{- toYaml (merge (dict "helm.sh/hook-weight" "0") $about) | nindent 4 }}
spec:
  backoffLimit: 0
  activeDeadlineSeconds: {{ .seconds }}
  template:
    metadata:
      labels:
        {{- include "strait.podLabels" (list .root .program) | nindent 8 }}
    spec:
      restartPolicy: Never
      serviceAccountName: strait-{{ .program }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      securityContext:
        {{- include "strait.restrictedPod" .root | nindent 8 }}
      {{- with include "strait.scheduling" (list .root .root.Values.controller) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      containers:
      - name: {{ .program }}
        {{- include "strait.container" .root | nindent 8 }}
        args:
          {{- toYaml .args | nindent 10 }}
        {{- with .root.Values.jobs.resources | default .root.Values.controller.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          {{- include "strait.restrictedContainer" . | nindent 10 }}
{{- end }}

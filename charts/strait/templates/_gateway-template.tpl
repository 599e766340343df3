{{/* The pod template of gateways from the values; the controller merges the required fields over it. */}}
{{- define "strait.gatewayTemplate" -}}
{{- with .Values.gateway -}}
metadata: # nothing of the chart's version: another one would restart all gateways
  labels:
    {{- toYaml .labels | nindent 4 }}
  annotations:
    {{- toYaml .annotations | nindent 4 }}
spec:
  {{- with include "strait.scheduling" (list $ .) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
  - name: gateway
    {{- include "strait.container" $ | nindent 4 }}
    {{- with .resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .extraEnv }}
    env:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- end }}

{{/* The chart's name, and the full name of its objects; room is left for endings such as "-decision". */}}
{{- define "sallyport.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "sallyport.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "sallyport.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/name: {{ include "sallyport.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{ include "sallyport.podLabels" . }}
{{- end -}}

{{/* Of pods, too: the chart's version is not among them, so that a new one alone restarts nobody. */}}
{{- define "sallyport.podLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Pods of the gateway; those of the migration are others. */}}
{{- define "sallyport.selector" -}}
app.kubernetes.io/name: {{ include "sallyport.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "sallyport.migrationsSelector" -}}
app.kubernetes.io/name: {{ include "sallyport.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: migrations
{{- end -}}

{{- define "sallyport.serviceAccountName" -}}
{{- default (ternary (include "sallyport.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "sallyport.image" -}}
{{- $named := printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- ternary (printf "%s@%s" .Values.image.repository .Values.image.digest) $named (ne .Values.image.digest "") -}}
{{- end -}}

{{- define "sallyport.policiesConfigMap" -}}
{{- default (printf "%s-policies" (include "sallyport.fullname" .)) .Values.policies.existingConfigMap -}}
{{- end -}}

{{/* Pod Security Standard "restricted", written out so that no namespace's default matters. */}}
{{- define "sallyport.podSecurity" -}}
automountServiceAccountToken: false
# Kubernetes would set SALLYPORT_PORT for a Service of that name, to something that is no port.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  {{- with .Values.runAsUser }}
  runAsUser: {{ int . }}
  {{- end }}
  {{- with .Values.runAsGroup }}
  runAsGroup: {{ int . }}
  {{- end }}
  {{- with .Values.fsGroup }}
  fsGroup: {{ int . }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "sallyport.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  privileged: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: { drop: [ALL] }
  seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{/* Both spans of the drain, and ten seconds for what comes before and after. */}}
{{- define "sallyport.graceSeconds" -}}
{{- add (ceil (divf (addf .Values.config.drain.delayMs .Values.config.drain.timeoutMs) 1000)) 10 -}}
{{- end -}}

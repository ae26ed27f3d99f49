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

{{- define "sallyport.checksSelector" -}}
app.kubernetes.io/name: {{ include "sallyport.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: checks
{{- end -}}

{{- define "sallyport.serviceAccountName" -}}
{{- default (ternary (include "sallyport.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "sallyport.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with .Values.image.registry }}{{ $repository = printf "%s/%s" (trimSuffix "/" .) $repository }}{{ end -}}
{{- $named := printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- ternary (printf "%s@%s" $repository .Values.image.digest) $named (ne .Values.image.digest "") -}}
{{- end -}}

{{/* "annotations:" of an object's metadata: those of "own", over commonAnnotations; nothing where there are none. */}}
{{- define "sallyport.annotations" -}}
{{- with mergeOverwrite (deepCopy .root.Values.commonAnnotations) (deepCopy (default dict .own)) -}}
annotations: {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Annotations of a hook of installs and upgrades, by its weight. */}}
{{- define "sallyport.hook" -}}
{{- $hook := dict
  "helm.sh/hook" "pre-install,pre-upgrade"
  "helm.sh/hook-weight" .weight
  "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" -}}
{{- include "sallyport.annotations" (dict "root" .root "own" $hook) -}}
{{- end -}}

{{/* Where a pod runs, and how it finds names; jobs too. */}}
{{- define "sallyport.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Volumes that the configuration refers to; each pod that reads it has them. */}}
{{- define "sallyport.volumeMounts" -}}
- { name: config, mountPath: /etc/sallyport/config, readOnly: true }
- { name: policies, mountPath: /etc/sallyport/policies, readOnly: true }
- { name: keys, mountPath: /etc/sallyport/secrets/keys, readOnly: true }
- { name: database, mountPath: /etc/sallyport/secrets/database, readOnly: true }
{{- if .Values.redis.secretName }}
- { name: redis, mountPath: /etc/sallyport/secrets/redis, readOnly: true }
{{- end }}
{{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 0 }}{{ end }}
{{- end -}}

{{- define "sallyport.volumes" -}}
- name: config
  configMap: { name: {{ .config }} }
- name: policies
  configMap: { name: {{ .policies }} }
{{- with .root.Values }}
- name: keys
  secret:
    secretName: {{ required "set signingKeys.secretName: a Secret with the key that signs" .signingKeys.secretName }}
    defaultMode: 0440
    items:
      {{- range .signingKeys.files }}
      - { key: {{ . }}, path: {{ . }} }
      {{- end }}
- name: database
  secret:
    secretName: {{ required "set database.secretName: a Secret with the connection string" .database.secretName }}
    defaultMode: 0440
    items: [{ key: {{ .database.key }}, path: url }]
{{- if .redis.secretName }}
- name: redis
  secret:
    secretName: {{ .redis.secretName }}
    defaultMode: 0440
    items: [{ key: {{ .redis.key }}, path: url }]
{{- end }}
{{- with .extraVolumes }}{{ toYaml . | nindent 0 }}{{ end }}
{{- end }}
{{- end -}}

{{- define "sallyport.policiesConfigMap" -}}
{{- default (printf "%s-policies" (include "sallyport.fullname" .)) .Values.policies.existingConfigMap -}}
{{- end -}}

{{/* Pod Security Standard "restricted", written out so that no namespace's default matters. */}}
{{- define "sallyport.podSecurity" -}}
automountServiceAccountToken: false
# Kubernetes would set SALLYPORT_PORT for a Service of that name, to a text that is not a port.
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

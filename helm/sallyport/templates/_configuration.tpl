{{/* gateway.yaml: what values say, and over it what the chart mounts and opens. */}}
{{- define "sallyport.configuration" -}}
{{- $bind := .Values.bindAddress -}}
{{- $listeners := dict
  "public" (dict "host" $bind "port" (int .Values.ports.public))
  "decision" (dict "host" (ternary $bind "127.0.0.1" .Values.decision.enabled) "port" (int .Values.ports.decision))
  "admin" (dict "host" $bind "port" (int .Values.ports.admin)) -}}
{{- if .Values.signals.enabled -}}
{{- $_ := set $listeners "signals" (dict "host" $bind "port" (int .Values.ports.signals)) -}}
{{- end -}}
{{- $keys := list -}}
{{- range .Values.signingKeys.files -}}
{{- $keys = append $keys (printf "file:/etc/sallyport/secrets/keys/%s" .) -}}
{{- end -}}
{{- $owned := dict
  "listeners" $listeners
  "database" (dict "url" "file:/etc/sallyport/secrets/database/url")
  "identity" (dict "keys" $keys)
  "policies" (dict "directory" "/etc/sallyport/policies") -}}
{{- if .Values.redis.secretName -}}
{{- $_ := set $owned "redis" (dict "url" "file:/etc/sallyport/secrets/redis/url") -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.config) $owned | toYaml -}}
{{- end -}}

{{/* A migration needs the database alone: the rest stands there because the file must be whole. */}}
{{- define "sallyport.migrationsConfiguration" -}}
database: { url: "file:/etc/sallyport/secrets/database/url" }
issuers: [{ issuer: "https://unused.invalid", audience: unused }]
identity: { keys: [unused] }
upstreams: {}
policies: { directory: "/etc/sallyport/policies" }
{{- end -}}

{{/* The ports of a list of URLs, sorted, as a JSON list in "ports"; given ports win. */}}
{{- define "sallyport.portsOf" -}}
{{- $ports := .given -}}
{{- if not $ports -}}
{{- range .urls -}}
{{- if contains "${" . -}}
{{- fail (printf "networkPolicy.egress.%s.ports: give them, since %q tells no port before the pod runs" $.name .) -}}
{{- end -}}
{{- $port := regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" | default (ternary "443" "80" (hasPrefix "https:" .)) -}}
{{- $ports = append $ports (int $port) -}}
{{- end -}}
{{- end -}}
{{- $whole := list -}}
{{- range $ports }}{{ $whole = append $whole (int .) }}{{ end -}}
{{- dict "ports" ($whole | uniq) | toJson -}}
{{- end -}}

{{/* The policies that stand among the values, file by file. */}}
{{- define "sallyport.policyFiles" -}}
{{- if not .Values.policies.files -}}
{{- fail "the gateway refuses every request without policies: set policies.files or policies.existingConfigMap" -}}
{{- end -}}
{{- range $name, $content := .Values.policies.files }}
{{ $name }}: |
  {{- kindIs "string" $content | ternary $content (toYaml $content) | nindent 2 }}
{{- end }}
{{- end -}}

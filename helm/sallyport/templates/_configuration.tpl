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
{{- include "sallyport.refuseSecrets" (dict "at" "config" "node" .Values.config) -}}
{{- mergeOverwrite (deepCopy .Values.config) $owned | toYaml -}}
{{- end -}}

{{/*
Anyone who may read ConfigMaps reads the configuration. So a secret is ${VARIABLE} or file:PATH, and none stands in a URL. The
names are those of gateway.schema.json; "bearer" is also a switch, and may be a list.
*/}}
{{- define "sallyport.refuseSecrets" -}}
{{- $at := .at -}}
{{- if kindIs "map" .node -}}
{{- range $name, $child := .node -}}
{{- $place := printf "%s.%s" $at $name -}}
{{- if has $name (list "clientSecret" "bearer" "password") -}}
{{- range (kindIs "slice" $child | ternary $child (list $child)) -}}
{{- if not (or (kindIs "bool" .) (regexMatch "^(file:.+|[$][{][^{}]+[}])$" (toString .))) -}}
{{- fail (printf "%s: write it as ${VARIABLE} or file:PATH; a ConfigMap keeps no secret" $place) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "sallyport.refuseSecrets" (dict "at" $place "node" $child) -}}
{{- end -}}
{{- else if kindIs "slice" .node -}}
{{- range $index, $child := .node -}}
{{- include "sallyport.refuseSecrets" (dict "at" (printf "%s[%d]" $at $index) "node" $child) -}}
{{- end -}}
{{- else if kindIs "string" .node -}}
{{- /* Variables may hold any character. What is left before "@" is a user's name at most, with a variable behind it. */ -}}
{{- $user := regexReplaceAll "[$][{][^{}]*[}]" .node "$" | regexFind "://[^/?#\\s]*@" -}}
{{- if and $user (not (regexMatch "^://(?:[^:@$]*:)?[$]@$" $user)) -}}
{{- fail (printf "%s: the URL holds user information; write the password as ${VARIABLE}, or the whole as file:PATH" $at) -}}
{{- end -}}
{{- end -}}
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

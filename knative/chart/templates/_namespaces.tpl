{{- /* The namespaces that the release serves, as JSON: those that the value lists, or else its own. */ -}}
{{- define "sluice.namespaces" -}}
{{- $namespaces := list -}}
{{- if kindIs "string" .Values.namespaces -}}
{{- fail (printf "namespaces is %q, which is no list: write [%s]" .Values.namespaces .Values.namespaces) -}}
{{- end -}}
{{- range .Values.namespaces -}}
{{- if not (kindIs "string" .) -}}
{{- fail (printf "namespaces has %s, which is no text: put the name into quotes" (toJson .)) -}}
{{- else if gt (len .) 63 -}}
{{- fail (printf "namespaces has %q, which has %d characters: the name of a namespace has at most 63" . (len .)) -}}
{{- else if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" .) -}}
{{- fail (printf "namespaces has %q, which is no name of a namespace: such a name has lower-case letters, digits and dashes" .) -}}
{{- else if has . $namespaces -}}
{{- fail (printf "namespaces has %q twice: list each namespace once" .) -}}
{{- end -}}
{{- $namespaces = append $namespaces . -}}
{{- end -}}
{{- $namespaces | default (list .Release.Namespace) | toJson -}}
{{- end -}}

{{- /* The namespaces in which the account writes, as JSON: the served ones, and that of the release with the certificate. */ -}}
{{- define "sluice.writtenNamespaces" -}}
{{- append (include "sluice.namespaces" . | fromJsonArray) .Release.Namespace | uniq | toJson -}}
{{- end -}}

{{- /* The served namespaces as a list of the policies' language. */ -}}
{{- define "sluice.namespaceList" -}}
['{{ include "sluice.namespaces" . | fromJsonArray | join "', '" }}']
{{- end -}}

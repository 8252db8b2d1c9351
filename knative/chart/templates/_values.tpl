{{- /* The labels that users give to all objects, but for those by which Sluice knows its own. */ -}}
{{- define "sluice.commonLabels" -}}
{{- with (.Values.global | default dict).commonLabels -}}
{{- with omit . "app.kubernetes.io/name" "app.kubernetes.io/component" "grafana.com/inject-rollout-operator-ca" "grafana.com/namespace" "sluice.dev/review-key" -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /*
The labels of pods. Those of the selector always win: Sluice knows its own pods by them. Takes a list: the context, and the component.
*/ -}}
{{- define "sluice.podLabels" -}}
{{- $root := index . 0 -}}
{{- $own := dict "app.kubernetes.io/name" "sluice" "app.kubernetes.io/component" (index . 1) -}}
{{- $common := ($root.Values.global | default dict).commonLabels | default dict -}}
{{- mergeOverwrite (dict) $common ($root.Values.podLabels | default dict) $own | toYaml -}}
{{- end -}}

{{- /* The image. The placeholder has no registry, so that a release with it would wait for ever. */ -}}
{{- define "sluice.image" -}}
{{- if or (not .Values.image.repository) (hasPrefix "registry.invalid/" .Values.image.repository) -}}
{{- fail (printf "image.repository is %q, a placeholder that no registry has: build the image, push it, and set image.repository to its name" (.Values.image.repository | toString)) -}}
{{- end -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion | toString) | quote -}}
{{- end -}}

{{- /* The number of replicas, at least one. */ -}}
{{- define "sluice.replicas" -}}
{{- if lt (int .Values.replicas) 1 -}}
{{- fail "replicas is 0: while no replica answers, the webhooks deny every eviction and every downscale. Write 1 or more, or uninstall the release" -}}
{{- end -}}
{{- int .Values.replicas -}}
{{- end -}}

{{- /* The settings with which the chosen functions take our finalizers off all objects, as JSON; none where they put none there. */ -}}
{{- define "sluice.finalizerSettings" -}}
{{- $chosen := include "sluice.functions" . | fromJsonArray -}}
{{- $names := list -}}
{{- range (.Files.Get "files/functions.yaml" | fromYaml).functions -}}
{{- if has .name $chosen }}{{ $names = concat $names (.finalizerSettings | default list) }}{{ end -}}
{{- end -}}
{{- uniq $names | toJson -}}
{{- end -}}

{{- /* The settings that uninstall.prepare makes, by name, as JSON. A user who wants another value has to choose. */ -}}
{{- define "sluice.preparation" -}}
{{- $made := dict -}}
{{- if .Values.uninstall.prepare -}}
{{- range $name := include "sluice.finalizerSettings" . | fromJsonArray -}}
{{- $given := get ($.Values.settings | default dict) $name | default "" | toString | trim -}}
{{- if not (has $given (list "" "remove")) -}}
{{- fail (printf "uninstall.prepare is true, and settings.%s is %q: take that out, or write remove" $name $given) -}}
{{- end -}}
{{- range $.Values.extraEnv -}}
{{- if and (eq .name $name) (ne (.value | default "" | toString | trim) "remove") -}}
{{- fail (printf "uninstall.prepare is true, and extraEnv has %s: take that out" $name) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $made $name "remove" -}}
{{- end -}}
{{- end -}}
{{- toJson $made -}}
{{- end -}}

{{- /* What a user adds to the environment of the process: FUNCTION, NAMESPACE, the settings, and extraEnv, as a list. */ -}}
{{- define "sluice.environment" -}}
- name: FUNCTION
  value: {{ include "sluice.functions" . | fromJsonArray | join "," | quote }}
{{- if .Values.namespaces }}
- name: NAMESPACE
  value: {{ include "sluice.namespaces" . | fromJsonArray | join "," | quote }}
{{- end }}
{{- range $name, $value := mergeOverwrite (dict "STATUS_LISTEN" "127.0.0.1:8002") (.Values.settings | default dict) (include "sluice.preparation" . | fromJson) }}
{{- if not (kindIs "invalid" $value) }}
- name: {{ $name }}
  value: {{ (kindIs "string" $value) | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The failure policy of one webhook. Takes a list: the context, and the name of the webhook among the values. */ -}}
{{- define "sluice.failurePolicy" -}}
{{- $webhooks := (index . 0).Values.webhooks -}}
{{- get ($webhooks.failurePolicies | default dict) (index . 1) | default $webhooks.failurePolicy -}}
{{- end -}}

{{- /* The keys of the labels that Sluice may write on pods, as a list of the policies' language. Takes a list: the context, and the usual keys. */ -}}
{{- define "sluice.skipLabelKeys" -}}
{{- $settings := (index . 0).Values.settings | default dict -}}
{{- $keys := list -}}
{{- range $settings.SKIP_LABEL_KEYS | default (index . 1) | splitList "," }}{{ $keys = append $keys (printf "'%s'" (trim .)) }}{{ end -}}
[{{ join ", " $keys }}]
{{- end -}}

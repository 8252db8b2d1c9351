{{- /* Which functions the release serves: names in the order of the table, as JSON. */ -}}
{{- define "sluice.functions" -}}
{{- $data := .Files.Get "files/functions.yaml" | fromYaml -}}
{{- $names := list -}}
{{- range $data.functions }}{{ $names = append $names .name }}{{ end -}}
{{- $presets := keys $data.presets | sortAlpha -}}
{{- if not .Values.functions -}}
{{- fail (printf "functions is empty: write [rollout-operator], or others of the presets %s and the functions %s" (join ", " $presets) (join ", " $names)) -}}
{{- end -}}
{{- $wanted := $data.alwaysServed -}}
{{- range .Values.functions -}}
{{- if hasKey $data.presets . }}{{ $wanted = concat $wanted (index $data.presets .) }}
{{- else if has . $names }}{{ $wanted = append $wanted . }}
{{- else }}{{ fail (printf "functions has %q, which is none of the presets %s, nor of the functions %s" . (join ", " $presets) (join ", " $names)) }}
{{- end -}}
{{- end -}}
{{- $chosen := list -}}
{{- range $names }}{{ if has . $wanted }}{{ $chosen = append $chosen . }}{{ end }}{{ end -}}
{{- toJson $chosen -}}
{{- end -}}

{{- /*
The rules that the chosen functions need, as YAML, with one rule for each resource; an empty list if there are none. Takes a list:
the context, and one or several of `role`, `processRole`, `clusterRole` and `ownWebhooks`.
*/ -}}
{{- define "sluice.rules" -}}
{{- $root := index . 0 -}}
{{- $parts := rest . -}}
{{- $data := $root.Files.Get "files/functions.yaml" | fromYaml -}}
{{- $chosen := include "sluice.functions" $root | fromJsonArray -}}
{{- $rules := list -}}
{{- range $part := $parts -}}
{{- $rules = concat $rules (index $data.port $part) -}}
{{- range $data.functions -}}
{{- if has .name $chosen }}{{ $rules = concat $rules (index . $part) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $merged := dict -}}
{{- range include "sluice.withKinds" (list $root $rules) | fromJsonArray -}}
{{- $key := list .apiGroups .resources .resourceNames | toJson -}}
{{- $known := get $merged $key | default dict -}}
{{- $_ := set $merged $key (merge (dict "verbs" (concat ($known.verbs | default list) .verbs | uniq)) .) -}}
{{- end -}}
{{- $list := list -}}
{{- range $key, $rule := $merged }}{{ $list = append $list $rule }}{{ end -}}
{{- toYaml $list -}}
{{- end -}}

{{- /*
The rules for webhook configurations, as YAML: each names only what a chosen function answers. An empty list if none is chosen, because
a rule without names would be one for all webhook configurations of the cluster.
*/ -}}
{{- define "sluice.ownWebhooks" -}}
{{- $chosen := include "sluice.functions" . | fromJsonArray -}}
{{- $answered := list -}}
{{- range (.Files.Get "files/functions.yaml" | fromYaml).functions -}}
{{- if and .webhook (has .name $chosen) }}{{ $answered = append $answered .webhook }}{{ end -}}
{{- end -}}
{{- $list := list -}}
{{- range $rule := include "sluice.rules" (list . "ownWebhooks") | fromYamlArray -}}
{{- $names := list -}}
{{- range $name := .resourceNames -}}
{{- if has $name $answered -}}
{{- range include "sluice.namespaces" $ | fromJsonArray }}{{ $names = append $names (printf "%s-%s" $name .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $names }}{{ $list = append $list (merge (dict "resourceNames" $names) $rule) }}{{ end -}}
{{- end -}}
{{- toYaml $list -}}
{{- end -}}

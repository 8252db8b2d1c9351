{{- /* The kinds of one list, PLURAL.GROUP each, as JSON. Takes a list: the context, and `mirrored` or `owners`. */ -}}
{{- define "sluice.kinds" -}}
{{- $key := printf "kinds.%s" (index . 1) -}}
{{- $ofCluster := ((index . 0).Files.Get "files/functions.yaml" | fromYaml).ofCluster -}}
{{- $kinds := get (index . 0).Values.kinds (index . 1) | default list -}}
{{- range $kinds -}}
{{- if not (kindIs "string" .) -}}
{{- fail (printf "%s has %s, which is no text: write PLURAL.GROUP, as `kubectl get crd` lists a kind" $key (toJson .)) -}}
{{- else if contains "*" . -}}
{{- fail (printf "%s has %q, a wildcard: list each kind by itself, as `kubectl get crd` does" $key .) -}}
{{- else if not (regexMatch "^[a-z][a-z0-9-]*([.][a-z0-9][a-z0-9.-]*)?$" .) -}}
{{- fail (printf "%s has %q, which is not PLURAL.GROUP, as `kubectl get crd` lists a kind" $key .) -}}
{{- else if has . $ofCluster -}}
{{- fail (printf "%s has %q, a kind of no namespace: annotations name objects of their own one" $key .) -}}
{{- else if eq . "secrets" -}}
{{- fail (printf "%s has %q, which are credentials: no function may read those that users name" $key .) -}}
{{- end -}}
{{- end -}}
{{- uniq $kinds | toJson -}}
{{- end -}}

{{- /* The same without those that get no rights to that subresource. Takes a list: the context, the list, and LIST/SUBRESOURCE. */ -}}
{{- define "sluice.kindsBut" -}}
{{- $exceptGroups := ((index . 0).Files.Get "files/functions.yaml" | fromYaml).exceptGroups -}}
{{- $left := list -}}
{{- range $kind := include "sluice.kinds" . | fromJsonArray -}}
{{- $group := regexFind "[.].+$" $kind | trimPrefix "." -}}
{{- if not (has $group (get $exceptGroups (index $ 2) | default list)) }}{{ $left = append $left $kind }}{{ end -}}
{{- end -}}
{{- toJson $left -}}
{{- end -}}

{{- /*
Rules as JSON, with one rule for each kind of a list in place of each rule of the group `kinds`, whose resources begin with the name of
a list. Takes a list: the context, and rules of a Role or of a policy.
*/ -}}
{{- define "sluice.withKinds" -}}
{{- $root := index . 0 -}}
{{- $rules := list -}}
{{- range $rule := index . 1 -}}
{{- if ne (first $rule.apiGroups) "kinds" }}{{ $rules = append $rules $rule -}}
{{- else -}}
{{- range $resource := $rule.resources -}}
{{- $list := regexFind "^[a-z]+" $resource -}}
{{- range $kind := include "sluice.kindsBut" (list $root $list $resource) | fromJsonArray -}}
{{- $plural := regexFind "^[^.]+" $kind -}}
{{- $group := trimPrefix $plural $kind | trimPrefix "." -}}
{{- $own := dict "apiGroups" (list $group) "resources" (list (printf "%s%s" $plural (trimPrefix $list $resource))) -}}
{{- $rules = append $rules (merge $own $rule) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}

{{- /* What a policy matches, as YAML, with one rule for each API group. Takes a list: the context, and the name of the policy. */ -}}
{{- define "sluice.resourceRules" -}}
{{- $root := index . 0 -}}
{{- $data := $root.Files.Get "files/policies.yaml" | fromYaml -}}
{{- $byGroup := dict -}}
{{- range include "sluice.withKinds" (list $root (index $data.resourceRules (index . 1))) | fromJsonArray -}}
{{- $known := get $byGroup (first .apiGroups) | default dict -}}
{{- $resources := concat ($known.resources | default list) .resources | uniq | sortAlpha -}}
{{- $operations := concat ($known.operations | default list) .operations | uniq -}}
{{- $_ := set $byGroup (first .apiGroups) (merge (dict "resources" $resources "operations" $operations) .) -}}
{{- end -}}
{{- $rules := list -}}
{{- range $group, $rule := $byGroup }}{{ $rules = append $rules $rule }}{{ end -}}
{{- toYaml $rules -}}
{{- end -}}

{{- /* What each account may change of which objects, in the language of the policies. */ -}}
{{- define "sluice.changes" -}}
{{- $root := . -}}
{{- $accounts := list -}}
{{- range (.Files.Get "files/policies.yaml" | fromYaml).changes -}}
{{- $paths := dict -}}
{{- range $resource, $some := .changes -}}
{{- $names := list $resource -}}
{{- $list := regexFind "^(mirrored|owners)[.]kinds" $resource | trimSuffix ".kinds" -}}
{{- if $list -}}
{{- $names = list -}}
{{- range include "sluice.kindsBut" (list $root $list ($resource | replace ".kinds" "")) | fromJsonArray -}}
{{- $names = append $names (printf "%s%s" . (trimPrefix (printf "%s.kinds" $list) $resource)) -}}
{{- end -}}
{{- end -}}
{{- range $names }}{{ $_ := set $paths . (concat (get $paths . | default list) $some | uniq | sortAlpha) }}{{ end -}}
{{- end -}}
{{- $lines := list -}}
{{- range $resource, $some := $paths -}}
{{- $lines = append $lines (printf "    '%s': ['%s']" $resource (join "', '" $some)) -}}
{{- end -}}
{{- if $lines -}}
{{- $accounts = append $accounts (printf "  '%s': {\n%s\n  }" .account (join ",\n" $lines)) -}}
{{- end -}}
{{- end -}}
{{- printf "{\n%s\n}" (join ",\n" $accounts) -}}
{{- end -}}

/** The settings about marks: which annotation is one, and which kinds of objects may have it besides Nodes. */

import { unhealthy } from "../shared/annotations/fencing.ts";
import { ours } from "../shared/annotations/paths.ts";
import { parseLabelKeys } from "../shared/annotations/skip-labels.ts";
import type { Annotation } from "../shared/annotations/table.ts";
import { setting, valuesOf } from "../shared/base/settings.ts";
import type { Context } from "../shared/contract/context.ts";
import { type NamedKind, parseNamedKinds } from "../shared/reconcile/named-kinds.ts";

export const markSettings = {
  fenceMark: setting<string>({
    name: "FENCE_MARK",
    fallback: unhealthy.key,
    meaning: "the key of the annotation that marks a node: its value is the reason of the fence",
    grammar: `one key, such as example.com/broken; none of kubernetes.io, k8s.io or their subdomains, and of sluice.dev only ${unhealthy.key}`,
    parse: parseMarkKey,
  }),
  fenceMachineKinds: setting<readonly NamedKind[]>({
    name: "FENCE_MACHINE_KINDS",
    fallback: "",
    meaning: "kinds whose objects may have the mark for the Node in their status.nodeRef",
    grammar: "KIND.GROUP, more of them after commas, such as Machine.cluster.x-k8s.io",
    parse: parseNamedKinds,
  }),
} as const;

/** What Kubernetes or another part of Sluice writes is no mark: all nodes may have it, and the end of a fence would remove it. */
function parseMarkKey(text: string): string | undefined {
  const [key, ...more] = text.includes("*") ? [] : (parseLabelKeys(text) ?? []);
  if (key === undefined || more.length > 0) return undefined;
  return key.startsWith(ours) && key !== unhealthy.key ? undefined : key;
}

/** The annotation that is the mark in this process. */
export function markOf({ settings }: Pick<Context, "settings">): Annotation<string> {
  return { ...unhealthy, key: valuesOf(markSettings, settings).fenceMark };
}

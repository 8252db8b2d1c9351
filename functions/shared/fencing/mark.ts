/** Which annotation marks a node. */

import { unhealthy } from "../annotations/fencing.ts";
import { ours } from "../annotations/paths.ts";
import { parseLabelKeys } from "../annotations/skip-labels.ts";
import type { Annotation } from "../annotations/table.ts";
import { setting, valuesOf } from "../base/settings.ts";

export const fenceMark = setting<string>({
  name: "FENCE_MARK",
  fallback: unhealthy.key,
  meaning: "the key of the annotation that marks a node: its value is the reason of the fence",
  grammar: `one key, such as example.com/broken; none of kubernetes.io, k8s.io or their subdomains, and of sluice.dev only ${unhealthy.key}`,
  parse: parseMarkKey,
});

/** What Kubernetes or another part of Sluice writes is no mark: all nodes may have it, and the end of a fence would remove it. */
function parseMarkKey(text: string): string | undefined {
  const [key, ...more] = text.includes("*") ? [] : (parseLabelKeys(text) ?? []);
  if (key === undefined || more.length > 0) return undefined;
  return key.startsWith(ours) && key !== unhealthy.key ? undefined : key;
}

/** The annotation that is the mark in a process with these settings. */
export function markOf({ settings }: { readonly settings?: Readonly<Record<string, unknown>> }): Annotation<string> {
  return { ...unhealthy, key: valuesOf({ fenceMark }, settings).fenceMark };
}

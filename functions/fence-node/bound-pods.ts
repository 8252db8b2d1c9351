/** Which of the pods that are bound to a node have to go. Pure. */

import type { PodObject, Toleration } from "../shared/kubernetes/cluster.ts";

/** A kubelet shows a static pod of its own under this annotation: no client can delete the pod itself. */
export function isMirror({ metadata }: PodObject): boolean {
  return metadata.annotations?.["kubernetes.io/config.mirror"] !== undefined;
}

/** True for a pod that stays for ever on a Node with this taint. */
export function tolerates(
  { spec }: PodObject,
  { key, effect, value = "" }: { readonly key: string; readonly effect: string; readonly value?: string },
): boolean {
  return (spec?.tolerations ?? []).some((one: Toleration) => {
    const isOfKey = one.key === undefined || one.key === "" ? one.operator === "Exists" : one.key === key;
    const isOfEffect = one.effect === undefined || one.effect === "" || one.effect === effect;
    const isOfValue = one.operator === "Exists" || (one.value ?? "") === value;
    return isOfKey && isOfEffect && isOfValue && one.tolerationSeconds === undefined;
  });
}

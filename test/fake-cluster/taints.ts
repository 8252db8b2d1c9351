/** Which taints of its node a pod tolerates, and for how long (k8s.io/component-helpers v0.36, scheduling/corev1). */

import type { NodeObject, Toleration } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredPod } from "./objects.ts";

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

export const outOfService = "node.kubernetes.io/out-of-service";

/** Tolerations that an admission plugin of the API server adds to a pod without its own. */
const defaults: readonly Toleration[] = ["not-ready", "unreachable"].map((name) => {
  return { key: `node.kubernetes.io/${name}`, operator: "Exists", effect: "NoExecute", tolerationSeconds: 300 };
});

export function taintsOf(node: NodeObject | undefined, effect: string): readonly Taint[] {
  return (node?.spec?.taints ?? []).filter((taint) => taint.effect === effect);
}

/** Time for which a pod may stay on a node with these NoExecute taints, in milliseconds; Infinity: for ever. */
export function toleratedMs({ spec }: StoredPod, taints: readonly Taint[]): number {
  const own = spec.tolerations ?? [];
  const others = defaults.filter(
    ({ key, effect = "" }) => !own.some((one) => tolerates(one, { key: key ?? "", effect })),
  );
  const used = taints.map((taint) => [...own, ...others].filter((toleration) => tolerates(toleration, taint)));
  if (used.some((tolerations) => tolerations.length === 0)) return 0;
  const seconds = used.flat().map(({ tolerationSeconds = Number.POSITIVE_INFINITY }) => Math.max(tolerationSeconds, 0));
  return Math.min(...seconds) * 1000;
}

function tolerates({ key = "", operator = "Equal", value = "", effect = "" }: Toleration, taint: Taint): boolean {
  if (effect !== "" && effect !== taint.effect) return false;
  if (key !== "" && key !== taint.key) return false;
  return operator === "Exists" || (key !== "" && value === (taint.value ?? ""));
}

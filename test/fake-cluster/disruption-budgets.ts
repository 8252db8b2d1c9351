/**
 * What PodDisruptionBudgets refuse (kubernetes v1.36, pkg/registry/core/pod/storage/eviction.go). The status is what a client
 * has written: no controller of the fake cluster writes it, and an eviction does not reduce `disruptionsAllowed`.
 */

import type { PodDisruptionBudgetObject } from "../../functions/shared/kubernetes/cluster.ts";
import { ApiStatusError } from "./api-errors.ts";
import { selects } from "./label-selector.ts";
import { isReady, type StoredPod } from "./objects.ts";
import type { Store } from "./store.ts";

/** @throws ApiStatusError 429 if the pod's budget allows no disruption, 500 if the pod has two budgets. */
export function checkDisruptionBudgets(store: Store, pod: StoredPod): void {
  const { namespace, labels = {}, deletionTimestamp } = pod.metadata;
  if (["Succeeded", "Failed", "Pending"].includes(pod.status.phase) || deletionTimestamp !== undefined) return;
  const [budget, another] = store
    .list("poddisruptionbudgets", { namespace })
    .items.filter(({ spec }) => spec?.selector !== undefined && selects(spec.selector, labels));
  if (budget === undefined) return;
  if (another !== undefined) {
    const message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    throw new ApiStatusError({ code: 500, reason: "", message, verb: "create", resource: "pods" });
  }
  if (!isReady(pod) && letsUnreadyGo(budget)) return;
  const { name, generation = 0 } = budget.metadata;
  const {
    observedGeneration = 0,
    disruptionsAllowed = 0,
    currentHealthy = 0,
    desiredHealthy = 0,
  } = budget.status ?? {};
  if (observedGeneration < generation) {
    throw refusal(`The disruption budget ${name} is still being processed by the server.`, 10);
  }
  if (disruptionsAllowed > 0) return;
  throw refusal(
    currentHealthy <= desiredHealthy
      ? `The disruption budget ${name} needs ${desiredHealthy} healthy pods and has ${currentHealthy} currently`
      : `The disruption budget ${name} does not allow evicting pods currently`,
  );
}

function letsUnreadyGo({ spec, status }: PodDisruptionBudgetObject): boolean {
  if (spec?.unhealthyPodEvictionPolicy === "AlwaysAllow") return true;
  const { currentHealthy = 0, desiredHealthy = 0 } = status ?? {};
  return currentHealthy >= desiredHealthy && desiredHealthy > 0;
}

function refusal(why: string, retryAfterSeconds?: number): ApiStatusError {
  const message = "Cannot evict pod as it would violate the pod's disruption budget.";
  return new ApiStatusError(
    { code: 429, reason: "TooManyRequests", message, verb: "create", resource: "pods" },
    {
      causes: [{ reason: "DisruptionBudget", message: why }],
      ...(retryAfterSeconds === undefined ? undefined : { retryAfterSeconds }),
    },
  );
}

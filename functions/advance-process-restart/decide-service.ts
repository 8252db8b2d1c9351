/** What a restart needs of the governing Service of a StatefulSet, by whose name process managers are called. Pure. */

import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";

/** Which pods have names by a governing Service: all, or those that are ready. */
export type Publication = "all" | "ready-alone" | "missing";

/**
 * A pod whose process is stopped is not ready: without a name it could not be called to start its process again.
 *
 * @param publication undefined: the Service was not read
 */
export function blockedByService(
  { name, serviceName }: Pick<StatefulSet, "name" | "serviceName">,
  publication: Publication | undefined,
): Blocked | undefined {
  if (serviceName === "")
    return { guard: "service-missing", message: `${name} has no serviceName, so that its pods cannot be called` };
  if (publication === "missing") {
    const remedy = "create it with clusterIP: None and publishNotReadyAddresses: true";
    const message = `Service ${serviceName}, the serviceName of ${name}, does not exist, so that its pods cannot be called: ${remedy}`;
    return { guard: "service-missing", message };
  }
  if (publication !== "ready-alone") return undefined;
  const remedy = `write publishNotReadyAddresses: true into the spec of Service ${serviceName}`;
  const message = `a pod of ${name} has no name while it is not ready, so that nothing could start again what was stopped in it: ${remedy}`;
  return { guard: "service-hides-unready", message };
}

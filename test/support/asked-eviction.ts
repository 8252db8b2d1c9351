/** A review of an eviction as the function is asked it: what a server makes of what an API server posts. */
import { pinningPath } from "../../functions/evaluate-eviction/observe.ts";
import type { AdmissionRequest } from "../../functions/shared/admission/definition.ts";
import { evictionOf, type PodName } from "./review.ts";

/** By `kubectl drain`, for real, and to be pinned, unless something else is asked. `deadlineMs`: of the function's own clock. */
export function askedOf(
  pod: PodName,
  asked: Partial<AdmissionRequest> & Pick<AdmissionRequest, "uid" | "deadlineMs">,
): AdmissionRequest {
  return {
    operation: "CREATE",
    resource: { group: "", version: "v1", resource: "pods" },
    user: "",
    subresource: "eviction",
    namespace: pod.namespace,
    name: pod.name,
    dryRun: false,
    object: evictionOf(pod),
    oldObject: null,
    path: pinningPath,
    ...asked,
  };
}

/** A review of an eviction as the function gets it from the server. */
import { pinningPath } from "../../functions/evaluate-eviction/observe.ts";
import type { AdmissionRequest } from "../../functions/shared/admission/definition.ts";
import { evictionOf, type PodName } from "./review.ts";

/** By default a real eviction by `kubectl drain` whose answer may pin the uid. `deadlineMs`: by the function's own clock. */
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

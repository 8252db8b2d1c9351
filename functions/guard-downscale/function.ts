import type { AdmissionDefinition } from "../shared/admission/definition.ts";
import { workloadNamedLikeOurs } from "../shared/admission/own-workloads.ts";
import { noDownscale } from "../shared/annotations/scaling.ts";
import { lastApplied } from "../shared/annotations/table.ts";
import { mayBeDownscale, scaledResources } from "../shared/scaling/downscale-review.ts";
import { createHandler } from "./act.ts";
import { guards } from "./guards.ts";
import { name } from "./observe.ts";

const path = "/admission/no-downscale";

/** In CEL: a StatefulSet may be refused for more than its label, and a scale does not have the labels. */
const mayBeRefused =
  "request.resource.resource == 'statefulsets' || has(request.subResource) || " +
  `has(oldObject.metadata.labels) && '${noDownscale.key}' in oldObject.metadata.labels && ` +
  `oldObject.metadata.labels['${noDownscale.key}'] == 'true'`;

/** Refuses the downscale of an object that a label protects, and one that comes from a manifest without replicas. */
export const guardDownscale: AdmissionDefinition = {
  name,
  concern: "refuse downscales of protected workloads",
  guards,
  needs: scaledResources.map((resource) => ({ group: "apps", resource, verbs: ["get"] })),
  // Other functions act on the other keys that it reads.
  reads: [noDownscale, lastApplied],
  writes: [],
  // The API server stores up to 1.5 MiB and accepts up to 3. An update brings both objects, and its user.
  bodyLimitBytes: 5 * 1024 * 1024,
  paths: [path],
  registration: {
    kind: "Validating",
    webhook: "no-downscale",
    path,
    rule: {
      apiGroups: ["apps"],
      apiVersions: ["v1"],
      operations: ["UPDATE"],
      resources: scaledResources.flatMap((resource) => [resource, `${resource}/scale`]),
    },
    sideEffects: "None",
    failurePolicy: "Fail",
    timeoutSeconds: 10,
    // While the webhook is down, the API server denies every matched request, so that these match no more than they must.
    matchConditions: [
      { name: "may-be-a-downscale", expression: mayBeDownscale },
      { name: "may-be-refused", expression: mayBeRefused },
      { name: "not-of-sluice", expression: `!(${workloadNamedLikeOurs})` },
    ],
  },
  whenBroken: "open",
  readsViews: false,
  open: createHandler,
};

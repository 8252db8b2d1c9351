/** The annotation by which a person parks the process of a pod. */

import { annotationOn, onlyTrue } from "./entry.ts";

export const parking = annotationOn("Pod")("sluice.dev/stop", onlyTrue, {
  grammar: "true, or take it off to start the process again",
  fallback: "the process runs",
  meaning: "the process of the pod stops in its turn, and stays stopped until the annotation is taken off",
});

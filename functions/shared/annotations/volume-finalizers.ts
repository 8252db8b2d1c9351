/** Our finalizers on volume claims. */
import type { Annotation } from "./entry.ts";

/** Ours: a volume claim that has it is suspended, or about to be, and keeps its volume, whichever account deletes it. */
export const volumeHold = "sluice.dev/volume-hold";

/**
 * Ours, too, and also on volume claims that are not to be suspended: it says nothing of a suspension. A function that ends one
 * takes the other finalizer away, and never this one, unless the volume claim is being deleted.
 */
export const volumeProtection = "sluice.dev/volume-protection";

/** For `kubectl get pvc -l sluice.dev/protected`: all that have that finalizer have it. */
export const protectedVolume: Annotation<true> = {
  key: "sluice.dev/protected",
  kind: "label",
  on: "PersistentVolumeClaim",
  grammar: "true",
  fallback: "absent: it is not protected",
  says: "the volume claim keeps its volume, whichever account deletes it; written by us",
  isWrittenByUs: true,
  parse: (text) => (text === "true" ? true : undefined),
};

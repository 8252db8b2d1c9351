/** Our finalizers on volume claims. */
import type { Annotation } from "./entry.ts";

/** Ours: a volume claim that has it is suspended, or about to be, and keeps its volume, whoever deletes it. */
export const volumeHold = "sluice.dev/volume-hold";

/**
 * Ours, too, and on volume claims that nobody wants to suspend: it says nothing of a suspension. Whoever ends one takes the other
 * finalizer away, and never this one, as long as nobody has deleted the volume claim.
 */
export const volumeProtection = "sluice.dev/volume-protection";

/** For `kubectl get pvc -l sluice.dev/protected`: all that have that finalizer have it. */
export const protectedVolume: Annotation<true> = {
  key: "sluice.dev/protected",
  kind: "label",
  on: "PersistentVolumeClaim",
  grammar: "true",
  fallback: "absent: it is not protected",
  says: "the volume claim keeps its volume, whoever deletes it; written by us",
  isWrittenByUs: true,
  parse: (text) => (text === "true" ? true : undefined),
};

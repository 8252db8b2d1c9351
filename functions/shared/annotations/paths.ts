/** The paths of labels, annotations and finalizers in an object, as a definition names what its function changes. */
import type { Annotation } from "./entry.ts";

/** The domain of all that Sluice has made up. */
export const ourDomain = "sluice.dev";

/** All keys and finalizers that Sluice has made up begin so. */
export const ours = `${ourDomain}/`;

/** The path of each label and annotation. */
export function pathsOf(...entries: readonly Pick<Annotation<unknown>, "key" | "kind">[]): readonly string[] {
  return entries.map(({ key, kind }) => `metadata.${kind}s[${key}]`);
}

/** The path of each finalizer, by its name. */
export function finalizerPaths(...names: readonly string[]): readonly string[] {
  return names.map((name) => `metadata.finalizers[${name}]`);
}

/** Every annotation that Sluice has made up. */
export const ourAnnotations = `metadata.annotations[${ours}*]`;

/** The labels that owners may ask for: the policy `sluice-fence-objects` lists their keys as the setting of that name does. */
export const skipLabelPath = "metadata.labels[SKIP_LABEL_KEYS]";

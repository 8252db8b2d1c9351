/** Labels that stand on a StatefulSet as annotations, and the reverse: Sluice takes no value from there. */
import { showValue, unshown } from "../base/escape-control.ts";
import type { Metadata } from "../kubernetes/cluster.ts";
import type { Annotation, Malformed } from "./entry.ts";
import { annotationTable } from "./table.ts";

const entries: readonly Annotation<unknown>[] = annotationTable;

/** What users write on StatefulSets, by key. The table has no key twice, so that each has exactly one place. */
const written: ReadonlyMap<string, Annotation<unknown>> = new Map(
  entries.filter(({ on, isLong }) => on === "StatefulSet" && isLong !== true).map((entry) => [entry.key, entry]),
);

/** The keys of a StatefulSet that stand only in the wrong place. One that stands in both is read where it belongs. */
export function findMisplaced({ labels = {}, annotations = {} }: Metadata): readonly Malformed[] {
  return [...strayIn(annotations, labels, "label"), ...strayIn(labels, annotations, "annotation")];
}

/** The keys among `wrong` whose entries are of this kind, and are not in `right`. */
function strayIn(
  wrong: Readonly<Record<string, string>>,
  right: Readonly<Record<string, string>>,
  kind: Annotation<unknown>["kind"],
): readonly Malformed[] {
  return Object.entries(wrong).flatMap(([key, text]) => {
    const entry = written.get(key);
    if (entry?.kind !== kind || right[key] !== undefined) return [];
    return [{ key, message: describeMisplaced(entry, text), misplaced: text }];
  });
}

function describeMisplaced({ key, kind, fallback, mayContainSecret }: Annotation<unknown>, text: string): string {
  const stands = kind === "label" ? "annotation" : "label";
  const shown = mayContainSecret ? unshown : showValue(text);
  const absent = /^absent(?: or malformed)?: ([^;]+)/.exec(fallback)?.[1] ?? fallback;
  return `${stands} ${key} is ${shown}, but Sluice reads this key only as ${kind}: move it there. Until then: ${absent}.`;
}

/** Labels that are set as annotations, and the reverse: Sluice does not use such a value. */
import { showValue, unshown } from "../base/escape-control.ts";
import type { Metadata } from "../kubernetes/cluster.ts";
import type { Annotation, Malformed } from "./entry.ts";
import { annotationTable } from "./table.ts";

type Entries = readonly Annotation<unknown>[];

const table: Entries = annotationTable;
/** What users write on StatefulSets. The table has no key twice, so that each has exactly one place. */
const ofStatefulSets = table.filter(({ on, isLong }) => on === "StatefulSet" && isLong !== true);

/** The keys of a StatefulSet that stand only in the wrong place. One that stands in both is read where it belongs. */
export const findMisplaced = misplacedFinder(ofStatefulSets);

/** Returns a function that finds those keys of these entries that an object has only in the wrong place. */
export function misplacedFinder(entries: Entries): (metadata: Metadata) => readonly Malformed[] {
  const known = new Map(entries.map((entry) => [entry.key, entry]));
  const strayIn = (wrong: KeyTexts, right: KeyTexts, kind: Annotation<unknown>["kind"]): readonly Malformed[] =>
    Object.entries(wrong).flatMap(([key, text]) => {
      const entry = known.get(key);
      if (entry?.kind !== kind || right[key] !== undefined) return [];
      return [{ key, message: describeMisplaced(entry, text), misplaced: text }];
    });
  return ({ labels = {}, annotations = {} }) => [
    ...strayIn(annotations, labels, "label"),
    ...strayIn(labels, annotations, "annotation"),
  ];
}

type KeyTexts = Readonly<Record<string, string>>;

function describeMisplaced({ key, kind, fallback, mayContainSecret }: Annotation<unknown>, text: string): string {
  const stands = kind === "label" ? "annotation" : "label";
  const shown = mayContainSecret ? unshown : showValue(text);
  const absent = /^absent(?: or malformed)?: ([^;]+)/.exec(fallback)?.[1] ?? fallback;
  return `${stands} ${key} is ${shown}, but Sluice reads this key only as ${kind}: move it there. Until then: ${absent}.`;
}

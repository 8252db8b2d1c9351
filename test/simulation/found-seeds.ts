/**
 * The seed that last found each removed rule. A test tries this seed first, and the others only if it no longer finds the
 * rule. An outdated table costs only time: no promise depends on it.
 */
import { readFileSync, writeFileSync } from "node:fs";
import type { RemovedRule } from "./rules.ts";
import { removedRules } from "./rules-evictions.ts";

const path = new URL("./found-seeds.json", import.meta.url);

/** Rules whose absence any seed shows, also seeds that are not aimed at them. */
const found = new Set([
  "settled-through: views of any age are taken",
  "moving settled-through with the view",
  "the reservation before the act",
  "the reservation before the allowance",
]);

export const defaultRules: readonly RemovedRule[] = removedRules.filter(({ removed }) => found.has(removed));

export type FoundSeeds = ReadonlyMap<string, number>;

/** Key of a rule in the table. @param isDefault for seeds that are not aimed at the rule */
export const keyOf = ({ rule, removed }: RemovedRule, isDefault: boolean): string =>
  `${rule}: ${removed}${isDefault ? " (default plan)" : ""}`;

/** The seeds of the table. Throws when the file cannot be read. */
export function readFoundSeeds(): FoundSeeds {
  return new Map(Object.entries(JSON.parse(readFileSync(path, "utf8")) as Record<string, number>));
}

/** Replaces the table. Throws when the file cannot be written. */
export function writeFoundSeeds(seeds: FoundSeeds): void {
  writeFileSync(path, `${JSON.stringify(Object.fromEntries(seeds), undefined, 2)}\n`);
}

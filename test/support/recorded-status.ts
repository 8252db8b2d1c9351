/** What the status was decided by in runs of the demo and of the simulation, as the recorders of both have written it. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Guards } from "../../functions/shared/base/guards.ts";
import type { StatusSnapshot } from "../../functions/show-status/snapshot.ts";
import { table } from "../../triggers/table.ts";

export const folder = join(import.meta.dirname, "../fixtures/status");

/** Guards are data of the product, so that a recorded state has those of the present version. */
export const guards: Readonly<Record<string, Guards>> = Object.fromEntries(table.map((one) => [one.name, one.guards]));

/** JSON has no maps, and neither of these values. */
const mark = "$";
const marks: Readonly<Record<string, unknown>> = { undefined: undefined, NaN: Number.NaN };

function encode(value: unknown): unknown {
  for (const [name, marked] of Object.entries(marks)) if (Object.is(value, marked)) return { [mark]: name };
  if (value instanceof Map) return { [mark]: [...value].map(encode) };
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(encode);
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, encode(one)]));
}

function decode(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(decode);
  const marked = (value as Readonly<Record<string, unknown>>)[mark];
  if (typeof marked === "string") return marks[marked];
  if (Array.isArray(marked)) return new Map(decode(marked) as [unknown, unknown][]);
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, decode(one)]));
}

/** A snapshot as it stands in a file. */
export function encodeSnapshot({ guards: _, ...snapshot }: StatusSnapshot): unknown {
  return encode(snapshot);
}

export function writeSnapshot(name: string, snapshot: StatusSnapshot): void {
  writeFileSync(join(folder, `${name}.jsonl`), `${JSON.stringify(encodeSnapshot(snapshot))}\n`);
}

/** Each recorded state by its name, as it stands in its file. */
export function readEncoded(): ReadonlyMap<string, unknown> {
  const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
  return new Map(
    names.sort().map((name) => [name.replace(".jsonl", ""), JSON.parse(readFileSync(join(folder, name), "utf8"))]),
  );
}

/** Each recorded state by its name. */
export function readSnapshots(): ReadonlyMap<string, StatusSnapshot> {
  const all = [...readEncoded()].map(([name, encoded]) => {
    const snapshot = decode(encoded) as Omit<StatusSnapshot, "guards">;
    return [name, { ...snapshot, guards }] as const;
  });
  return new Map(all);
}

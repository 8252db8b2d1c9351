/** What limits how many nodes are fenced: slots of fences under way, fences of the last hour, and the last storm. */

import { fieldsOf, isTime, parseFields } from "../base/fields.ts";
import { hourMs } from "../clock/durations.ts";
import { annotationOn } from "./entry.ts";

/** A fence that may go on to what happens to its node. */
export interface FenceSlot {
  readonly fenceId: string;
  readonly node: string;
  /** When the fence took it, in milliseconds since the epoch, by the API server's clock. */
  readonly takenMs: number;
}

/** What the Lease `fence-slots` has. All times are in milliseconds since the epoch, by the API server's clock. */
export interface FenceSlots {
  readonly slots: readonly FenceSlot[];
  /** When each node was fenced, the oldest time first; nodes that were not fenced in the last hour may be missing. */
  readonly fencedMs: ReadonlyMap<string, readonly number[]>;
  /** When a storm was seen last; undefined where none is remembered. */
  readonly stormMs: number | undefined;
}

export const noSlots: FenceSlots = { slots: [], fencedMs: new Map(), stormMs: undefined };

/** More nodes are not remembered: the ones that were fenced last stay. */
export const mostFencedNodes = 5_000;
/** More fences of one node are not remembered: no setting asks for more. */
export const mostFencesOfNode = 20;
/** The history has at most so many characters, because the annotations of an object have at most 256 KiB. */
export const mostHistoryCharacters = 150_000;

const textOf = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

function parseSlot(value: unknown): FenceSlot | undefined {
  const { fenceId, node, takenMs } = fieldsOf(value) ?? {};
  const [id, name] = [textOf(fenceId), textOf(node)];
  return id === undefined || name === undefined || !isTime(takenMs) ? undefined : { fenceId: id, node: name, takenMs };
}

function parseSlots(text: string): FenceSlots | undefined {
  const { slots, fencedMs, stormMs } = parseFields(text) ?? {};
  const fenced = fieldsOf(fencedMs);
  if (!Array.isArray(slots) || fenced === undefined || !(stormMs === undefined || isTime(stormMs))) return undefined;
  const taken = slots.flatMap((one) => parseSlot(one) ?? []);
  const times = Object.entries(fenced).flatMap(([node, list]) =>
    Array.isArray(list) && list.every(isTime) ? [[node, list] as const] : [],
  );
  const isWhole = taken.length === slots.length && times.length === Object.keys(fenced).length;
  return isWhole ? { slots: taken, fencedMs: new Map(times), stormMs } : undefined;
}

/** The text of what is remembered at `nowMs`. What is older than an hour is left out, and the oldest of what is too much. */
export function formatSlots({ slots, fencedMs, stormMs }: FenceSlots, nowMs: number): string {
  const recent = [...fencedMs]
    .map(([node, times]) => [node, times.filter(isWithinHour(nowMs)).slice(-mostFencesOfNode)] as const)
    .filter(([, times]) => times.length > 0)
    .toSorted(([, one], [, other]) => (other.at(-1) ?? 0) - (one.at(-1) ?? 0))
    .slice(0, mostFencedNodes);
  let left = mostHistoryCharacters;
  const kept = recent.filter(([node, times]) => {
    left -= JSON.stringify([node, times]).length;
    return left >= 0;
  });
  return JSON.stringify({ slots, fencedMs: Object.fromEntries(kept), ...(stormMs === undefined ? {} : { stormMs }) });
}

/** True for a time less than an hour from `nowMs`. A time of a clock that was set back does not count for ever either. */
export const isWithinHour =
  (nowMs: number) =>
  (atMs: number): boolean =>
    Math.abs(nowMs - atMs) < hourMs;

export const fenceSlots = annotationOn("Lease")("sluice.dev/fence-slots", parseSlots, {
  grammar: 'JSON: {"slots": [{"fenceId", "node", "takenMs"}], "fencedMs": {NODE: [MS]}, "stormMs"}',
  fallback:
    "absent: no fence has a slot; malformed: no fence gets one, and the text stays until a person deletes the Lease",
  meaning: "which fences have a slot, when each node was fenced in the last hour, and when a storm was seen last",
});

/**
 * A FoundationDBCluster's own settings about the removal of its process groups (spec suspend-before-delete 2.1), parsed at the
 * border.
 */

import {
  type RemovalMode,
  removalMode,
  suspendDuration,
  usualWaitMs,
  waitBetweenRemovals,
} from "../annotations/suspension.ts";
import { shownCharacters } from "../base/escape-control.ts";
import { fieldsOf } from "../base/fields.ts";
import type { OtherObject } from "../kubernetes/cluster.ts";
import { type AnnotationValue, readValue, valueIn } from "./pvc.ts";

/** How an owner lets its members go. Settings elsewhere can only make it stricter. */
export interface OwnerRemovalPolicy {
  /** How long a volume is kept at least, in milliseconds; absent where only its volume claim says it. */
  readonly duration: AnnotationValue<number>;
  readonly mode: RemovalMode;
  /** Time between two removals, in milliseconds; undefined if an annotation about it is malformed: nothing is removed. */
  readonly waitMs: number | undefined;
  /** Why nothing goes where `mode` is None, for people. */
  readonly frozenBecause: string;
  /** Message for people: which of its own settings is malformed, and what to do; undefined if none is. */
  readonly unreadable: string | undefined;
}

const byStrictness: readonly RemovalMode[] = ["None", "Group", "Zone", "All"];

/** The strictest of several; undefined of none. */
export function strictestMode(all: readonly RemovalMode[]): RemovalMode | undefined {
  return byStrictness.find((mode) => all.includes(mode));
}

/** By the operator's names. An absent or empty value is Zone. */
const modes: ReadonlyMap<unknown, RemovalMode> = new Map<unknown, RemovalMode>([
  [undefined, "Zone"],
  [null, "Zone"],
  ["", "Zone"],
  ["All", "All"],
  ["Zone", "Zone"],
  ["ProcessGroup", "Group"],
  ["None", "None"],
]);

const options = "spec.automationOptions";
const show = (value: unknown): string => JSON.stringify(value)?.slice(0, shownCharacters) ?? "";

/** The stricter of its settings and its annotations. */
export function parseOwnerRemovalPolicy(object: Pick<OtherObject, "metadata" | "spec">): OwnerRemovalPolicy {
  const { metadata } = object;
  const own = parseOptions(object);
  const mode = readValue(removalMode, metadata, []);
  const wait = readValue(waitBetweenRemovals, metadata, []);
  const modes = mode.kind === "absent" ? [own.mode] : [own.mode, valueIn(mode) ?? "None"];
  const waitMs = wait.kind === "absent" ? 0 : valueIn(wait);
  return {
    duration: readValue(suspendDuration, metadata, []),
    mode: strictestMode(modes) ?? "None",
    waitMs: waitMs === undefined ? undefined : Math.max(own.waitMs, waitMs),
    frozenBecause: own.mode === "None" ? own.why : `${removalMode.key} of ${metadata.name} is None, or malformed`,
    unreadable: own.unreadable,
  };
}

/** The default is that of the operator: Zone, and 60 s. A malformed setting freezes everything. */
function parseOptions({ metadata, spec }: Pick<OtherObject, "metadata" | "spec">) {
  const { automationOptions } = fieldsOf(spec) ?? {};
  const fields = fieldsOf(automationOptions ?? {});
  const { removalMode: word, waitBetweenRemovalsSeconds: seconds } = fields ?? {};
  const mode = modes.get(word);
  const waitMs = waitOf(seconds);
  const describeFault = (field: string, value: unknown, what: string) =>
    `${field} of ${metadata.name} is ${show(value)}, and ${what}: it counts as removalMode None until a user corrects it`;
  const unreadable =
    fields === undefined
      ? describeFault(options, automationOptions, "no object")
      : mode === undefined
        ? describeFault(`${options}.removalMode`, word, "none of All, Zone, ProcessGroup and None")
        : waitMs === undefined
          ? describeFault(`${options}.waitBetweenRemovalsSeconds`, seconds, "no number of seconds")
          : undefined;
  return {
    mode: unreadable === undefined ? (mode ?? "None") : ("None" as const),
    waitMs: waitMs ?? usualWaitMs,
    why: unreadable ?? `${options}.removalMode of ${metadata.name} is None`,
    unreadable,
  };
}

/** Unset or negative: 60 s, as its operator has it. Undefined for what is no number. */
function waitOf(seconds: unknown): number | undefined {
  if (seconds === undefined || seconds === null) return usualWaitMs;
  if (typeof seconds !== "number") return undefined;
  return seconds < 0 ? usualWaitMs : seconds * 1_000;
}

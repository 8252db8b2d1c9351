/**
 * Claims of kind `process`: the fields that only they have, and how a process proves that it was restarted.
 *
 * A version that does not know these fields writes the line back as it was, and ends no claim of another function.
 */

import type { Pod } from "../workloads/pods.ts";
import { isShort, only, parseTable } from "./claim-fields.ts";

const modes = ["single", "rolling", "coordinated", "parked"] as const;
export type ProcessMode = (typeof modes)[number];

/** The fields of a claim of kind `process`. */
export interface ProcessFields {
  readonly mode?: ProcessMode;
  /**
   * The process that each pod ran when the claim was made, by pod name, as its process manager identified it; empty for a pod
   * that ran none. Absent: the claim is of a version that knew no process managers.
   */
  readonly processes?: Readonly<Record<string, string>>;
  /** The sum of the files to start with, as the process manager writes it. Absent: the files that the process had. */
  readonly sum?: string | undefined;
  /** Each call to a process manager carries it. It grows with each step, and a process manager refuses a lower one. */
  readonly epoch?: number;
  /** True from before the restart changes a setting of the database until a read shows that setting as it was. */
  readonly hold?: boolean;
}

/** A running process, as the process manager of its pod reported it after the ledger was read (rule R21). */
export interface RunningProcess {
  readonly podUid: string;
  readonly processId: string;
  /** Whether the database has the node of that process as a member; true where no database is named. */
  readonly isMember: boolean;
}

type Optional = <Name extends string, T>(
  name: Name,
  parse: (value: unknown) => T | undefined,
) => { readonly [name in Name]?: T };

/** Reads these fields. `optional` reads a field if it is there, and throws if it is malformed. */
export function readProcessFields(optional: Optional): ProcessFields {
  return {
    ...optional("mode", only(isMode)),
    ...optional("processes", (value) => parseTable(value, isShort)),
    ...optional("sum", only(isShort)),
    ...optional("epoch", only(isEpoch)),
    ...optional("hold", only(isFlag)),
  };
}

function isMode(value: unknown): value is ProcessMode {
  return (modes as readonly unknown[]).includes(value);
}

function isEpoch(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isFlag(value: unknown): value is boolean {
  return typeof value === "boolean";
}

/** What a claim says of its pods. */
type ClaimedProcesses = ProcessFields & { readonly readyMs?: Readonly<Record<string, number>> };

/**
 * True if the pod runs another process than when the claim was made. Its process manager proves that, because a process that is
 * back before its probe fails leaves no trace in the pod. Where the claim names no processes, another ready time proves it.
 */
export function isRestarted(
  { processes, readyMs }: ClaimedProcesses,
  pod: Pod,
  running: RunningProcess | undefined,
): boolean {
  if (processes === undefined) return isReadyAnew(readyMs?.[pod.name], pod);
  const before = processes[pod.name];
  if (before === undefined || running === undefined) return false;
  // The answer is about one pod: an earlier or a later one of its name proves nothing.
  return running.podUid === pod.uid && running.processId !== before && running.isMember;
}

/** A Ready condition without a time, then or now, proves no restart. */
function isReadyAnew(beforeMs: number | undefined, { readySinceMs }: Pod): boolean {
  return beforeMs !== undefined && Number.isFinite(readySinceMs) && readySinceMs !== beforeMs;
}

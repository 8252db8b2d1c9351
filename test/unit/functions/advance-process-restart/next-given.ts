/** Pods that wait for a restart, as unit tests give them to the decision what begins next. */
import assert from "node:assert/strict";
import type { ManagerSilence, ManagerStatus } from "../../../../functions/advance-process-restart/calls.ts";
import type { Candidate } from "../../../../functions/advance-process-restart/candidate.ts";
import { decide, type RestartSnapshot } from "../../../../functions/advance-process-restart/decide.ts";
import type { FilesState } from "../../../../functions/advance-process-restart/decide-files.ts";
import type { RestartPhase } from "../../../../functions/shared/annotations/restart.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import { group, managed, report } from "./given.ts";

export interface Marks extends Pick<Candidate, "files" | "publication" | "waitedMs"> {
  readonly id?: string;
  readonly status?: Partial<ManagerStatus>;
  readonly answer?: ManagerSilence | "unasked";
  readonly terminating?: boolean;
}

/** The candidate of a pod that has this phase, whose process runs. */
export function marked(zone: Zone, ordinal: number, phase: RestartPhase | undefined, marks: Marks = {}): Candidate {
  const { id, status, answer = report(`${zone.workload.name}-${ordinal}`, status), terminating, ...rest } = marks;
  const pod = zone.pods.find((one) => one.ordinal === ordinal) ?? assert.fail(`no ${ordinal}`);
  const own = { ...pod, restart: { text: phase, phase, id }, ...(terminating && { terminating }) };
  return { zone, pod: own, answer: answer === "unasked" ? undefined : answer, ...rest };
}

/** The candidate of a pod that has no phase, and whose process a person wants parked. */
export function parkable(ordinal: number): Candidate {
  const { pod, ...rest } = marked(a, ordinal, undefined);
  const { restart: _, ...free } = pod;
  return { ...rest, pod: { ...free, stop: "true" } };
}

export const zoneOf = (name: string, options: Parameters<typeof managed>[2] = {}) => managed(name, "nnn", options);

export function verdictOf(candidates: readonly Candidate[], changes: Partial<RestartSnapshot> = {}) {
  const zones = [...new Set(candidates.map(({ zone }) => zone))];
  return decide({ ...group({ zones }), candidates, claims: [], underWay: undefined, ...changes });
}

/** What is done, as `KIND POD`, or the guard of the wait. */
export function next(candidates: readonly Candidate[], changes: Partial<RestartSnapshot> = {}): string {
  const verdict = verdictOf(candidates, changes);
  if (verdict.kind === "wait") return verdict.guard;
  const words = verdict.targets.map((target) => {
    const pods = "members" in target ? target.members.map(({ pod }) => pod) : "pods" in target ? target.pods : [];
    const names = "pod" in target ? [target.pod.name] : pods.map(({ name }) => name);
    return [target.kind, ...names].join(" ");
  });
  return words.join(", ");
}

export const same = (sum: string): FilesState => ({ kind: "same", sum });
export const mended: Marks = {
  files: same("1:now"),
  status: { triedSum: "1:broken", mountedSum: "1:now", state: "startFailed" },
};
export const refused: FilesState = {
  kind: "blocked",
  blocked: { guard: "restart-config-refused", message: "write the Role" },
};
export const joint = { id: "coordinated-1" };
export const away: Marks = { status: { state: "away" } };
export const a = zoneOf("a");
export const gathered = { gatheredMs: 10_000 };

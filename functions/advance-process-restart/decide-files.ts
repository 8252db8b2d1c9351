/** What a restart waits for before its files are there. Pure. */

import type { Zone } from "../shared/groups/zones.ts";
import type { Blocked } from "../shared/ledger/claim-kinds.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { ManagerStatus, StatusAnswer } from "./calls.ts";
import type { FilesChange } from "./drift/decide-settings.ts";

/** The content of one Secret for another, which is as it was read. */
export interface FilesCopy {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The values in base64; null for a key that goes. */
  readonly data: Readonly<Record<string, string | null>>;
  /** What is noted of the settings of files that are or were mounted. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly ownerReferences: readonly object[];
}

/** True for a copy of a Secret onto itself, which only notes the settings of its files. */
export function isNote({ data }: FilesCopy): boolean {
  return Object.keys(data).length === 0;
}

interface KnownFiles {
  readonly sum: string;
  /** What keeps one process from a start with these files alone; absent: it may. */
  readonly together?: Blocked | undefined;
  readonly change?: FilesChange | undefined;
}

/** The files that a StatefulSet's processes start with. */
export type FilesState =
  | { readonly kind: "blocked"; readonly blocked: Blocked; readonly together?: undefined; readonly change?: undefined }
  /** The mounted Secret has other files than the expected one, whose sum this is. */
  | ({ readonly kind: "differs"; readonly copy: FilesCopy } & KnownFiles)
  | ({ readonly kind: "same" } & KnownFiles);

/** The guard of files that no process starts with alone. */
export const togetherGuard = "restart-config-together";

const methodOf = (sum: string): string | undefined => sum.split(":")[0];

/** Sums of two methods are never compared: another version of the process manager restarts nothing. */
export function isOtherSum(one: string, other: string): boolean {
  return methodOf(one) === methodOf(other) && one !== other;
}

/** A kubelet brings the files of a Secret within one to two minutes. In milliseconds. */
const broughtWithinMs = 180_000;

/** `waitedMs`: for how long the process manager has been known to have other files. */
export function blockedByFiles(
  { name }: Pod,
  files: FilesState | undefined,
  mountedSum: string | undefined,
  waitedMs: number,
): Blocked | undefined {
  if (files?.kind !== "same" || mountedSum === files.sum) return undefined;
  const sums = `expected are those of the sum ${files.sum}, and mounted in ${name} are those of ${mountedSum ?? "none"}`;
  if (waitedMs < broughtWithinMs) return { guard: "config-coming", message: `the kubelet brings files: ${sums}` };
  const what = "see whether the pod mounts the Secret whole, and whether its kubelet runs";
  return { guard: "config-not-there", message: `the files have not come within 3 minutes: ${sums}; ${what}` };
}

/** True where a process manager reports no files of this sum, so that it refuses to start the process with them. */
export function hasNone(sum: string | undefined, answer: ManagerStatus): boolean {
  const { mountedSum, triedSum, runningSum } = answer;
  return sum !== undefined && ![mountedSum, triedSum, runningSum].includes(sum);
}

/** True for a pod whose restart has failed with other files than are expected now. */
export function isMended({ restart }: Pod, files: FilesState | undefined, answer: StatusAnswer | undefined): boolean {
  if (restart?.phase !== "failed" || files === undefined || files.kind === "blocked") return false;
  if (answer === undefined || "silence" in answer || answer.triedSum === undefined) return false;
  return isOtherSum(answer.triedSum, files.sum);
}

/**
 * What keeps one process from a start with the expected files while the others of its group run with other settings. Where all
 * others have failed, or there are none, it need not join any.
 */
export function blockedByOthers(
  files: FilesState | undefined,
  { name }: Pick<Pod, "name">,
  zones: readonly Zone[],
): Blocked | undefined {
  const wanted = zones.reduce((sum, { workload }) => sum + workload.replicas, 0);
  const others = zones.flatMap(({ pods }) => pods).filter((pod) => pod.name !== name);
  const failed = others.filter(({ restart }) => restart?.phase === "failed");
  return failed.length === others.length && others.length >= wanted - 1 ? undefined : files?.together;
}

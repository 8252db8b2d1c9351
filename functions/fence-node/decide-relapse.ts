/** A node that is back, and not well: it is fenced again for its new boot, or it was fenced too often and is emptied. Pure. */

import { isWithinHour } from "../shared/annotations/fencing-slots.ts";
import { hasAnotherBoot } from "./decide-evidence.ts";
import { decideWithdrawing } from "./decide-ledgers.ts";
import type { FenceSnapshot, FenceVerdict, NodeSeen, RecordSeen } from "./snapshot.ts";
import { namesOf, onRecord, wait } from "./verdicts.ts";

/** Nothing is known of the node for this time before it is fenced again, in milliseconds. */
const unknownForMs = 60_000;
/** How soon a node is reconciled again that stays out, in milliseconds. */
const loopRequeueMs = 10_000;

/** What a marked node needs that is back; undefined where it may recover. */
export function decideRelapse(snapshot: FenceSnapshot, record: RecordSeen): FenceVerdict | undefined {
  const { node } = snapshot;
  if (node?.mark === undefined) return undefined;
  const times = fencesOfHour(snapshot);
  const isTooOften = times >= snapshot.brakes.settings.fenceMostPerHour;
  const again = isTooOften ? undefined : fenceAgain(snapshot, node, record);
  return again ?? (isTooOften || node.isEmptied ? loop(snapshot, node, times) : undefined);
}

/** True where nothing has been known of the node's new boot for so long that its pods have to be fenced again. */
export function isUnknownAgain({ node, record, nowMs }: Pick<FenceSnapshot, "node" | "record" | "nowMs">): boolean {
  if (typeof record !== "object" || record.phase !== "recovering") return false;
  if (node?.mark === undefined || !node.isUnknown || !hasAnotherBoot(node, record)) return false;
  return nowMs >= Math.max(record.sinceMs, node.unknownSinceMs ?? record.sinceMs) + unknownForMs;
}

/**
 * Kubernetes waits for the pods of a node of which nothing is known, as it did before the first fence. What the record names is
 * over, so that the same record begins again: with another id, for the boot that the Node reports now.
 */
function fenceAgain(snapshot: FenceSnapshot, node: NodeSeen, record: RecordSeen): FenceVerdict | undefined {
  const { name, brakes } = snapshot;
  if (!isUnknownAgain(snapshot) || brakes.stranded.length === 0) return undefined;
  const withdrawing = decideWithdrawing(snapshot);
  if (withdrawing !== undefined) return { guard: "settling", requeueAfterMs: undefined, ...withdrawing };
  const message = `nothing is known of the new boot of ${name} for ${unknownForMs / 1_000} s, and pods are bound to it: ${namesOf(brakes.stranded)}. It is fenced again`;
  return { guard: "claiming", message, step: { kind: "fence-again", record, node }, requeueAfterMs: undefined };
}

/** So often the node was fenced within an hour; 0 where that cannot be read. */
function fencesOfHour({ name, brakes, nowMs }: FenceSnapshot): number {
  const { contents } = brakes.slots;
  if (contents === "unreadable") return 0;
  return (contents.fencedMs.get(name) ?? []).filter(isWithinHour(nowMs)).length;
}

function loop({ name, brakes }: FenceSnapshot, node: NodeSeen, times: number): FenceVerdict {
  const most = brakes.settings.fenceMostPerHour;
  if (!node.isEmptied || !node.hasFenceTaint) {
    const message = `${name} was fenced ${times} times within an hour: Kubernetes moves its pods away`;
    return { guard: "loop", message, step: { kind: "empty-node", node }, requeueAfterMs: undefined };
  }
  const message = `${name} was fenced ${most} times within an hour, and stays out until its mark is removed`;
  return onRecord(wait("loop", message, loopRequeueMs));
}

/** Snapshots of a node and of its fence, for tests of decisions. */
import { brakeSettings } from "../../../../functions/fence-node/brake-settings.ts";
import type { BrakesView } from "../../../../functions/fence-node/brakes-view.ts";
import { decide } from "../../../../functions/fence-node/decide.ts";
import type {
  AgentSeen,
  FenceSnapshot,
  FenceVerdict,
  NodeSeen,
  RecordSeen,
} from "../../../../functions/fence-node/snapshot.ts";
import { type FenceSlots, noSlots } from "../../../../functions/shared/annotations/fencing-slots.ts";
import { valuesOf } from "../../../../functions/shared/base/settings.ts";

export const shownNothing = { fenceId: undefined, phase: undefined, hold: undefined };
export const clean: NodeSeen = {
  uid: "node-uid",
  resourceVersion: "10",
  mark: undefined,
  isNever: false,
  confirmed: undefined,
  bootId: "boot-1",
  systemUuid: "machine-1",
  isReady: true,
  isReporting: true,
  isUnknown: false,
  unknownSinceMs: undefined,
  isInMaintenance: false,
  hasFenceTaint: false,
  isEmptied: false,
  outOfService: undefined,
  foreignFence: undefined,
  shown: shownNothing,
};
export const marked: NodeSeen = { ...clean, mark: "disk failed" };
export const tainted: NodeSeen = { ...marked, hasFenceTaint: true };
export const back: NodeSeen = { ...tainted, bootId: "boot-2" };
export const claimed: RecordSeen = {
  uid: "record-uid",
  resourceVersion: "20",
  fenceId: "fence-1",
  phase: "claimed",
  sinceMs: 1_000_000,
  bootId: "boot-1",
  systemUuid: "machine-1",
  hold: undefined,
  agent: undefined,
  evidence: undefined,
  settlingMs: undefined,
};
export const agent: AgentSeen = {
  uid: "agent-uid",
  resourceVersion: "30",
  mode: "explicit-only",
  why: "no-peers",
  bootId: "boot-1",
  permitMs: 40_000,
  watchdogMs: 10_000,
  peers: [],
  proposed: undefined,
  armed: undefined,
};
export const noted = {
  uid: "agent-uid",
  resourceVersion: "30",
  mode: "explicit-only",
  bootId: "boot-1",
  permitMs: 40_000,
  watchdogMs: 10_000,
  peers: [],
} as const;
export const armedAgent: AgentSeen = {
  ...agent,
  resourceVersion: "31",
  armed: { fenceId: "fence-1", bootId: "boot-1" },
};
export const armed: RecordSeen = { ...claimed, phase: "armed", agent: noted };
export const inPhase = (phase: RecordSeen["phase"], evidence: RecordSeen["evidence"] = "confirmed"): RecordSeen => ({
  ...armed,
  phase,
  evidence,
});

export const brakeDefaults = valuesOf(brakeSettings);

/** Free brakes, with these slots in the Lease. */
export function brakesWith(contents: Partial<FenceSlots> = {}, changes: Partial<BrakesView> = {}): BrakesView {
  const lease = { uid: "slots-uid", resourceVersion: "40" };
  const slots = { lease, contents: { ...noSlots, ...contents } };
  return { settings: brakeDefaults, slots, ended: new Set(), nodes: [], stranded: [], ...changes };
}

/** The slot that a claimed or armed fence has. */
function withOwnSlot(record: FenceSnapshot["record"]): BrakesView {
  if (typeof record !== "object" || !["claimed", "armed"].includes(record.phase)) return brakesWith();
  return brakesWith({ slots: [{ fenceId: record.fenceId, node: "n", takenMs: record.sinceMs }] });
}

export function decided(changes: Partial<FenceSnapshot>): FenceVerdict {
  const { record } = changes;
  const sinceMs = typeof record === "object" ? record.sinceMs : 1_000_000;
  const around = {
    nowMs: sinceMs,
    name: "n",
    node: marked,
    record: undefined,
    agent,
    time: undefined,
    proposal: undefined,
    ledgers: undefined,
    bound: [],
    brakes: withOwnSlot(record),
    newFenceId: "fence-1",
  };
  return decide({ ...around, ...changes });
}

export function shown(phase: string, hold: string): NodeSeen {
  return { ...tainted, shown: { fenceId: "fence-1", phase, hold } };
}

export function away(phase: string): NodeSeen {
  const shownFence = { fenceId: "fence-1", phase, hold: undefined };
  return {
    ...tainted,
    isReady: false,
    isReporting: false,
    confirmed: "fence-1",
    outOfService: "ours",
    shown: shownFence,
  };
}

export function othersTaint(): NodeSeen {
  return { ...tainted, isReady: false, isReporting: false, outOfService: "others" };
}

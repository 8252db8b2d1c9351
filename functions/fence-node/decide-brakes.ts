/** Whether a fence may go on to what happens to its node, and what it needs for that: a slot. Pure. */

import { slotsName } from "../shared/annotations/fencing-leases.ts";
import type { FenceSlot, FenceSlots } from "../shared/annotations/fencing-slots.ts";
import { isUnhealthy, stormOf } from "../shared/fencing/decide-storm.ts";
import type { BrakesView } from "./brakes-view.ts";
import type { FenceSnapshot, FenceStep, FenceVerdict, RecordSeen } from "./snapshot.ts";
import { namesOf, onRecord, wait } from "./verdicts.ts";

/** A slot is free so long after a fence took it, in milliseconds: a machine that is dead does not keep the next one waiting. */
export const slotLastsMs = 600_000;
/** How soon a fence is reconciled again that waits for a brake, in milliseconds. */
const brakeRequeueMs = 10_000;
/** A storm that lasts is written again after this time, in milliseconds. */
const stormNotedEveryMs = 20_000;

type Fence = Pick<FenceSnapshot, "name" | "nowMs" | "brakes">;

/**
 * The slot that a claimed fence takes, or what it waits for. Undefined where it has a slot that is not too old. A fence without
 * one takes it under the version of the Lease that was read, so that two fences never take the last one together.
 */
export function decideSlot(fence: Fence, record: RecordSeen): FenceVerdict | undefined {
  const { brakes, name, nowMs } = fence;
  const { lease, contents } = brakes.slots;
  if (contents === "unreadable") {
    const message = `this version of Sluice cannot read which fences have a slot, and ${name} gets none: run the version that wrote the Lease ${slotsName}, or delete it`;
    return onRecord(wait("slots-unreadable", message, brakeRequeueMs));
  }
  if (hasSlot(contents, record, nowMs)) return undefined;
  const isStorm = stormIn(brakes) !== undefined;
  if (isStorm && isStormToBeNoted(contents, brakes, nowMs)) {
    const step: FenceStep = { kind: "note-storm", lease, contents: { ...contents, stormMs: nowMs } };
    return { guard: "storm", message: "a storm of nodes is noted", step, requeueAfterMs: undefined };
  }
  const braked = budget(fence, contents) ?? storm(fence, contents) ?? controlPlane(fence, contents);
  if (braked !== undefined) return onRecord(wait(braked.guard, braked.message, brakeRequeueMs));
  const message = `the fence of ${name} takes a slot`;
  const step: FenceStep = { kind: "take-slot", lease, contents: withSlot(fence, contents, record) };
  return { guard: "taking-slot", message, step, requeueAfterMs: undefined };
}

/** The slot of a fence goes where it has evidence, or ends: undefined where it has none. */
export function decideRelease({ name, brakes }: Fence, { fenceId }: RecordSeen): FenceVerdict | undefined {
  const { lease, contents } = brakes.slots;
  if (contents === "unreadable" || !contents.slots.some((slot) => slot.fenceId === fenceId)) return undefined;
  const slots = contents.slots.filter((slot) => slot.fenceId !== fenceId);
  const step: FenceStep = { kind: "release-slot", lease, contents: { ...contents, slots } };
  return { guard: "releasing", message: `the fence of ${name} gives its slot back`, step, requeueAfterMs: undefined };
}

/** True where the fence has a slot that counts. An older one has to be taken again, because another fence may have it now. */
export function hasSlot({ slots }: FenceSlots, { fenceId }: RecordSeen, nowMs: number): boolean {
  return slots.some((slot) => slot.fenceId === fenceId && isUnexpired(slot, nowMs));
}

/** A time far ahead is that of a clock that was set back: it does not count for ever either. */
const isUnexpired = ({ takenMs }: FenceSlot, nowMs: number): boolean => Math.abs(nowMs - takenMs) < slotLastsMs;

/** The slots that no other fence may take. */
function takenSlots({ brakes, nowMs }: Fence, { slots }: FenceSlots): readonly FenceSlot[] {
  return slots.filter((slot) => isUnexpired(slot, nowMs) && !brakes.ended.has(slot.fenceId));
}

/** Slots of fences that have ended go. One that only time has freed stays, so that its fence counts once for the hour. */
function withSlot(fence: Fence, contents: FenceSlots, { fenceId }: RecordSeen): FenceSlots {
  const { name: node, nowMs } = fence;
  const own = { fenceId, node, takenMs: nowMs };
  const others = contents.slots.filter((slot) => slot.fenceId !== fenceId && !fence.brakes.ended.has(slot.fenceId));
  const isCounted = contents.slots.some((slot) => slot.fenceId === fenceId);
  const times = contents.fencedMs.get(node) ?? [];
  const fencedMs = isCounted ? contents.fencedMs : new Map([...contents.fencedMs, [node, [...times, nowMs]]]);
  return { ...contents, slots: [...others, own], fencedMs };
}

interface Brake {
  readonly guard: string;
  readonly message: string;
}

function budget(fence: Fence, contents: FenceSlots): Brake | undefined {
  const taken = takenSlots(fence, contents);
  const { fenceMaxConcurrent } = fence.brakes.settings;
  if (taken.length < fenceMaxConcurrent) return undefined;
  const nodes = namesOf(taken.map(({ node }) => node));
  const message = `${fence.name} waits for a slot: ${taken.length} of ${fenceMaxConcurrent} are taken (${nodes}). A slot is free when there is evidence, and ${slotLastsMs / 60_000} minutes after it was taken`;
  return { guard: "budget", message };
}

const stormIn = ({ nodes = [], settings }: BrakesView) => stormOf(nodes, settings.fenceStormPercent);

function isStormToBeNoted({ stormMs }: FenceSlots, { settings }: BrakesView, nowMs: number): boolean {
  const everyMs = Math.min(stormNotedEveryMs, settings.fenceStormCooldownMs / 2);
  return everyMs > 0 && (stormMs === undefined || Math.abs(nowMs - stormMs) >= everyMs);
}

function storm({ brakes, name, nowMs }: Fence, { stormMs }: FenceSlots): Brake | undefined {
  const { fenceStormPercent, fenceStormCooldownMs } = brakes.settings;
  const unhealthy = stormIn(brakes);
  if (unhealthy !== undefined) {
    const names = namesOf(unhealthy.map((node) => node.name));
    const message = `${name} waits for the end of a storm: ${unhealthy.length} of ${brakes.nodes?.length} nodes are marked or not Ready (${names}), more than ${fenceStormPercent} %`;
    return { guard: "storm", message };
  }
  if (stormMs === undefined || Math.abs(nowMs - stormMs) >= fenceStormCooldownMs) return undefined;
  const seconds = Math.ceil((stormMs + fenceStormCooldownMs - nowMs) / 1_000);
  const message = `${name} waits for ${seconds} s more: no more than ${fenceStormPercent} % of the nodes are marked or not Ready now, and ${fenceStormCooldownMs / 1_000} s have to pass after a storm`;
  return { guard: "storm", message };
}

/** The control plane survives one node that is away, and seldom two. */
function controlPlane(fence: Fence, contents: FenceSlots): Brake | undefined {
  const { name, brakes } = fence;
  const { nodes = [] } = brakes;
  if (nodes.find((node) => node.name === name)?.isControlPlane !== true) return undefined;
  const withSlot = new Set(takenSlots(fence, contents).map(({ node }) => node));
  const others = nodes.filter((node) => node.isControlPlane && node.name !== name);
  const away = others.filter((node) => isUnhealthy(node) || node.hasRecord || withSlot.has(node.name));
  if (away.length === 0) return undefined;
  const names = namesOf(away.map((node) => node.name));
  const message = `${name} is of the control plane, and ${away.length} of its ${others.length} other nodes are marked, not Ready, or fenced: ${names}`;
  return { guard: "control-plane", message };
}

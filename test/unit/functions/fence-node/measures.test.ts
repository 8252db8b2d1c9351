/** What the metrics show of fences and agents: by the texts of Leases, which any client of the namespace may have written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { measureAgents, measureFences } from "../../../../functions/fence-node/measures.ts";
import { formatSlots, noSlots } from "../../../../functions/shared/annotations/fencing-slots.ts";
import type { LeaseObject } from "../../../../functions/shared/kubernetes/cluster.ts";

const nowMs = Date.UTC(2026, 10, 28);
const minuteMs = 60_000;
const timeOf = (minutesAgo: number) => new Date(nowMs - minutesAgo * minuteMs).toISOString();

function lease(name: string, texts: Readonly<Record<string, string>>): LeaseObject {
  const annotations = Object.fromEntries(Object.entries(texts).map(([key, text]) => [`sluice.dev/${key}`, text]));
  const metadata = { name, namespace: "sluice-fencing", uid: name, resourceVersion: "1", annotations };
  return { metadata: { ...metadata, creationTimestamp: timeOf(90) } };
}

const recordOf = (node: string, phase: string, minutesAgo: number, more: Readonly<Record<string, string>> = {}) =>
  lease(`fence-${node}`, {
    format: "1",
    "fence-id": `id-${node}`,
    "fence-phase": phase,
    "fence-since": timeOf(minutesAgo),
    "fence-boot-id": "boot",
    "fence-machine": "machine",
    ...more,
  });

test("fences are counted by phase, and those that wait by guard, with the earliest time", () => {
  const { phases, waiting } = measureFences([
    recordOf("a", "armed", 5, { "fence-hold": "quorum" }),
    recordOf("b", "armed", 20, { "fence-hold": "quorum" }),
    recordOf("c", "claimed", 1, { "fence-hold": "budget" }),
    recordOf("d", "armed", 60),
  ]);
  assert.deepEqual([phases.get("armed"), phases.get("claimed"), phases.get("fenced")], [3, 1, 0]);
  assert.deepEqual(waiting, [
    { guard: "quorum", fences: 2, sinceMs: nowMs - 20 * minuteMs },
    { guard: "budget", fences: 1, sinceMs: nowMs - minuteMs },
  ]);
});

test("a record that cannot be read waits since it was made", () => {
  const { phases, waiting } = measureFences([recordOf("a", "armed", 5, { format: "2" })]);
  assert.deepEqual([phases.get("unreadable"), phases.get("armed")], [1, 0]);
  assert.deepEqual(waiting, [{ guard: "record-unreadable", fences: 1, sinceMs: nowMs - 90 * minuteMs }]);
});

test("a client that edits records makes no label of any text, and at most 40 of them", () => {
  const odd = measureFences([recordOf("a", "armed", 5, { "fence-hold": 'x"\n} 1' })]);
  assert.deepEqual(
    odd.waiting.map(({ guard }) => guard),
    ["unknown"],
  );
  const letters = "abcdefghijklmnopqrstuvwxyz";
  const many = Array.from({ length: 100 }, (_, at) =>
    recordOf(`n-${at}`, "armed", 5, { "fence-hold": `${letters[at % 26]}${letters[Math.floor(at / 26)]}` }),
  );
  assert.equal(measureFences(many).waiting.length, 40);
});

test("nodes are counted by the mode of their agent, with a 0 for each mode that none has", () => {
  const { modes } = measureAgents(["armed", "armed", "silent", "none"], [], nowMs);
  assert.deepEqual(Object.fromEntries(modes), {
    armed: 2,
    "explicit-only": 0,
    disarmed: 0,
    unknown: 0,
    silent: 1,
    none: 1,
  });
});

test("a slot is taken until its fence has evidence or ends, and for 10 minutes at most", () => {
  const slot = (node: string, minutesAgo: number) => ({
    fenceId: `id-${node}`,
    node,
    takenMs: nowMs - minutesAgo * minuteMs,
  });
  const slots = [slot("a", 1), slot("b", 1), slot("c", 11), slot("gone", 1), slot("d", 2)];
  const text = formatSlots({ ...noSlots, slots }, nowMs);
  const leases = [
    recordOf("a", "armed", 1),
    recordOf("b", "stopped", 1),
    recordOf("c", "armed", 11),
    recordOf("d", "claimed", 2),
  ];
  const slotsLease = (format: string) => lease("fence-slots", { format, "fence-slots": text });
  const takenWith = (more: readonly LeaseObject[]) => measureAgents([], [...leases, ...more], nowMs).slots;
  assert.equal(takenWith([slotsLease("1")]), 2);
  assert.equal(takenWith([slotsLease("2")]), undefined, "it cannot be read");
  assert.equal(takenWith([]), 0);
});

/** The text of the Lease `fence-slots`: what it keeps, and how long it may become. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type FenceSlots,
  fenceSlots,
  formatSlots,
  mostFencedNodes,
  mostFencesOfNode,
  noSlots,
} from "../../../../functions/shared/annotations/fencing-slots.ts";

const nowMs = 1_800_000_000_000;
const hourMs = 3_600_000;
const fencedAt = (times: Readonly<Record<string, readonly number[]>>): FenceSlots => ({
  ...noSlots,
  fencedMs: new Map(Object.entries(times)),
});
const kept = (contents: FenceSlots) => fenceSlots.parse(formatSlots(contents, nowMs))?.fencedMs;

test("what is written is read again", () => {
  const slots = [{ fenceId: "fence-1", node: "n", takenMs: nowMs }];
  for (const stormMs of [undefined, nowMs - 1]) {
    const contents = { slots, fencedMs: new Map([["n", [nowMs - 2, nowMs - 1]]]), stormMs };
    assert.deepEqual(fenceSlots.parse(formatSlots(contents, nowMs)), contents);
  }
  assert.deepEqual(fenceSlots.parse(formatSlots(noSlots, nowMs)), noSlots);
});

test("fences that are an hour old are left out, and so are those of a clock that was set back", () => {
  const times = { a: [nowMs - hourMs, nowMs - hourMs + 1], b: [nowMs - hourMs], c: [nowMs + hourMs] };
  assert.deepEqual(kept(fencedAt(times)), new Map([["a", [nowMs - hourMs + 1]]]));
});

test("of many fences the last ones are kept: 20 of a node, and 5,000 nodes", () => {
  const many = Array.from({ length: mostFencesOfNode + 3 }, (_, at) => nowMs - 100 + at);
  assert.deepEqual(kept(fencedAt({ n: many })), new Map([["n", many.slice(3)]]));
  const nodes = Array.from({ length: mostFencedNodes + 10 }, (_, at) => [`n${at}`, [nowMs - 10_000 + at]] as const);
  const names = [...(kept(fencedAt(Object.fromEntries(nodes))) ?? new Map()).keys()];
  assert.equal(names.length, mostFencedNodes);
  assert.ok(!names.includes("n9") && names.includes("n10") && names.includes(`n${mostFencedNodes + 9}`));
});

test("the text stays below what an object may have, with names of any length: the oldest fences go", () => {
  const nodes = Array.from({ length: mostFencedNodes }, (_, at) => {
    return [String(at).padStart(247, "n"), [nowMs - mostFencedNodes + at]] as const;
  });
  const slots = Array.from({ length: 100 }, () => ({ fenceId: "f".repeat(36), node: "n".repeat(253), takenMs: nowMs }));
  const text = formatSlots({ ...fencedAt(Object.fromEntries(nodes)), slots }, nowMs);
  assert.ok(text.length < 200_000, `${text.length} characters`);
  const { slots: written = [], fencedMs = new Map() } = fenceSlots.parse(text) ?? {};
  assert.equal(written.length, 100);
  assert.ok(fencedMs.size > 500 && fencedMs.has(nodes.at(-1)?.[0] ?? "") && !fencedMs.has(nodes[0]?.[0] ?? ""));
});

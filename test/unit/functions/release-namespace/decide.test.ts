/** Which objects of a deleted namespace lose our finalizers, when, and which of them the verdict names. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, type KeptObject, ourFinalizers } from "../../../../functions/release-namespace/decide.ts";

const endingSinceMs = Date.parse("2026-01-31T12:00:00Z");
const [volumeHold = "", , releaseFinalizer = ""] = ourFinalizers;

function kept(name: string, finalizers: readonly string[]): KeptObject {
  const metadata = { name, namespace: "ns", uid: `uid of ${name}`, resourceVersion: "1" };
  const shown = `persistentvolumeclaims ${name}`;
  return {
    resource: "persistentvolumeclaims",
    object: { metadata },
    pvc: undefined,
    shown,
    finalizers,
    isKept: false,
  };
}

test("an owner keeps our finalizer for 3 s after the deletion of its namespace, and loses it then; others' finalizers stay", () => {
  const owner = kept("orders", ["example.com/other", releaseFinalizer]);
  const after = (ms: number) => {
    const { guard, releases, requeueAfterMs } = decide({ nowMs: endingSinceMs + ms, endingSinceMs, kept: [owner] });
    return [guard, releases.map(({ finalizers }) => finalizers), requeueAfterMs];
  };
  assert.deepEqual(after(2_999), ["labels-first", [], 1_000]);
  assert.deepEqual(after(3_000), ["releasing", [["example.com/other"]], 1_000]);
});

test("the verdict names at most five objects that lose our finalizers, in their order, and counts the others", () => {
  const named = (names: readonly string[]) => {
    const verdict = decide({
      nowMs: endingSinceMs,
      endingSinceMs,
      kept: names.map((name) => kept(name, [volumeHold])),
    });
    assert.deepEqual([verdict.guard, verdict.releases.length], ["releasing", names.length]);
    return [verdict.message.match(/\b[a-z]-\d/g) ?? [], /and -?\d+ more/.exec(verdict.message)?.[0]];
  };
  const names = ["d-7", "d-2", "d-6", "d-4", "d-1", "d-3", "d-5"];
  const firstFive = ["d-1", "d-2", "d-3", "d-4", "d-5"];
  assert.deepEqual(named(["d-0"]), [["d-0"], undefined]);
  assert.deepEqual(named(names.filter((name) => firstFive.includes(name))), [firstFive, undefined]);
  assert.deepEqual(named(names.slice(1)), [firstFive, "and 1 more"]);
  assert.deepEqual(named(names), [firstFive, "and 2 more"]);
});

/** The order of a reconcile of an object, whichever function decides its steps. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../../../functions/shared/contract/reporter.ts";
import {
  actOnReadWithinMs,
  type ObjectReconciler,
  type ObjectVerdict,
  reconcileObject,
  type WriteResult,
} from "../../../../functions/shared/reconcile/reconcile-object.ts";

const key: ObjectRef = { resource: "statefulsets", namespace: "shop", name: "orders" };
const waits: ObjectVerdict = { guard: "waits", message: "it waits", step: undefined, requeueAfterMs: 2_000 };
const writes = (kind: string): ObjectVerdict => ({
  guard: kind,
  message: `it needs ${kind}`,
  step: { kind },
  requeueAfterMs: 7,
});

interface Played {
  /** The verdict of each reconcile; the last one repeats. */
  readonly verdicts: readonly ObjectVerdict[];
  readonly eventResult?: WriteResult;
  readonly written?: WriteResult;
  readonly mode?: Context["mode"];
  /** Duration of each reconcile, in milliseconds. */
  readonly readMs?: number;
}

/** One reconcile: its reports and writes, in order, and when the next one is due. */
async function reconcileOnce({ verdicts, eventResult, written = "done", mode = "act", readMs = 0 }: Played) {
  const history: string[] = [];
  let [nowMs, rounds] = [0, 0];
  const reporter = { ...silentReporter, verdict: ({ guard }: { guard: string }) => void history.push(guard) };
  const cluster = { monotonicMs: () => nowMs, serverTimeMs: () => nowMs };
  const context = { cluster, memoryOf: createMemory(), reporter, mode } as unknown as Context;
  const reconciler: ObjectReconciler<number, ObjectVerdict> = {
    name: "play",
    refusedForMs: 9_000,
    dispensable: ["luxury"],
    async observe() {
      nowMs += readMs;
      return rounds++;
    },
    decide: (read, refused) => (refused.has("luxury") ? waits : (verdicts[read] ?? verdicts.at(-1) ?? waits)),
    async record() {
      history.push("announce");
      return eventResult ?? "told";
    },
    async carryOut(_, { kind }) {
      history.push(`write ${kind}`);
      return written;
    },
  };
  const { requeueAfterMs } = await reconcileObject(context, reconciler, key);
  return { history, requeueAfterMs };
}

test("each step is reported, recorded as an Event, then carried out, and the object is read again until no step is left", async () => {
  const { history, requeueAfterMs } = await reconcileOnce({ verdicts: [writes("a"), writes("b"), waits] });
  assert.deepEqual(history, ["a", "announce", "write a", "b", "announce", "write b", "waits", "announce"]);
  assert.equal(requeueAfterMs, 2_000);
});

test("no step is carried out before its Event could be recorded", async () => {
  const { history, requeueAfterMs } = await reconcileOnce({ verdicts: [writes("a")], eventResult: "refused" });
  assert.deepEqual(history, ["a", "announce", "owner-refused"]);
  assert.equal(requeueAfterMs, 9_000);
});

test("a step is not carried out if its read is too old", async () => {
  const atOnce = await reconcileOnce({ verdicts: [writes("a"), waits], readMs: actOnReadWithinMs });
  assert.ok(atOnce.history.includes("write a"));
  const late = await reconcileOnce({ verdicts: [writes("a"), waits], readMs: actOnReadWithinMs + 1 });
  assert.deepEqual(late.history, ["a", "announce", "waits", "announce"]);
});

test("a refusal ends the reconcile, unless it can go on without that step", async () => {
  const refused = await reconcileOnce({ verdicts: [writes("a")], written: "refused" });
  assert.deepEqual(refused, { history: ["a", "announce", "write a", "owner-refused"], requeueAfterMs: 9_000 });
  const { history, requeueAfterMs } = await reconcileOnce({ verdicts: [writes("luxury")], written: "refused" });
  assert.deepEqual(history, ["luxury", "announce", "write luxury", "owner-refused", "waits", "announce"]);
  assert.equal(requeueAfterMs, 9_000, "the step is tried again then");
});

test("while other clients write the same object, a reconcile ends after ten rounds, and comes again in half a second", async () => {
  const { history, requeueAfterMs } = await reconcileOnce({ verdicts: [writes("a")], written: "changed" });
  assert.equal(history.filter((line) => line === "write a").length, 10);
  assert.equal(requeueAfterMs, 500);
});

test("in shadow mode no Event is recorded and no step is carried out", async () => {
  assert.deepEqual(await reconcileOnce({ verdicts: [writes("a")], mode: "shadow" }), {
    history: ["a"],
    requeueAfterMs: 7,
  });
});

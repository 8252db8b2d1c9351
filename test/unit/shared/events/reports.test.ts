/** Events that are sent once, and the last report of a review that waits. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { findWait, recordWait } from "../../../../functions/shared/admission/refusal-events.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import type { NewEvent } from "../../../../functions/shared/events/event.ts";
import { recordOnce } from "../../../../functions/shared/events/recorder.ts";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { nowMs, statefulSet } from "../../functions/advance-zone-rollout/given.ts";
import { key } from "../reconcile/harness.ts";

interface StoredEvent {
  readonly metadata: { readonly name: string };
}

/** An API server that keeps Events by their names, and whose clock the test sets. */
function stageOf({ mode = "on", code = 404 }: { readonly mode?: string; readonly code?: number } = {}) {
  const sent = new Map<string, StoredEvent>();
  let atMs = nowMs;
  const cluster = {
    serverTimeMs: () => atMs,
    async create(_: string, at: unknown, event: StoredEvent = at as StoredEvent) {
      sent.set(event.metadata.name, event);
      return event;
    },
    async get(resource: string, { name }: { readonly name: string }) {
      const found = sent.get(name);
      if (found === undefined) throw new ClusterError({ code, reason: "No", message: "", verb: "get", resource });
      return found;
    },
  };
  const problems: unknown[] = [];
  const reporter = { problem: (...given: unknown[]) => problems.push(given) };
  const context = { cluster, reporter, mode, memoryOf: createMemory() } as unknown as Context;
  const goTo = (ms: number): void => {
    atMs = ms;
  };
  return { context, sent, problems, goTo };
}

const owner = statefulSet("a");
const event = (identity: string): NewEvent => ({
  ...{ about: { resource: "statefulsets", ...owner }, type: "Normal", reason: "Test" },
  ...{ message: identity, identity },
});

test("an Event is sent once for each identity, and none in shadow mode", async () => {
  const { context, sent, problems } = stageOf();
  for (const identity of ["one", "one", "other"]) await recordOnce(context, "test", key, event(identity));
  assert.deepEqual([sent.size, problems], [2, []]);
  const shadow = stageOf({ mode: "shadow" });
  await recordOnce(shadow.context, "test", key, event("one"));
  assert.deepEqual([shadow.sent.size, shadow.problems], [0, []]);
});

describe("the last report of a review that waits", () => {
  const denied = { guard: "budget", message: "1 of 3 is down" } as never;
  const minuteMs = 60_000;

  test("is found in its minute and in the next one, and not later", async () => {
    const { context, goTo, sent } = stageOf();
    const find = async () => (await findWait(context.cluster, owner))?.message;
    assert.equal(await find(), undefined);
    recordWait(context, "test", owner, denied);
    await Promise.resolve();
    assert.equal(sent.size, 1);
    assert.equal(await find(), "budget: 1 of 3 is down");
    goTo(nowMs + minuteMs);
    assert.equal(await find(), "budget: 1 of 3 is down");
    goTo(nowMs + 2 * minuteMs);
    assert.equal(await find(), undefined);
    goTo(nowMs - minuteMs);
    assert.equal(await find(), undefined, "it is not of this minute");
  });

  test("is none for a user who may not read Events, and another error is thrown", async () => {
    assert.equal(await findWait(stageOf({ code: 403 }).context.cluster, owner), undefined);
    await assert.rejects(findWait(stageOf({ code: 503 }).context.cluster, owner), { code: 503 });
  });
});

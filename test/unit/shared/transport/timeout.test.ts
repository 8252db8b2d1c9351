import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { withTimeout } from "../../../../functions/shared/transport/timeout.ts";
import { createVirtualClock } from "../kubernetes/virtual-clock.ts";

/** Work that takes this long, and fails as soon as it is aborted. */
function lasting(clock: ReturnType<typeof createVirtualClock>, ms: number) {
  return async (ending: AbortSignal) => {
    await clock.sleep(ms, ending);
    if (ending.aborted) throw new Error("ended");
    return "done";
  };
}

function play(workMs: number) {
  const clock = createVirtualClock();
  const caller = new AbortController();
  const fired: unknown[] = [];
  const errorOf = (error: unknown, why?: string) => {
    fired.push([error instanceof Error ? error.message : error, why]);
    return new Error(`told ${why}`);
  };
  const run = (work = lasting(clock, workMs)) =>
    withTimeout({ clock, timeoutMs: 1_000, signal: caller.signal, errorOf }, work).catch(
      (error: unknown) => (error as Error).message,
    );
  return { clock, caller, reported: fired, run };
}

describe("the time of a call", () => {
  test("work that ends in time leaves no timer, and no listener that would abort it later", async () => {
    const { clock, caller, reported: fired, run } = play(999);
    let ending: AbortSignal | undefined;
    const outcome = run((signal) => {
      ending = signal;
      return lasting(clock, 999)(signal);
    });
    await clock.goTo(999);
    assert.equal(await outcome, "done");
    assert.equal(clock.pending, 0);
    caller.abort();
    assert.deepEqual([ending?.aborted, fired], [false, []]);
  });

  test("work that takes longer is aborted, and its error says so", async () => {
    const { clock, reported: fired, run } = play(1_001);
    const outcome = run();
    await clock.goTo(1_000);
    assert.equal(await outcome, "told time");
    assert.deepEqual([fired, clock.pending], [[["ended", "time"]], 0]);
  });

  test("a caller that aborts ends the work, and an already aborted one starts none", async () => {
    const { clock, caller, reported: fired, run } = play(500);
    const outcome = run();
    await clock.goTo(100);
    caller.abort();
    assert.equal(await outcome, "told aborted");
    assert.equal(await run(() => assert.fail("it was started")), "told aborted");
    assert.deepEqual(fired, [
      ["ended", "aborted"],
      [undefined, "aborted"],
    ]);
    assert.equal(clock.pending, 0);
  });

  test("an error of the work itself has no reason of ours", async () => {
    const { clock, reported: fired, run } = play(0);
    assert.equal(await run(() => Promise.reject(new Error("broke"))), "told undefined");
    assert.deepEqual([fired, clock.pending], [[["broke", undefined]], 0]);
  });
});

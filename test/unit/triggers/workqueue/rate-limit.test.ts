import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyedQueue, type QueueOptions } from "../../../../triggers/workqueue/queue.ts";
import { type RateLimit, RateLimiter } from "../../../../triggers/workqueue/rate-limiter.ts";
import { createVirtualClock } from "../../shared/kubernetes/virtual-clock.ts";

/** A queue of strings whose runs take no time. `runs`: `key@ms`. */
function createQueue(options: Partial<QueueOptions<string>>) {
  const clock = createVirtualClock();
  const runs: string[] = [];
  const queue = new KeyedQueue<string>({
    clock,
    nameOf: (key) => key,
    async run(key) {
      runs.push(`${key}@${clock.monotonicMs()}`);
      return { requeueAfterMs: undefined, pendingActs: undefined };
    },
    onFailure() {},
    gatherMs: 0,
    concurrency: 8,
    capacity: 1_000,
    ...options,
  });
  /** Offers keys again and again, every ten milliseconds. */
  const flood = async (untilMs: number, keyOf: (round: number) => string): Promise<number> => {
    let taken = 0;
    for (let round = 0; clock.monotonicMs() < untilMs; round++) {
      if (queue.offer(keyOf(round))) taken++;
      await clock.goTo(clock.monotonicMs() + 10);
    }
    return taken;
  };
  return { queue, clock, runs, flood };
}

const rateLimit: RateLimit = { burst: 3, everyMs: 1_000 };

test("a key that is triggered all the time runs at its rate, and does not delay others", async () => {
  const { queue, clock, runs, flood } = createQueue({ rateLimit });
  await flood(4_900, () => "busy");
  assert.deepEqual(
    runs.map((run) => Number(run.slice("busy@".length))),
    [0, 10, 20, 1_000, 2_000, 3_000, 4_000],
  );
  queue.offer("other");
  await clock.goTo(4_901);
  assert.ok(runs.includes("other@4900"));
});

test("a trigger beyond the rate is not lost, because the last trigger of a key has a run after it", async () => {
  const { queue, clock, runs, flood } = createQueue({ rateLimit: { burst: 1, everyMs: 1_000 } });
  await flood(100, () => "busy");
  assert.deepEqual(runs, ["busy@0"]);
  await clock.goTo(10_000);
  assert.deepEqual(runs, ["busy@0", "busy@1000"]);
  assert.equal(queue.size, 0);
});

test("a key that is exempt from the rate now runs as often as it is triggered, and keeps its burst", async () => {
  let isLimited = false;
  const { clock, runs, flood } = createQueue({ rateLimit, isRateLimited: () => isLimited });
  await flood(1_000, () => "busy");
  assert.equal(runs.length, 100);
  isLimited = true;
  runs.length = 0;
  await flood(clock.monotonicMs() + 900, () => "busy");
  assert.equal(runs.length, 3);
});

test("after a pause a key has its whole burst again", async () => {
  const { clock, runs, flood } = createQueue({ rateLimit });
  await flood(1_500, () => "busy");
  await clock.goTo(10_000);
  runs.length = 0;
  await flood(10_050, () => "busy");
  assert.deepEqual(runs, ["busy@10000", "busy@10010", "busy@10020"]);
});

test("if a key's requeue is enough, triggers before it cause no run, but a sweep does", async () => {
  const runs: string[] = [];
  const { queue, clock, flood } = createQueue({
    async run(key, { sweep }) {
      runs.push(`${key}@${clock.monotonicMs()}${sweep ? " sweep" : ""}`);
      return {
        requeueAfterMs: 1_000 - (clock.monotonicMs() % 1_000),
        absorbsEvents: key === "busy",
        pendingActs: undefined,
      };
    },
  });
  await flood(900, () => "busy");
  assert.deepEqual(runs, ["busy@0"]);
  assert.equal(queue.size, 0);
  assert.equal(queue.offer("busy", { sweep: true }), true);
  await clock.goTo(999);
  assert.deepEqual(runs, ["busy@0", "busy@900 sweep"]);
  await clock.goTo(1_000);
  assert.deepEqual(runs.slice(2), ["busy@1000"]);
  await flood(1_030, () => "other");
  assert.deepEqual(runs.slice(3), ["other@1000", "other@1010", "other@1020"]);
});

test("all keys together run at their common rate, and keys beyond the capacity are refused", async () => {
  const { queue, runs, flood } = createQueue({ limitedTogether: rateLimit, capacity: 10 });
  const taken = await flood(4_900, (round) => `key-${round}`);
  assert.equal(runs.length, 7);
  assert.equal(queue.size, 10);
  assert.equal(taken, 17);
});

test("a draining queue ignores rates, and runs what it has accepted at once", async () => {
  for (const limited of [{ rateLimit }, { limitedTogether: rateLimit }]) {
    const { queue, clock, runs, flood } = createQueue(limited);
    await flood(40, (round) => ("rateLimit" in limited ? "busy" : `key-${round}`));
    const drained = queue.drain(1_000);
    await clock.goTo(41);
    assert.equal(await drained, true);
    assert.equal(runs.length, 4);
    assert.equal(clock.pending, 0);
  }
});

test("the queue keeps nothing of keys that have been quiet", () => {
  const limiter = new RateLimiter(rateLimit);
  for (let key = 0; key < 10_000; key++) limiter.take(`key-${key}`, key);
  assert.equal(limiter.size, 1_000);
  limiter.take("last", 20_000);
  assert.equal(limiter.size, 1);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { KeyedQueue, type QueueOptions, type RunOutcome } from "../../../../triggers/workqueue/queue.ts";
import { leastBackoffMs } from "../../../../triggers/workqueue/worker.ts";
import { createVirtualClock } from "../../shared/kubernetes/virtual-clock.ts";

const done: RunOutcome = { requeueAfterMs: undefined, pendingActs: undefined };

interface Run {
  readonly key: string;
  readonly atMs: number;
  readonly sweep: boolean;
}

/** A queue of strings whose runs take `runMs`, or end as `end` says. */
function createQueue(
  options: Partial<QueueOptions<string>> & { runMs?: number; end?: (key: string, run: number) => RunOutcome } = {},
) {
  const clock = createVirtualClock();
  const runs: Run[] = [];
  const failures: { key: string; atMs: number; retryMs: number | undefined; message: string }[] = [];
  let running = 0;
  let mostRunning = 0;
  const overlapping = new Set<string>();
  const busy = new Set<string>();
  const queue = new KeyedQueue<string>({
    clock,
    nameOf: (key) => key,
    async run(key, { sweep }) {
      runs.push({ key, atMs: clock.monotonicMs(), sweep });
      if (busy.has(key)) overlapping.add(key);
      busy.add(key);
      mostRunning = Math.max(mostRunning, ++running);
      await clock.sleep(options.runMs ?? 0);
      running--;
      busy.delete(key);
      return options.end?.(key, runs.filter((run) => run.key === key).length) ?? done;
    },
    onFailure: (key, error, retryMs) =>
      failures.push({ key, atMs: clock.monotonicMs(), retryMs, message: (error as Error).message }),
    gatherMs: 20,
    concurrency: 8,
    capacity: 10_000,
    random: () => 1,
    ...options,
  });
  return { queue, clock, runs, failures, overlapping, mostRunning: () => mostRunning };
}

test("triggers of a key are collected for 20 ms from the first, and one run serves them all", async () => {
  const { queue, clock, runs } = createQueue();
  queue.offer("a");
  await clock.goTo(15);
  queue.offer("a");
  queue.offer("b");
  await clock.goTo(100);
  assert.deepEqual(
    runs.map(({ key, atMs }) => `${key}@${atMs}`),
    ["a@20", "b@35"],
  );
});

test("a key that is triggered while it runs is run once more afterwards, and never twice at once", async () => {
  const { queue, clock, runs, overlapping } = createQueue({ runMs: 100 });
  queue.offer("a");
  for (const ms of [30, 40, 119]) {
    await clock.goTo(ms);
    queue.offer("a");
  }
  await clock.goTo(1_000);
  assert.deepEqual(
    runs.map(({ atMs }) => atMs),
    [20, 120],
  );
  assert.equal(overlapping.size, 0);
});

test("a key that is triggered as its run ends also collects triggers for 20 ms", async () => {
  const { queue, clock, runs } = createQueue({ runMs: 100 });
  queue.offer("a");
  await clock.goTo(115);
  queue.offer("a");
  await clock.goTo(1_000);
  assert.deepEqual(
    runs.map(({ atMs }) => atMs),
    [20, 135],
  );
});

test("a key triggered by an event and a sweep runs once, as a sweep", async () => {
  const { queue, clock, runs } = createQueue({ runMs: 50 });
  queue.offer("a");
  queue.offer("a", { sweep: true });
  queue.offer("a");
  await clock.goTo(30);
  queue.offer("a");
  await clock.goTo(1_000);
  assert.deepEqual(
    runs.map(({ sweep }) => sweep),
    [true, false],
  );
});

test("a sweep that comes while the key runs is left to the next run", async () => {
  const { queue, clock, runs } = createQueue({ runMs: 50 });
  queue.offer("a");
  await clock.goTo(30);
  queue.offer("a", { sweep: true });
  await clock.goTo(1_000);
  assert.deepEqual(
    runs.map(({ sweep }) => sweep),
    [false, true],
  );
});

test("a requeue triggers the key by itself, unless an earlier trigger comes", async () => {
  const { queue, clock, runs } = createQueue({
    end: (_, run) => ({ ...done, requeueAfterMs: run < 3 ? 1_000 : undefined }),
  });
  queue.offer("a");
  await clock.goTo(500);
  queue.offer("a");
  await clock.goTo(10_000);
  assert.deepEqual(
    runs.map(({ atMs }) => atMs),
    [20, 520, 1_540],
  );
});

test("the earlier of two requeues counts", async () => {
  const pendingActs = Promise.resolve(200);
  const { queue, clock, runs } = createQueue({
    end: (_, run) => (run === 1 ? { requeueAfterMs: 5_000, pendingActs } : done),
  });
  queue.offer("a");
  await clock.goTo(10_000);
  assert.deepEqual(
    runs.map(({ atMs }) => atMs),
    [20, 240],
  );
});

test("a requeue after no valid number triggers nothing, and a requeue after days does not fire at once", async () => {
  const { queue, clock, runs } = createQueue({
    end: (key) => ({ ...done, requeueAfterMs: key === "a" ? Number.NaN : Number.POSITIVE_INFINITY }),
  });
  queue.offer("a");
  queue.offer("b");
  await clock.goTo(3_600_000);
  assert.equal(runs.length, 2);
});

test("acts do not delay the next run, and their result triggers the key", async () => {
  const acts = Promise.withResolvers<number | undefined>();
  const { queue, clock, runs } = createQueue({
    end: (_, run) => (run === 1 ? { requeueAfterMs: undefined, pendingActs: acts.promise } : done),
  });
  queue.offer("a");
  await clock.goTo(100);
  queue.offer("a");
  await clock.goTo(200);
  assert.equal(runs.length, 2);
  acts.resolve(1_000);
  await clock.goTo(10_000);
  assert.equal(runs[2]?.atMs, 1_220);
});

test("acts that throw are reported, and trigger the key 30 s later", async () => {
  const { queue, clock, runs, failures } = createQueue({
    end: (_, run) => (run === 1 ? { ...done, pendingActs: Promise.reject(new Error("broken")) } : done),
  });
  queue.offer("a");
  await clock.goTo(60_000);
  assert.equal(failures[0]?.message, "broken");
  assert.deepEqual(
    runs.map(({ atMs }) => atMs),
    [20, 30_040],
  );
});

test("a run that throws is tried again after longer and longer waits of up to 30 s, while other keys go on", async () => {
  const { queue, clock, runs, failures } = createQueue({
    end: (key) => {
      if (key === "bad") throw new Error("no");
      return done;
    },
  });
  queue.offer("bad", { sweep: true });
  queue.offer("good");
  await clock.goTo(200_000);
  assert.deepEqual(
    failures.slice(0, 11).map(({ retryMs }) => retryMs),
    [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000],
  );
  assert.equal(runs.filter(({ key }) => key === "good").length, 1);
  assert.ok(runs.filter(({ key }) => key === "bad").every(({ sweep }) => sweep));
});

test("the back-off has jitter: at least half of it, and never less than 100 ms", async () => {
  const least = createQueue({
    random: () => 0,
    end: () => {
      throw new Error("no");
    },
  });
  least.queue.offer("a");
  await least.clock.goTo(5_000);
  assert.deepEqual(
    least.failures.slice(0, 5).map(({ retryMs }) => retryMs),
    [100, 100, 200, 400, 800],
  );
});

test("a trigger does not shorten the back-off of a failing key, and a success ends the back-off", async () => {
  let healthy = false;
  const { queue, clock, runs, failures } = createQueue({
    leastBackoffMs: () => 30_000,
    end: () => {
      if (!healthy) throw new Error("no");
      return done;
    },
  });
  queue.offer("a");
  await clock.goTo(1_000);
  queue.offer("a");
  healthy = true;
  await clock.goTo(60_000);
  assert.deepEqual(
    runs.map(({ atMs }) => atMs),
    [20, 30_020],
  );
  healthy = false;
  queue.offer("a");
  await clock.goTo(61_000);
  assert.equal(failures.length, 2);
  assert.equal(queue.size, 1);
});

test("whatever an error asks for, even a Retry-After of an hour, a key and its sweeps wait for 30 s at most", async () => {
  const maintenance = { code: 503, reason: "", message: "maintenance", verb: "get", resource: "leases" };
  const { queue, clock, runs, failures } = createQueue({
    leastBackoffMs,
    end: (_key, run) => {
      if (run === 1) throw new ClusterError({ ...maintenance, retryAfterMs: 3_600_000 });
      if (run === 2) throw new ClusterError({ ...maintenance, retryAfterMs: 29_000 });
      return done;
    },
  });
  queue.offer("a");
  await clock.goTo(1_000);
  queue.offer("a", { sweep: true });
  await clock.goTo(120_000);
  assert.deepEqual(
    runs.map(({ atMs, sweep }) => [atMs, sweep]),
    [
      [20, false],
      [30_020, true],
      [59_020, true],
    ],
  );
  assert.deepEqual(
    failures.map(({ retryMs }) => retryMs),
    [30_000, 29_000],
  );
});

test("a success also ends the back-off of a key that is triggered again and again", async () => {
  const { queue, clock, failures } = createQueue({
    runMs: 50,
    end: (_, run) => {
      if (run !== 4) throw new Error("no");
      return done;
    },
  });
  queue.offer("a");
  await clock.goTo(900);
  queue.offer("a");
  await clock.goTo(1_100);
  assert.deepEqual(
    failures.map(({ retryMs }) => retryMs),
    [100, 200, 400, 100],
  );
});

test("no more keys run at once than allowed", async () => {
  const { queue, clock, runs, mostRunning } = createQueue({ concurrency: 3, runMs: 10 });
  for (let key = 0; key < 20; key++) queue.offer(String(key));
  await clock.goTo(1_000);
  assert.equal(runs.length, 20);
  assert.equal(mostRunning(), 3);
});

test("a full queue refuses new keys, accepts triggers of known ones, and has room again afterwards", async () => {
  const { queue, clock } = createQueue({ capacity: 2 });
  assert.deepEqual([queue.offer("a"), queue.offer("b"), queue.offer("c"), queue.offer("a")], [true, true, false, true]);
  await clock.goTo(100);
  assert.equal(queue.size, 0);
  assert.equal(queue.offer("c"), true);
});

test("keys that only wait for a requeue take no room from others", async () => {
  const { queue, clock } = createQueue({ capacity: 1, end: () => ({ ...done, requeueAfterMs: 60_000 }) });
  queue.offer("a");
  await clock.goTo(100);
  assert.equal(queue.has("a"), false);
  assert.equal(queue.offer("b"), true);
});

test("a draining queue runs what is queued at once, lets later triggers of running keys run, and takes nothing new", async () => {
  const { queue, clock, runs } = createQueue({ runMs: 100, gatherMs: 1_000 });
  queue.offer("a");
  await clock.goTo(1_050);
  queue.offer("a");
  queue.offer("b");
  const drained = queue.drain(10_000);
  assert.equal(queue.offer("a"), false);
  assert.equal(queue.offer("c"), false);
  await clock.goTo(5_000);
  assert.equal(await drained, true);
  assert.deepEqual(
    runs.map(({ key, atMs }) => `${key}@${atMs}`),
    ["a@1000", "b@1050", "a@1100"],
  );
});

test("a draining queue drops requeues, and tries keys in back-off once more", async () => {
  const { queue, clock, runs, failures } = createQueue({
    leastBackoffMs: () => 30_000,
    end: (key) => {
      if (key === "bad") throw new Error("no");
      return { ...done, requeueAfterMs: 5_000 };
    },
  });
  queue.offer("bad");
  queue.offer("good");
  await clock.goTo(1_000);
  const drained = queue.drain(60_000);
  await clock.goTo(1_001);
  assert.equal(await drained, true);
  assert.equal(clock.pending, 0);
  assert.deepEqual(
    runs.map(({ key, atMs }) => `${key}@${atMs}`),
    ["bad@20", "good@20", "bad@1000"],
  );
  assert.deepEqual(
    failures.map(({ retryMs }) => retryMs),
    [30_000, undefined],
  );
});

test("a draining queue waits for acts, but not beyond its deadline", async () => {
  const acts = Promise.withResolvers<undefined>();
  const { queue, clock } = createQueue({ end: () => ({ requeueAfterMs: undefined, pendingActs: acts.promise }) });
  queue.offer("a");
  await clock.goTo(100);
  const tooShort = queue.drain(500);
  await clock.goTo(501);
  assert.equal(await tooShort, false);
  let ended = false;
  const longEnough = queue.drain(10_000).then((inTime) => {
    ended = inTime;
  });
  await clock.goTo(1_000);
  assert.equal(ended, false);
  acts.resolve(undefined);
  await clock.goTo(1_001);
  await longEnough;
  assert.equal(ended, true);
});

test("an empty queue drains at once", async () => {
  const { queue } = createQueue();
  assert.equal(await queue.drain(10_000), true);
});

/** The queues of reviews alone: the test plays the code that serves them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as immediate } from "node:timers/promises";
import {
  type ReviewQueue,
  ReviewQueues,
  type WaitingReview,
} from "../../../../../functions/evaluate-eviction/group-commit/queue.ts";
import { notYet, tooLate } from "../../../../../functions/shared/admission/answers.ts";
import { createVirtualClock } from "../../../shared/kubernetes/virtual-clock.ts";

const eviction = { name: "group-a-0", uid: "u", isPinned: true, pin: [] };
const unanswered = {
  ...{ eviction, dryRun: false, isAnswered: false },
  ...{ resolve: () => {}, reject: () => {}, late: () => {} },
};
const reservation = { statefulSet: "group-a", ordinal: 0, uid: "u", by: "evaluate-eviction", stampMs: 0 };
const withdrawnOne = { reservation, before: undefined };

const key = { namespace: "app", group: "ingester" };

/** Batches are served in order, until the test ends them. */
function createLines() {
  const served: { readonly batch: readonly WaitingReview[]; readonly end: () => void }[] = [];
  const cluster = { monotonicMs: () => 0, sleep: () => new Promise<void>(() => {}) };
  const context = { cluster, cache: {}, reporter: { parked: () => {} } };
  const lines = new ReviewQueues(context, "decide", (_line, batch) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    served.push({ batch, end: resolve });
    return promise;
  });
  const ask = (): WaitingReview => {
    let asked: WaitingReview | undefined;
    lines.join(key, (queue) => {
      asked = { ...unanswered, queue, deadlineMs: 1_000, latestMs: 1_000 };
      return asked;
    });
    return asked ?? assert.fail();
  };
  return { lines, served, ask };
}

test("one batch of a queue is served at a time, also if a review of a forgotten queue is answered meanwhile", async () => {
  const { lines, served, ask } = createLines();
  // Its reservation was written too late, so it is answered at its deadline, whatever happens to its queue.
  const late = ask();
  served[0]?.end();
  await immediate();
  const second = ask();
  assert.notEqual(second.queue, late.queue, "the line of the first was forgotten");
  assert.equal(served.length, 2);
  lines.answer(late, tooLate());
  const third = ask();
  assert.equal(third.queue, second.queue);
  assert.equal(served.length, 2, "the second is still being decided on");
  lines.answer(second, tooLate());
  served[1]?.end();
  await immediate();
  assert.deepEqual(served[2]?.batch, [third]);
});

/** A waiting review over a clock of the test. Each reconcile takes `tookMs`. */
function createWaiting(tookMs: number, withdrawn: ReviewQueue["withdrawn"] = []) {
  const refusal = notYet("another-zone-down", "wait");
  const clock = createVirtualClock();
  const begun: number[] = [];
  let sleeps = 0;
  let change = () => {};
  const cache = {
    onChange: (listen: (namespace: string, group: string) => void) => (change = () => listen("app", "ingester")),
  };
  const counted = {
    monotonicMs: () => clock.monotonicMs(),
    sleep: (ms: number, signal?: AbortSignal) => {
      sleeps++;
      return clock.sleep(ms, signal);
    },
  };
  const context = { cluster: counted, cache, reporter: { parked: () => {} } };
  const asked: WaitingReview[] = [];
  const lines = new ReviewQueues(context, "decide", async (line, batch) => {
    begun.push(clock.monotonicMs());
    line.withdrawn = withdrawn;
    await clock.sleep(tookMs);
    lines.parkOrDeny(line, batch, () => refusal);
  });
  const join = () =>
    lines.join(key, (queue) => {
      const times = { deadlineMs: 9_000, latestMs: 9_000, parkUntilMs: 8_000 };
      const review = { ...unanswered, ...times, queue };
      asked.push(review);
      return review;
    });
  join();
  const answerAll = () => {
    for (const review of asked) lines.answer(review, tooLate());
  };
  return { clock, begun, join, answerAll, change: () => change(), sleeps: () => sleeps };
}

test("after a change during a reconcile Sluice decides waiting reviews again 25 ms after its end, and not before", async () => {
  const { clock, begun, change, sleeps } = createWaiting(900);
  await clock.goTo(901);
  await clock.goTo(1_950);
  assert.deepEqual(begun, [0, 1_900]);
  const before = sleeps();
  for (let ms = 2_000; ms < 2_700; ms += 100) {
    await clock.goTo(ms);
    change();
  }
  await clock.goTo(2_700);
  assert.ok(sleeps() - before <= 1, `${sleeps() - before} timers in one reconcile`);
  await clock.goTo(2_900);
  assert.deepEqual(begun, [0, 1_900, 2_825]);
});

test("changes are gathered for 25 ms after the first one, however many follow", async () => {
  for (const changes of [1, 3, 100]) {
    const { clock, begun, change } = createWaiting(0);
    for (let n = 0; n < changes && n < 25; n++) {
      await clock.goTo(100 + n);
      change();
    }
    await clock.goTo(126);
    assert.deepEqual(begun, [0, 125], `${changes} changes`);
  }
});

test("a review that comes while changes are gathered is decided with the waiting ones, and none is decided before", async () => {
  const { clock, begun, change, join } = createWaiting(0);
  await clock.goTo(100);
  change();
  await clock.goTo(105);
  join();
  await clock.goTo(300);
  assert.deepEqual(begun, [0, 125]);
  join();
  assert.deepEqual(begun, [0, 125, 300], "where nothing has changed it is read once");
});

test("a review that comes to a queue that emptied after a change is decided without delay", async () => {
  // A reservation that must still be withdrawn keeps the queue.
  const { clock, answerAll, begun, change, join } = createWaiting(0, [withdrawnOne]);
  await clock.goTo(100);
  change();
  answerAll();
  await clock.goTo(1_000);
  assert.deepEqual(begun, [0]);
  join();
  assert.deepEqual(begun, [0, 1_000]);
});

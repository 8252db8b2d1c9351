/** The order of calls while others get no answer: with the semaphore alone, and over real connections. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Semaphore, type SemaphoreOptions } from "../../../../functions/shared/base/semaphore.ts";
import { clock, get, rejection, until, withPods } from "../../../support/played-pods.ts";

const bounds = { mostAtOnce: 32, mostGroups: 1_000, mostPerGroup: 8, mostWaiting: 1_000 };
const never = { sleep: () => new Promise<void>(() => {}) };

/** A semaphore, and the names of the calls that have had a slot, in order. */
function play(options: Partial<SemaphoreOptions> = {}) {
  const turns = new Semaphore({ clock: never, ...bounds, ...options });
  const begun: string[] = [];
  const outcomes: string[] = [];
  const ends = new Map<string, () => void>();
  const ask = (group: string, pod: string, waitMs = 10_000) => {
    void turns.take({ group, pod }, waitMs, undefined).then((turn) => {
      if (typeof turn === "string") return void outcomes.push(`${pod} ${turn}`);
      begun.push(pod);
      ends.set(pod, turn.end);
    });
  };
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  const end = async (pod: string) => {
    ends.get(pod)?.();
    await settle();
  };
  return { ask, begun, outcomes, settle, end };
}

test("a group has at most 8 calls under way, and another group's call begins at once", async () => {
  const { ask, begun, settle, end } = play();
  for (let index = 0; index < 900; index++) ask("silent", `silent-${index}`);
  ask("good", "good-0");
  await settle();
  assert.equal(begun.length, 9);
  assert.equal(begun.at(-1), "good-0");
  await end("silent-3");
  assert.deepEqual(begun.slice(9), ["silent-8"]);
});

test("a pod has one call at a time, while other pods of its group are called", async () => {
  const { ask, begun, settle, end } = play();
  for (const pod of ["a", "a", "a", "b"]) ask("group", pod);
  await settle();
  assert.deepEqual(begun, ["a", "b"]);
  await end("b");
  assert.deepEqual(begun, ["a", "b"]);
  await end("a");
  assert.deepEqual(begun, ["a", "b", "a"]);
});

test("waiting groups take turns: a group with one call waits for one call of each other group, and not for all", async () => {
  const { ask, begun, settle, end } = play({ mostAtOnce: 2, mostGroups: 0 });
  for (const group of ["one", "two"]) for (let index = 0; index < 20; index++) ask(group, `${group}-${index}`);
  ask("last", "last-0");
  await settle();
  assert.deepEqual(begun, ["one-0", "one-1"]);
  for (let ended = 0; ended < 6; ended++) await end(begun[ended] ?? "");
  assert.deepEqual(begun.slice(2), ["one-2", "two-0", "last-0", "one-3", "two-1", "one-4"]);
});

test("if too many calls wait, the last call of the group with the most waiting is dropped for another group's call", async () => {
  const { ask, begun, outcomes, settle } = play({ mostAtOnce: 1, mostGroups: 0, mostWaiting: 3 });
  for (let index = 0; index < 5; index++) ask("silent", `silent-${index}`);
  await settle();
  assert.deepEqual(outcomes, ["silent-4 full"]);
  ask("good", "good-0");
  await settle();
  assert.deepEqual([outcomes, begun], [["silent-4 full", "silent-3 full"], ["silent-0"]]);
});

test("a call without time to wait is late at once", async () => {
  const { ask, outcomes, settle } = play({ mostAtOnce: 1, mostGroups: 0 });
  ask("group", "a");
  ask("group", "b", 0);
  await settle();
  assert.deepEqual(outcomes, ["b late"]);
});

test("a group's first call begins at once for up to 1,000 groups, even if other groups' calls never get an answer", async () => {
  const { ask, begun, settle, end } = play();
  for (let index = 0; index < 999; index++) for (const pod of ["a", "b"]) ask(`silent-${index}`, `${pod}-${index}`);
  await settle();
  assert.equal(begun.length, 999 + 32);
  ask("good", "good-0");
  await settle();
  assert.equal(begun.at(-1), "good-0");
  ask("late", "late-0");
  await settle();
  assert.equal(begun.at(-1), "good-0", "that makes 1,000 groups");
  await end("good-0");
  assert.equal(begun.at(-1), "late-0");
});

for (const groups of [3, 250, 999])
  test(`a good pod is asked within a second while 1,000 calls to pods of ${groups} other groups get no answer`, {
    timeout: 30_000,
  }, async () => {
    await withPods({ timeoutMs: 60_000, longestWaitMs: 60_000 }, async ({ address, pods, asked, answer }) => {
      answer(({ request, response }) => request.url === "/good" && response.end("good"));
      const giving = new AbortController();
      const silent = Array.from({ length: 1_000 }, (_, index) => {
        const to = { ...address, group: `silent-${index % groups}`, pod: `silent-${index}` };
        return rejection(pods.send(to, get, { signal: giving.signal }));
      });
      const underWay = Math.min(groups * 8, groups + 32, 1_000);
      await until(() => asked.length >= underWay);
      const beganMs = clock.monotonicMs();
      const { body } = await pods.send({ ...address, group: "good", pod: "good-0" }, { ...get, path: "/good" });
      assert.ok(clock.monotonicMs() - beganMs < 1_000, `${clock.monotonicMs() - beganMs} ms`);
      assert.deepEqual([body, asked.length], ["good", underWay + 1]);
      giving.abort();
      for (const one of silent) assert.equal((await one).failed, "aborted");
    });
  });

test("answers share 32 MiB while they arrive: the largest are dropped, the others arrive whole, and then the room is free again", {
  timeout: 30_000,
}, async () => {
  await withPods({ timeoutMs: 25_000 }, async ({ address, pods, asked, answer }) => {
    const bytes = 1_000_000;
    const open: (() => void)[] = [];
    answer(({ response }) => {
      response.write(Buffer.alloc(bytes));
      open.push(() => response.end());
    });
    const send = (index: number) => pods.send({ ...address, group: `group-${index}`, pod: `pod-${index}` }, get);
    for (let round = 0; round < 2; round++) {
      const before = asked.length;
      const settled: string[] = [];
      const calls = Array.from({ length: 40 }, async (_, index) => {
        const outcome = await send(index)
          .then(({ body }) => String(body.length))
          .catch((error: Error) => error.message);
        settled.push(outcome);
      });
      await until(() => asked.length === before + 40 && settled.length >= 8);
      for (const end of open.splice(0)) end();
      await Promise.all(calls);
      const whole = settled.filter((outcome) => outcome === String(bytes));
      const givenUp = settled.filter((outcome) =>
        outcome.endsWith("the answer is the largest of too many that come at once"),
      );
      assert.equal(whole.length + givenUp.length, 40, settled.join("\n"));
      assert.ok(whole.length >= 31 && whole.length <= 32, `round ${round}: ${whole.length} arrived whole`);
    }
  });
});

/** Waits until a deadline: when they end, and what they cost. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Deadlines, withinDeadline } from "../../../../functions/shared/clock/deadlines.ts";
import { createVirtualClock } from "../kubernetes/virtual-clock.ts";

function waitingRoom() {
  const clock = createVirtualClock();
  const fired: (readonly [string, number])[] = [];
  let sleeps = 0;
  const deadlines = new Deadlines({
    monotonicMs: () => clock.monotonicMs(),
    sleep: (ms, signal) => {
      sleeps++;
      return clock.sleep(ms, signal);
    },
  });
  const wait = (name: string, deadlineMs: number) => {
    const one = { deadlineMs, late: () => void fired.push([name, clock.monotonicMs()]) };
    deadlines.add(one);
    return one;
  };
  return { clock, reported: fired, deadlines, wait, sleeps: () => sleeps };
}

test("each caller is called once at its deadline, also if that is before the pending timer", async () => {
  const { clock, reported: fired, wait } = waitingRoom();
  wait("slow", 900);
  await clock.goTo(10);
  wait("soon", 30);
  wait("sooner", 20);
  await clock.goTo(5_000);
  assert.deepEqual(fired, [
    ["sooner", 20],
    ["soon", 30],
    ["slow", 900],
  ]);
});

test("of several deadlines the timer waits for the next one, whatever the order in which they came", async () => {
  const { clock, reported: fired, wait } = waitingRoom();
  wait("first", 10);
  wait("soon", 30);
  wait("late", 40);
  await clock.goTo(5_000);
  assert.deepEqual(fired, [
    ["first", 10],
    ["soon", 30],
    ["late", 40],
  ]);
});

test("work that is done in time is not late any more", async () => {
  const { clock, deadlines } = waitingRoom();
  let lateCalls = 0;
  const late = () => ++lateCalls;
  assert.equal(await withinDeadline(deadlines, 100, async () => 7, late), 7);
  await clock.goTo(5_000);
  assert.equal(lateCalls, 0);
});

test("a removed caller is not called, and one that is added after all others have gone is", async () => {
  const { clock, reported: fired, wait, deadlines } = waitingRoom();
  deadlines.delete(wait("answered", 400));
  await clock.goTo(600);
  wait("later", 700);
  await clock.goTo(2_000);
  assert.deepEqual(fired, [["later", 700]]);
});

test("a caller that is added after its deadline is called before it waits", () => {
  const { reported: fired, wait } = waitingRoom();
  wait("past", -1);
  assert.deepEqual(fired, [["past", 0]]);
});

test("a later deadline is kept, and an earlier one counts once the caller is added again", async () => {
  const { clock, reported: fired, wait, deadlines } = waitingRoom();
  const [back, forward] = [wait("back", 300), wait("forward", 9_000)];
  await clock.goTo(100);
  back.deadlineMs = 1_500;
  forward.deadlineMs = 150;
  deadlines.add(forward);
  await clock.goTo(5_000);
  assert.deepEqual(fired, [
    ["forward", 150],
    ["back", 1_500],
  ]);
});

test("a thousand callers cost no more timers than one, and none is left when no caller waits", async () => {
  const { clock, wait, deadlines, sleeps } = waitingRoom();
  const all = Array.from({ length: 1_000 }, (_, index) => wait(String(index), 60_000));
  await clock.goTo(1_000);
  assert.ok(sleeps() <= 5, `${sleeps()} timers`);
  for (const one of all) deadlines.delete(one);
  await clock.goTo(2_000);
  const before = sleeps();
  await clock.goTo(60_000);
  assert.deepEqual([sleeps(), clock.pending], [before, 0]);
});

test("the timer ends within a second after the last deadline was deleted", async () => {
  const { clock, wait, deadlines } = waitingRoom();
  const one = wait("answered", 60_000);
  await clock.goTo(500);
  deadlines.delete(one);
  await clock.goTo(1_000);
  assert.equal(clock.pending, 0);
});

test("work within its deadline returns its own result or error, late work the late answer, and neither leaves a timer", async () => {
  const { clock, deadlines } = waitingRoom();
  const after = async (ms: number, end: () => string) => {
    await clock.sleep(ms);
    return end();
  };
  const fail = () => {
    throw new Error("broken");
  };
  const started = [
    withinDeadline(
      deadlines,
      400,
      () => after(100, () => "done"),
      () => "late",
    ),
    withinDeadline(
      deadlines,
      400,
      () => after(100, fail),
      () => "late",
    ),
    withinDeadline(
      deadlines,
      400,
      () => after(900, fail),
      () => "late",
    ),
  ];
  const settled = Promise.allSettled(started);
  await clock.goTo(3_000);
  const [done, broken, late] = await settled;
  assert.deepEqual(done, { status: "fulfilled", value: "done" });
  assert.match(String(broken?.status === "rejected" && broken.reason), /broken/);
  assert.deepEqual(late, { status: "fulfilled", value: "late" });
  assert.equal(clock.pending, 0);
});

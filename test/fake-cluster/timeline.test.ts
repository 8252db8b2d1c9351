import assert from "node:assert/strict";
import { test } from "node:test";
import { RealTimeline, VirtualTimeline, virtualEpochMs } from "./timeline.ts";

test("a virtual timeline starts at a fixed date", () => {
  assert.equal(new Date(new VirtualTimeline().nowMs()).toISOString(), "2026-01-01T00:00:00.000Z");
});

test("events run in the order of their time, and those of the same time in the order of planning", () => {
  const timeline = new VirtualTimeline();
  const ran: string[] = [];
  timeline.after(20, () => ran.push("late"));
  for (let index = 0; index < 50; index++) timeline.after(10, () => ran.push(`same ${index}`));
  timeline.after(0, () => ran.push("first"));
  while (timeline.step());
  assert.deepEqual(ran, ["first", ...Array.from({ length: 50 }, (_, index) => `same ${index}`), "late"]);
  assert.equal(timeline.nowMs(), virtualEpochMs + 20);
});

test("events with random delays run in the order of their time", () => {
  const timeline = new VirtualTimeline(0);
  const times: number[] = [];
  let state = 1;
  for (let index = 0; index < 2000; index++) {
    state = (state * 48271) % 2147483647;
    timeline.after(state % 500, () => times.push(timeline.nowMs()));
  }
  timeline.runUntil(1000);
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );
  assert.equal(times.length, 2000);
});

test("a cancelled event does not run and is not pending", () => {
  const timeline = new VirtualTimeline();
  let ran = 0;
  const cancel = timeline.after(5, () => ran++);
  timeline.after(5, () => ran++);
  cancel();
  cancel();
  assert.equal(timeline.pending, 1);
  timeline.runUntil(virtualEpochMs + 10);
  assert.equal(ran, 1);
  assert.equal(timeline.pending, 0);
  assert.equal(timeline.step(), false);
});

test("runUntil stops at its end, and leaves later events", () => {
  const timeline = new VirtualTimeline(0);
  let ran = false;
  timeline.after(100, () => {
    ran = true;
  });
  timeline.runUntil(99);
  assert.deepEqual([timeline.nowMs(), ran, timeline.nextAtMs()], [99, false, 100]);
});

test("run settles every promise that an event resolved before it goes on to the next", async () => {
  const timeline = new VirtualTimeline(0);
  const seen: string[] = [];
  const sleep = (ms: number): Promise<void> => new Promise((resolve) => timeline.after(ms, resolve));
  const walk = async (name: string): Promise<void> => {
    await sleep(1);
    // Many turns of the microtask queue at the same virtual time.
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    seen.push(`${name} at ${timeline.nowMs()}`);
    await sleep(1);
    seen.push(`${name} at ${timeline.nowMs()}`);
  };
  void walk("a");
  void walk("b");
  assert.equal(await timeline.run(() => seen.length === 4), true);
  assert.deepEqual(seen, ["a at 1", "b at 1", "a at 2", "b at 2"]);
  assert.equal(await timeline.run(() => false), false);
});

test("run rejects with what an event throws", async () => {
  const timeline = new VirtualTimeline();
  timeline.after(1, () => {
    throw new Error("boom");
  });
  await assert.rejects(
    timeline.run(() => false),
    /boom/,
  );
});

test("a real timeline runs what is due and forgets what is closed", async () => {
  const timeline = new RealTimeline();
  const ran: string[] = [];
  timeline.after(1, () => ran.push("kept"));
  timeline.after(1, () => ran.push("cancelled"))();
  await new Promise<void>((resolve) => timeline.after(20, resolve));
  timeline.after(60_000, () => ran.push("closed"));
  timeline.close();
  assert.deepEqual(ran, ["kept"]);
});

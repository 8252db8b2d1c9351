import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerTime } from "../../../../functions/shared/clock/server-time.ts";

const epochMs = Date.UTC(2026, 0, 1);

function dateHeader(serverMs: number): string {
  return new Date(Math.floor(serverMs / 1000) * 1000).toUTCString();
}

/** A server whose clock is `offsetMs` ahead of the process's answers at these monotonic times, after `delayMs` each way. */
function observed(time: ServerTime, offsetMs: number, atMs: readonly number[], delayMs = 2): ServerTime {
  for (const ms of atMs) time.observe(dateHeader(ms + offsetMs), ms - delayMs, ms + delayMs);
  return time;
}

test("the server's time is unknown before the first reply", () => {
  assert.equal(new ServerTime().at(0), undefined);
  assert.equal(observed(new ServerTime(), Number.NaN, []).at(5), undefined);
});

test("one reply gives the time to about a second", () => {
  const time = observed(new ServerTime(), epochMs, [10_400]);
  const errorMs = (time.at(10_400) ?? 0) - (epochMs + 10_400);
  assert.ok(Math.abs(errorMs) <= 530, `${errorMs}`);
  assert.ok(time.uncertaintyMs() < 1_050);
});

test("replies at different parts of a second give it much more precisely", () => {
  const atMs = [1_000, 2_130, 3_260, 4_390, 5_520, 6_650, 7_780, 8_910, 9_990];
  const time = observed(new ServerTime(), epochMs + 123, atMs);
  const errorMs = (time.at(20_000) ?? 0) - (epochMs + 123 + 20_000);
  assert.ok(Math.abs(errorMs) < 120, `${errorMs}`);
  assert.ok(time.uncertaintyMs() < 200);
});

test("the true time never leaves the known bounds, whatever the delays", () => {
  const time = new ServerTime();
  let nowMs = 0;
  for (let reply = 0; reply < 500; reply++) {
    nowMs += 37 + ((reply * 7919) % 900);
    const [there, back] = [(reply * 31) % 400, (reply * 17) % 900];
    time.observe(dateHeader(epochMs + nowMs), nowMs - there, nowMs + back);
    const errorMs = (time.at(nowMs) ?? 0) - (epochMs + nowMs);
    assert.ok(Math.abs(errorMs) <= time.uncertaintyMs() / 2 + 1, `${errorMs} of ${time.uncertaintyMs()}`);
  }
  assert.ok(time.uncertaintyMs() < 400, `${time.uncertaintyMs()}`);
});

test("a change of the server's clock is followed at the next reply", () => {
  const time = observed(new ServerTime(), epochMs, [1_000, 2_300, 3_600, 4_900]);
  observed(time, epochMs - 3_600_000, [6_000]);
  const errorMs = (time.at(6_000) ?? 0) - (epochMs - 3_600_000 + 6_000);
  assert.ok(Math.abs(errorMs) <= 530, `${errorMs}`);
});

test("slow drift between the clocks is followed", () => {
  const time = new ServerTime();
  for (let ms = 0; ms < 3_600_000; ms += 1_370) observed(time, epochMs + ms * 0.0001, [ms]);
  const errorMs = (time.at(3_600_000) ?? 0) - (epochMs + 3_600_000 * 1.0001);
  assert.ok(Math.abs(errorMs) < 300, `${errorMs}`);
});

test("a header that is no date is ignored", () => {
  const time = observed(new ServerTime(), epochMs, [1_000]);
  const before = time.at(2_000);
  time.observe("yesterday", 1_500, 1_501);
  time.observe(dateHeader(0), 1_600, 1_500);
  assert.equal(time.at(2_000), before);
});

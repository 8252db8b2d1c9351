/** When the agent feeds the watchdog, starves it, or resets the machine itself: each boundary of the decision. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decideFeeding,
  type FeedingView,
  mayDisarm,
} from "../../../../../functions/fence-node/agent/decide-feeding.ts";
import { hasFenceTaint } from "../../../../../functions/fence-node/agent/decide-renewal.ts";
import { bootId, fenceId } from "./world.ts";

const fence = { fenceId, bootId };
const quiet: FeedingView = {
  nowMs: 100_000,
  permitMs: 100_000,
  permitLifeMs: 40_000,
  isArmed: false,
  fence: undefined,
  isTainted: false,
  watchdogMs: 10_000,
  isLoop: false,
  fedMs: 99_000,
};

const cases: readonly (readonly [string, Partial<FeedingView>, ReturnType<typeof decideFeeding>])[] = [
  ["no success yet in this boot", { permitMs: undefined, fedMs: undefined }, "wait"],
  ["a permit", {}, "feed"],
  ["a permit that has run out, and no fence", { permitMs: 0 }, "feed"],
  ["an armed agent without a success in this boot", { isArmed: true, permitMs: undefined }, "wait"],
  ["an armed agent with a permit of the age L", { isArmed: true, permitMs: 60_000 }, "feed"],
  ["an armed agent with an older permit", { isArmed: true, permitMs: 59_999 }, "starve"],
  [
    "an armed agent with an older permit, 2 W after the last feed",
    { isArmed: true, permitMs: 0, fedMs: 80_000 },
    "reset",
  ],
  [
    "an armed agent with an older permit, and no watchdog",
    { isArmed: true, permitMs: 0, watchdogMs: undefined },
    "reset",
  ],
  ["a fence without the taint, and a permit of the age L", { fence, permitMs: 60_000 }, "feed"],
  ["a fence without the taint, and an older permit", { fence, permitMs: 59_999 }, "starve"],
  ["a fence without the taint, and no permit in this boot", { fence, permitMs: undefined }, "wait"],
  ["a fence and the taint, and no permit in this boot", { fence, isTainted: true, permitMs: undefined }, "starve"],
  ["a fence and the taint", { fence, isTainted: true }, "starve"],
  ["a device that does not run yet", { fence, isTainted: true, fedMs: undefined }, "starve"],
  ["less than 2 W after the last feed", { fence, isTainted: true, fedMs: 80_001 }, "starve"],
  ["2 W after the last feed", { fence, isTainted: true, fedMs: 80_000 }, "reset"],
  ["a fence, and no watchdog", { fence, isTainted: true, watchdogMs: undefined }, "reset"],
  ["a fence without the taint, a permit, and no watchdog", { fence, watchdogMs: undefined }, "feed"],
  ["a taint without a fence of this boot, and a permit", { isTainted: true, isArmed: true }, "feed"],
  ["no fence, and no watchdog", { watchdogMs: undefined }, "feed"],
  ["no fence, long after the last feed", { fedMs: 0 }, "feed"],
  ["a permit in a loop of boots, and a device that does not run", { isLoop: true, fedMs: undefined }, "wait"],
  ["a permit in a loop of boots, and a device that runs", { isLoop: true }, "feed"],
  ["a fence and the taint in a loop of boots", { isLoop: true, fence, isTainted: true, fedMs: undefined }, "starve"],
];

for (const [what, view, verdict] of cases) {
  test(`${what}: ${verdict}`, () => assert.equal(decideFeeding({ ...quiet, ...view }), verdict));
}

test("a device is stopped only after the acknowledged write, without a fence, and where it can be stopped", () => {
  const allowed = { isAcknowledged: true, fence: undefined, isNoWayOut: false };
  assert.equal(mayDisarm(allowed), true);
  assert.equal(mayDisarm({ ...allowed, isAcknowledged: false }), false);
  assert.equal(mayDisarm({ ...allowed, fence }), false);
  assert.equal(mayDisarm({ ...allowed, isNoWayOut: true }), false);
});

test("the taint of a fence is known by key and effect, and what is no list of taints is no answer", () => {
  const taint = { key: "sluice.dev/fence", effect: "NoSchedule" };
  assert.equal(
    hasFenceTaint([
      { key: "other", effect: "NoSchedule" },
      { ...taint, value: "x" },
    ]),
    true,
  );
  assert.equal(hasFenceTaint([{ ...taint, effect: "NoExecute" }]), false);
  assert.equal(hasFenceTaint([{ ...taint, key: "sluice.dev/fences" }, null, "x"]), false);
  assert.equal(hasFenceTaint(undefined), false);
  assert.equal(hasFenceTaint({ 0: taint }), undefined);
});

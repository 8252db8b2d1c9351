import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type BootHistory,
  historyAfterRenewal,
  historyAfterStart,
  historyAfterStop,
  historyOfBoot,
  isLoop,
} from "../../../../../functions/fence-node/agent/decide-boots.ts";

const before = (state: BootHistory["state"], shortBoots = 1): BootHistory => ({ bootId: "b1", shortBoots, state });

test("a boot that ended while its watchdog ran counts, and a boot that lasted or was stopped ends the count", () => {
  assert.deepEqual(historyOfBoot(undefined, "b2"), { bootId: "b2", shortBoots: 0, state: "idle" });
  assert.deepEqual(historyOfBoot(before("running"), "b2"), { bootId: "b2", shortBoots: 2, state: "idle" });
  assert.deepEqual(historyOfBoot(before("over"), "b2"), { bootId: "b2", shortBoots: 0, state: "idle" });
  assert.deepEqual(historyOfBoot(before("idle", 3), "b2"), { bootId: "b2", shortBoots: 3, state: "idle" });
});

test("another process of the boot goes on with its history", () => {
  assert.deepEqual(historyOfBoot(before("running"), "b1"), before("running"));
});

test("a start of the watchdog is noted once, and an hour of contact shows that the boot is no part of a loop", () => {
  const running = historyAfterStart(before("idle"));
  assert.deepEqual(running, before("running"));
  assert.equal(historyAfterStart(running), running, "nothing is to be written");
  assert.equal(historyAfterRenewal(running, 3_599_999), running);
  const over = historyAfterRenewal(running, 3_600_000);
  assert.deepEqual(over, before("over", 0));
  assert.equal(historyAfterRenewal(over, 0), over, "a lost contact does not shorten the boot");
  assert.equal(historyAfterRenewal(over, 7_200_000), over, "nothing more is to be written");
  assert.equal(historyAfterStart(over), over);
  assert.deepEqual(historyAfterStop(running), before("over"));
});

test("the third short boot in a row makes a loop", () => {
  assert.equal(isLoop(before("idle", 2)), false);
  assert.equal(isLoop(before("idle", 3)), true);
});

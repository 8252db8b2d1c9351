import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type BootHistory,
  historyAfter,
  historyAfterStop,
  historyOfBoot,
} from "../../../../../functions/fence-node/agent/decide-boots.ts";

const before = (state: BootHistory["state"], shortBoots = 1): BootHistory => ({ bootId: "b1", shortBoots, state });

test("a boot that ended while armed counts, and a boot that lasted or was stopped ends the count", () => {
  assert.deepEqual(historyOfBoot(undefined, "b2"), { bootId: "b2", shortBoots: 0, state: "unarmed" });
  assert.deepEqual(historyOfBoot(before("armed"), "b2"), { bootId: "b2", shortBoots: 2, state: "unarmed" });
  assert.deepEqual(historyOfBoot(before("over"), "b2"), { bootId: "b2", shortBoots: 0, state: "unarmed" });
  assert.deepEqual(historyOfBoot(before("unarmed", 3), "b2"), { bootId: "b2", shortBoots: 3, state: "unarmed" });
});

test("another process of the boot goes on with its history", () => {
  assert.deepEqual(historyOfBoot(before("armed"), "b1"), before("armed"));
});

test("a renewal notes that the boot is armed, and an hour of contact that it is no part of a loop", () => {
  const unarmed = before("unarmed");
  assert.equal(historyAfter(unarmed, { isArmed: false, contactMs: 3_599_999 }), unarmed);
  const armed = historyAfter(unarmed, { isArmed: true, contactMs: 3_599_999 });
  assert.deepEqual(armed, before("armed"));
  assert.equal(historyAfter(armed, { isArmed: true, contactMs: 0 }), armed, "nothing is to be written");
  assert.equal(historyAfter(armed, { isArmed: false, contactMs: 0 }), armed, "it was armed");
  const over = historyAfter(before("armed"), { isArmed: true, contactMs: 3_600_000 });
  assert.deepEqual(over, before("over", 0));
  assert.equal(historyAfter(over, { isArmed: true, contactMs: 0 }), over, "a lost contact does not shorten the boot");
  assert.deepEqual(historyAfterStop(before("armed")), before("over"));
});

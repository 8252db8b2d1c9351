import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  type AskedLease,
  type AskedView,
  decideAnswer,
  isExcused,
  isOutOfContact,
  type PeerAnswer,
} from "../../../../../functions/fence-node/agent/decide-excuse.ts";

const fence = { fenceId: "fence", bootId: "boot" };
const inContact = { nowMs: 50_000, startedMs: 1_000, lastSuccessMs: 30_000, freshMs: 20_000 };
const lease: AskedLease = { bootId: "boot", fence: undefined, hasTaint: undefined };
const asked = (change: Partial<AskedView>): PeerAnswer =>
  decideAnswer({ ...inContact, bootId: "boot", lease, ...change });
const answers = (...all: readonly PeerAnswer[]) => new Map(all.map((answer, index) => [`p${index}`, answer]));
const three = ["p0", "p1", "p2"];

suite("what a peer answers, and what excuses an agent", () => {
  test("a peer answers alive for a Lease of the boot that asks, for which no fence is armed", () => {
    assert.equal(asked({}), "alive");
    assert.equal(asked({ lease: { ...lease, hasTaint: true } }), "alive");
  });

  test("a peer answers stop only where a fence is armed for that boot, and its Node was seen with the taint", () => {
    assert.equal(asked({ lease: { ...lease, fence, hasTaint: true } }), "stop");
    assert.equal(asked({ lease: { ...lease, fence, hasTaint: false } }), "unknown");
    assert.equal(asked({ lease: { ...lease, fence, hasTaint: undefined } }), "unknown");
  });

  test("a Lease that was not read, is missing, or is of another boot shows nothing", () => {
    assert.equal(asked({ lease: "unread" }), "unknown");
    assert.equal(asked({ lease: "missing" }), "unknown");
    for (const bootId of ["other", undefined]) {
      assert.equal(asked({ lease: { ...lease, bootId } }), "unknown");
      assert.equal(asked({ lease: { bootId, fence, hasTaint: true } }), "unknown");
    }
  });

  test("a peer that has failed for longer than X answers no-api, whatever it has read", () => {
    for (const read of ["unread", "missing", lease, { ...lease, fence, hasTaint: true }] as const) {
      assert.equal(asked({ nowMs: 50_001, lease: read }), "no-api");
    }
  });

  test("a peer is out of contact once X has passed since the later of its last success and its start", () => {
    const isOut = (change: Partial<AskedView>) => isOutOfContact({ ...inContact, ...change });
    assert.equal(isOut({}), false);
    assert.equal(isOut({ nowMs: 50_001 }), true);
    assert.equal(isOut({ nowMs: 50_001, startedMs: 30_001 }), false);
    assert.equal(isOut({ nowMs: 50_001, startedMs: 30_000, lastSuccessMs: undefined }), true);
    assert.equal(isOut({ nowMs: 50_001, startedMs: 30_001, lastSuccessMs: undefined }), false);
  });

  test("more than half of the peers excuse an agent, and no other answer counts for it", () => {
    assert.equal(isExcused([three], answers("no-api", "no-api", "unknown")), true);
    assert.equal(isExcused([three], answers("no-api", "unknown", "alive")), false);
    assert.equal(isExcused([three], answers("no-api")), false);
    assert.equal(isExcused([["p0", "p1"]], answers("no-api")), false);
  });

  test("while a new list is not acknowledged, both lists must excuse", () => {
    const received = answers("no-api", "no-api", "unknown", "unknown");
    assert.equal(isExcused([three, ["p0"]], received), true);
    assert.equal(isExcused([three, ["p2", "p3"]], received), false);
  });

  test("no peers excuse nothing", () => {
    assert.equal(isExcused([], answers("no-api")), false);
    assert.equal(isExcused([[]], answers("no-api")), false);
  });
});

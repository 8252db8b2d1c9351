import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  type AskedView,
  decideAnswer,
  isExcused,
  type PeerAnswer,
} from "../../../../../functions/fence-node/agent/decide-excuse.ts";

const fence = { fenceId: "fence", bootId: "boot" };
const asked = (change: Partial<AskedView>): PeerAnswer =>
  decideAnswer({
    nowMs: 50_001,
    startedMs: 1_000,
    lastSuccessMs: 30_000,
    freshMs: 20_000,
    lease: undefined,
    ...change,
  });
const answers = (...all: readonly PeerAnswer[]) => new Map(all.map((answer, index) => [`p${index}`, answer]));
const three = ["p0", "p1", "p2"];

suite("what a peer answers, and what excuses an agent", () => {
  test("a peer that read the Lease says whether a fence is armed for the boot", () => {
    assert.equal(asked({ lease: { fence: undefined } }), "alive");
    assert.equal(asked({ lease: { fence } }), "stop");
  });

  test("a peer says no-api only after it has failed for longer than X, and not on a failure before its start", () => {
    assert.equal(asked({}), "no-api");
    assert.equal(asked({ nowMs: 50_000 }), "unknown");
    assert.equal(asked({ startedMs: 30_001 }), "unknown");
    assert.equal(asked({ startedMs: 30_000, lastSuccessMs: undefined }), "no-api");
    assert.equal(asked({ startedMs: 30_001, lastSuccessMs: undefined }), "unknown");
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

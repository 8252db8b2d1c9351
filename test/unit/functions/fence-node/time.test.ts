import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { decideEvidence } from "../../../../functions/fence-node/decide-evidence.ts";
import { excusingPeers, provingPeers } from "../../../../functions/fence-node/decide-quorum.ts";
import { decideTime, type PeerSeen, type TimeView } from "../../../../functions/fence-node/decide-time.ts";
import { armed, armedAgent, decided, tainted } from "./fence-snapshots.ts";

/** L 40 s and W 10 s make T 62 s. */
const peer = (name: string, change: Partial<PeerSeen> = {}): PeerSeen => ({
  name,
  hasListedKey: true,
  contactMs: 62_000,
  renewals: 12,
  freshMs: 17_000,
  ...change,
});
const view = (change: Partial<TimeView> = {}): TimeView => ({
  beganMs: 162_000,
  endedMs: 163_000,
  armedMs: 100_000,
  mode: "armed",
  isBootOfNode: true,
  permitLifeMs: 40_000,
  watchdogMs: 10_000,
  isReporting: false,
  peers: [peer("b"), peer("c"), peer("d")],
  observations: [{ beganMs: 146_000, renewals: new Map(["b", "c", "d"].map((name) => [name, 10])) }],
  ...change,
});
const without = (change: Partial<PeerSeen>): TimeView => view({ peers: [peer("b", change)] });
const noQuorum = { kind: "no-quorum", inContact: 0, needed: 1 } as const;

suite("time as evidence", () => {
  test("after T = L + 2 W + 2 s with peers in contact the fenced boot is over", () => {
    assert.deepEqual(decideTime(view()), { kind: "stopped", afterMs: 62_000, inContact: 3 });
  });

  test("the time counts from the moment at which this process knew that the fence is armed, to the begin of the observation", () => {
    assert.deepEqual(decideTime(view({ armedMs: 100_001 })), { kind: "waiting", forMs: 1 });
    assert.deepEqual(decideTime(view({ armedMs: undefined })), { kind: "waiting", forMs: 62_000 });
  });

  test("time is no evidence without an armed agent of this boot, a watchdog with a time, a permit and peers", () => {
    const changes: readonly Partial<TimeView>[] = [
      { mode: "explicit-only" },
      { mode: "disarmed" },
      { mode: undefined },
      { isBootOfNode: false },
      { watchdogMs: undefined },
      { watchdogMs: 0 },
      { permitLifeMs: undefined },
      { peers: [] },
    ];
    for (const change of changes) {
      assert.deepEqual(decideTime(view(change)), { kind: "no-evidence" });
      assert.deepEqual(decideEvidence(tainted, armed, view(change)), { kind: "none" });
    }
  });

  test("a node whose kubelet reports is alive, however long its fence has been armed", () => {
    assert.deepEqual(decideTime(view({ isReporting: true })), { kind: "alive", overMs: 0 });
    assert.deepEqual(decideTime(view({ isReporting: true, armedMs: 1 })), { kind: "alive", overMs: 99_999 });
    assert.equal(
      decideTime(view({ isReporting: true, armedMs: undefined })).kind,
      "waiting",
      "before T nothing is known",
    );
  });

  test("a peer counts with the listed key, a contact of T, and two renewals since an observation that is fresh", () => {
    const changes: readonly Partial<PeerSeen>[] = [
      { hasListedKey: false },
      { contactMs: 61_999 },
      { contactMs: undefined },
      { renewals: 11 },
      { renewals: undefined },
      { freshMs: 16_999 },
      { freshMs: undefined },
      { name: "unseen" },
    ];
    assert.equal(decideTime(without({})).kind, "stopped");
    for (const change of changes) assert.deepEqual(decideTime(without(change)), noQuorum, JSON.stringify(change));
    assert.deepEqual(decideTime(view({ peers: [peer("b")], observations: [] })), noQuorum);
  });

  test("the message of the wait has the seconds that are left, rounded up", () => {
    const verdict = decideEvidence(tainted, armed, view({ armedMs: 141_500 }));
    assert.deepEqual(verdict, {
      kind: "waiting",
      forMs: 41_500,
      message: "time is evidence in 42 s at the earliest",
    });
  });

  test("one fresh observation of several is enough", () => {
    const [fresh] = view().observations;
    const old = { beganMs: 100_000, renewals: new Map([["b", 1]]) };
    const late = { beganMs: 162_000, renewals: new Map([["b", 12]]) };
    const observations = fresh === undefined ? [] : [old, fresh, late];
    assert.equal(decideTime(view({ peers: [peer("b")], observations })).kind, "stopped");
    assert.deepEqual(decideTime(view({ peers: [peer("b")], observations: [old, late] })), noQuorum);
  });

  test("so many peers are in contact that the others cannot have excused the node", () => {
    const silent = peer("d", { contactMs: 0 });
    assert.equal(decideTime(view({ peers: [peer("b"), peer("c"), silent] })).kind, "stopped");
    const verdict = decideTime(view({ peers: [peer("b"), silent, { ...silent, name: "c" }] }));
    assert.deepEqual(verdict, { kind: "no-quorum", inContact: 1, needed: 2 });
  });

  test("a fence that waits for peers is observed three times while one observation is fresh, and four times a second at most", () => {
    const forMs = (...freshMs: readonly (number | undefined)[]) => {
      const peers = freshMs.map((fresh, at) => peer(`p-${at}`, { contactMs: 0, freshMs: fresh }));
      const verdict = decideEvidence(tainted, armed, view({ peers }));
      return verdict.kind === "blocked" ? verdict.forMs : undefined;
    };
    assert.equal(forMs(17_000, 1_200, undefined), 400);
    assert.equal(forMs(17_000, 1), 250);
    const soon = decided({
      record: armed,
      node: tainted,
      agent: armedAgent,
      time: view({ peers: [peer("b", { contactMs: 0, freshMs: 1_200 })] }),
    });
    assert.deepEqual([soon.guard, soon.requeueAfterMs], ["quorum", 400]);
    const usual = decided({
      record: armed,
      node: tainted,
      agent: armedAgent,
      time: view({ peers: [peer("b", { contactMs: 0 })] }),
    });
    assert.deepEqual([usual.guard, usual.requeueAfterMs], ["quorum", 3_000]);
  });

  test("a fence that waits for its time is reconciled every three seconds, and when the time is over", () => {
    const after = (armedMs: number) => {
      const fence = { record: armed, node: tainted, agent: armedAgent, time: view({ armedMs }) };
      const { guard, requeueAfterMs } = decided(fence);
      return [guard, requeueAfterMs];
    };
    assert.deepEqual(after(101_000), ["armed", 1_000]);
    assert.deepEqual(after(110_000), ["armed", 3_000]);
  });

  test("a Node that is Ready for five minutes after the time has a watchdog that does nothing: time is no evidence any more", () => {
    const late = (overMs: number) => view({ isReporting: true, beganMs: 162_000 + overMs });
    assert.equal(decideEvidence(tainted, armed, late(299_999)).kind, "blocked");
    assert.equal(decideEvidence(tainted, armed, late(300_000)).kind, "watchdog-silent");
    const fence = { record: armed, node: tainted, time: late(300_000) };
    const { guard, step } = decided({ ...fence, agent: armedAgent });
    assert.deepEqual([guard, step?.kind], ["still-alive", "note-agent"]);
    assert.equal(step?.kind === "note-agent" && step.agent.mode, "explicit-only");
    assert.equal(decided({ ...fence, agent: undefined }).guard, "no-agent", "no Lease names that watchdog");
  });

  test("peers that prove and peers that excuse are one more than all of them, and those that excuse are more than half", () => {
    assert.deepEqual([1, 2, 3, 4, 5, 12].map(excusingPeers), [1, 2, 2, 3, 3, 7]);
    assert.deepEqual([1, 2, 3, 4, 5, 12].map(provingPeers), [1, 1, 2, 2, 3, 6]);
  });
});

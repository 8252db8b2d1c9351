/** When a group is done or idle, and when it needs a person, by table. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decideWait,
  type PresentGuard,
  type WaitSnapshot,
  type WaitZone,
} from "../../../../triggers/plugin/decide-wait.ts";

const nowMs = Date.parse("2026-11-29T12:00:00Z");
const zone: WaitZone = {
  name: "db-a",
  wanted: 3,
  down: 0,
  outdated: 0,
  isBehind: false,
  isDeleting: false,
  isRolledBySluice: true,
};
const other = { ...zone, name: "db-b" };
const guard: PresentGuard = {
  function: "advance-zone-rollout",
  guard: "delete-refused",
  message: "the API server refuses it",
  ends: "person",
  todo: "find what refuses",
  lastedMs: 60_000,
  isChosen: false,
  isRollout: true,
  hasTaken: false,
};
const whole: WaitSnapshot = {
  group: "db",
  goal: "done",
  zones: [zone, other],
  guards: [],
  stuck: [],
  lastReadyMs: nowMs,
  taken: [],
  unreadable: undefined,
  lastEvictionMs: undefined,
  nowMs,
};
const halfAnHour = 1_800_000;
const still: WaitSnapshot = {
  ...whole,
  zones: [{ ...zone, outdated: 2 }, other],
  lastReadyMs: nowMs - halfAnHour,
  guards: [{ ...guard, guard: "zones-down", ends: "depends", lastedMs: halfAnHour }],
};
const stuck = { pod: "db-a-1", why: "CrashLoopBackOff", lastedMs: 300_000, todo: "kubectl describe pod -n n db-a-1" };
const idle: WaitSnapshot = { ...whole, goal: "idle" };
const outdated = [{ ...zone, outdated: 2 }, other];

type Row = readonly [
  what: string,
  snapshot: WaitSnapshot,
  kind: ReturnType<typeof decideWait>["kind"],
  message: RegExp,
];

const rows: readonly Row[] = [
  ["all pods are ready at the wanted revision", whole, "reached", /^db is done: 6 of 6 pods ready at the wanted rev/],
  ["no pod is wanted", { ...whole, zones: [{ ...zone, wanted: 0 }] }, "reached", /^db is done: 0 of 0 pods/],
  ["a pod is not ready", { ...whole, zones: [{ ...zone, down: 1 }, other] }, "waits", /^db-a: 1 not ready of 3 pods$/],
  ["a pod is outdated", { ...whole, zones: outdated }, "waits", /^db-a: 2 outdated of 3 pods$/],
  [
    "the status is older than the spec",
    { ...whole, zones: [{ ...zone, isBehind: true }, other] },
    "waits",
    /^db-a: its controller has not seen the last change yet$/,
  ],
  [
    "one StatefulSet is being deleted",
    { ...whole, zones: [{ ...zone, wanted: 0, isDeleting: true }, other] },
    "waits",
    /^db-a is being deleted$/,
  ],
  [
    "all StatefulSets are being deleted",
    { ...whole, zones: [{ ...zone, wanted: 0, isDeleting: true }] },
    "gone",
    /^db is gone: all of its StatefulSets are being deleted$/,
  ],
  ["no StatefulSet is left", { ...whole, zones: [] }, "gone", /^db is gone: no StatefulSet is in it any more$/],
  [
    "many zones wait, and the rollout has a message",
    {
      ...whole,
      zones: Array.from({ length: 7 }, (_, n) => ({ ...zone, name: `z${n}`, outdated: 1 })),
      guards: [{ ...guard, guard: "budget", ends: "depends", message: "2 may be down" }],
    },
    "waits",
    /^z0: 1 outdated of 3 pods; .+; z4: 1 outdated of 3 pods; and 2 more; budget: 2 may be down$/,
  ],
  ["something is reserved, for done", { ...whole, taken: ["db-a-0 is reserved by x"] }, "reached", /^db is done/],
  ["something is reserved, for idle", { ...idle, taken: ["db-a-0 is reserved by x"] }, "waits", /^db-a-0 is reserved/],
  ["the ledger cannot be read, for done", { ...whole, unreadable: "no JSON" }, "reached", /^db is done/],
  ["the ledger cannot be read, for idle", { ...idle, unreadable: "no JSON" }, "waits", /^no JSON$/],
  [
    "an eviction was refused two minutes ago less a millisecond",
    { ...idle, lastEvictionMs: nowMs - 119_999 },
    "waits",
    /^an eviction was held or refused until 2026-11-29T11:58:01Z$/,
  ],
  ["an eviction was refused two minutes ago", { ...idle, lastEvictionMs: nowMs - 120_000 }, "reached", /^db is idle/],
  ["an eviction was refused, for done", { ...whole, lastEvictionMs: nowMs }, "reached", /^db is done/],
  [
    "a guard that only a person ends has held the rollout for a minute",
    { ...whole, zones: outdated, guards: [guard] },
    "needs-person",
    /^advance-zone-rollout says delete-refused, for 60 s: the API server refuses it\. To do: find what refuses$/,
  ],
  [
    "it has held for less than a minute",
    { ...whole, zones: outdated, guards: [{ ...guard, lastedMs: 59_999 }] },
    "waits",
    /^db-a: 2 outdated of 3 pods; delete-refused: the API server refuses it$/,
  ],
  ["it holds though the group is done", { ...whole, guards: [guard] }, "reached", /^db is done/],
  [
    "pods are not ready, and none is left to replace",
    { ...whole, zones: [{ ...zone, down: 1 }], guards: [guard] },
    "waits",
    /^db-a: 1 not ready/,
  ],
  [
    "a controller of Kubernetes replaces the outdated pods",
    { ...whole, zones: [{ ...zone, outdated: 2, isRolledBySluice: false }], guards: [guard] },
    "waits",
    /^db-a: 2 outdated/,
  ],
  [
    "a guard that may end by itself has held for an hour",
    { ...whole, zones: outdated, guards: [{ ...guard, ends: "depends", lastedMs: 3_600_000 }] },
    "waits",
    /^db-a: 2 outdated/,
  ],
  ["it has, and no pod became ready for half an hour", still, "needs-person", /says zones-down, for 30 min: /],
  ["a pod became ready since then", { ...still, lastReadyMs: nowMs - halfAnHour + 1 }, "waits", /^db-a: 2 outdated/],
  ["no pod was ever ready", { ...still, lastReadyMs: undefined }, "needs-person", /says zones-down/],
  [
    "it has held for less than half an hour",
    { ...still, guards: still.guards.map((one) => ({ ...one, lastedMs: halfAnHour - 1 })) },
    "waits",
    /^db-a: 2 outdated/,
  ],
  [
    "a user has asked for the wait",
    { ...still, guards: still.guards.map((one) => ({ ...one, isChosen: true })) },
    "waits",
    /^db-a: 2 outdated/,
  ],
  [
    "half an hour without a new ready pod, and the group is done",
    { ...still, goal: "idle", zones: [zone, other], taken: ["db-a-0 is reserved by x"] },
    "waits",
    /^db-a-0 is reserved/,
  ],
  [
    "a pod is stuck for five minutes",
    { ...whole, zones: [{ ...zone, down: 1 }], stuck: [stuck] },
    "needs-person",
    /^db-a-1 is in CrashLoopBackOff for 5 min, which only another revision ends\. To do: kubectl describe pod -n n db-a-1$/,
  ],
  [
    "a pod is stuck for less than five minutes",
    { ...whole, zones: [{ ...zone, down: 1 }], stuck: [{ ...stuck, lastedMs: 299_999 }] },
    "waits",
    /^db-a: 1 not ready/,
  ],
  [
    "a guard of a later version has held for an hour",
    { ...whole, zones: outdated, guards: [{ ...guard, ends: null, todo: null, lastedMs: 3_600_000 }] },
    "waits",
    /^db-a: 2 outdated/,
  ],
  [
    "the guard is of a function that has taken nothing here",
    { ...whole, zones: outdated, guards: [{ ...guard, function: "follow-replicas", isRollout: false }] },
    "waits",
    /^db-a: 2 outdated of 3 pods$/,
  ],
  [
    "the guard is of a function that has a claim here",
    {
      ...whole,
      zones: [{ ...zone, down: 1 }],
      guards: [{ ...guard, function: "advance-process-restart", isRollout: false, hasTaken: true }],
    },
    "needs-person",
    /^advance-process-restart says delete-refused/,
  ],
  [
    "a ledger that cannot be read keeps the group from being idle",
    { ...idle, unreadable: "no JSON", guards: [{ ...guard, guard: "ledger-unreadable" }] },
    "needs-person",
    /^advance-zone-rollout says ledger-unreadable/,
  ],
];

for (const [what, snapshot, kind, message] of rows) {
  test(`${what}: ${kind}`, () => {
    const decision = decideWait(snapshot);
    assert.equal(decision.kind, kind);
    assert.match(decision.message, message);
  });
}

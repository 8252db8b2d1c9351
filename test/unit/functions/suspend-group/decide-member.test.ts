/** The next step of one member, or why there is none, where its volume claims differ or its pod is on its way. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { wallClockSkewMs } from "../../../../functions/shared/clock/skew.ts";
import { decideMember } from "../../../../functions/suspend-group/decide-member.ts";
import { minutesAgo, now, Suspended } from "../../../support/suspended.ts";
import { suspending } from "./given.ts";

const memberOf = (on: Suspended, ordinal = 2) =>
  on.members.find((one) => one.ordinal === ordinal) ?? assert.fail("no member");

/** The decision about `db-a-2`: its guard, the step's volume claims, and when it is read again. */
function decided(on: Suspended, protects = true) {
  const found = decideMember(memberOf(on), now, protects);
  if (found === undefined) return undefined;
  const { guard, step, requeueAfterMs } = found;
  const pvcs = step !== undefined && "pvcs" in step ? step.pvcs.map(({ name }) => name) : [];
  return { guard, ...(step && { step: [step.kind, ...pvcs].join(" ") }), ...(requeueAfterMs && { requeueAfterMs }) };
}
const guardOf = (on: Suspended, protects = true) => decided(on, protects)?.guard;
const messageOf = (on: Suspended) => decideMember(memberOf(on), now, true)?.message ?? "";

/** A second volume claim of `db-a-2`, as the first one is, with other annotations. */
function alsoLog(on: Suspended, texts: Readonly<Record<string, string | undefined>> = {}, metadata = {}): Suspended {
  on.spec("a", { volumeClaimTemplates: [{ metadata: { name: "data" } }, { metadata: { name: "log" } }] });
  const data = on.claims.get("data-db-a-2") ?? assert.fail("no volume claim");
  const given = Object.entries(texts).map(([key, text]) => [`sluice.dev/${key}`, text] as const);
  const annotations = Object.entries({ ...data.metadata.annotations, ...Object.fromEntries(given) });
  const kept = Object.fromEntries(annotations.filter((entry): entry is [string, string] => entry[1] !== undefined));
  const own = { ...data.metadata, name: "log-db-a-2", uid: "uid-log", annotations: kept, ...metadata };
  on.claims.set("log-db-a-2", { ...data, metadata: own });
  return on;
}

function suspended(minutes = 10, state = "Suspended"): Suspended {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, minutes, state);
  return on;
}

const terminating = (on: Suspended) => {
  const pod = on.pods.get("db-a-2") ?? assert.fail("no pod");
  on.pods.set("db-a-2", { ...pod, metadata: { ...pod.metadata, deletionTimestamp: minutesAgo(0) } });
  return on;
};

describe("a removal that has begun", () => {
  const removing = () => suspended(100, "Removing");
  const back = (on: Suspended) => {
    on.spec("a", { replicas: 3 });
    on.addPod("db-a-2", "uid-db-a");
    return on;
  };

  test("is taken back while one of the volume claims is not deleted and the pod is wanted and there", () => {
    assert.equal(guardOf(back(removing())), "in-use-again");
    const half = alsoLog(removing());
    half.delete("a", 2);
    assert.equal(guardOf(back(half)), "in-use-again", "one of two is deleted");
    const unwanted = removing();
    unwanted.addPod("db-a-2", "uid-db-a");
    assert.notEqual(guardOf(unwanted), "in-use-again", "its StatefulSet does not want it");
    const gone = removing();
    gone.spec("a", { replicas: 3 });
    assert.notEqual(guardOf(gone), "in-use-again", "its pod is not there");
  });

  test("is answered only once each volume claim is deleted, and is awaited for two seconds before", () => {
    const half = alsoLog(removing(), { recover: "true" });
    half.annotate("a", 2, { recover: "true" });
    half.delete("a", 2);
    assert.deepEqual(decided(half), { guard: "recovering", requeueAfterMs: 2_000 });
  });
});

describe("a volume claim that another client has deleted", () => {
  test("is named, the first of several, and nothing is decided where no suspension has begun", () => {
    const on = alsoLog(suspending(["a"]), {}, { deletionTimestamp: minutesAgo(1) });
    assert.match(messageOf(on), /volume claim log-db-a-2 of db-a-2/);
    on.delete("a", 2);
    assert.match(messageOf(on), /volume claim data-db-a-2 of db-a-2/, "the first");
    const untouched = Suspended.of(["a"]);
    untouched.delete("a", 2);
    assert.equal(guardOf(untouched), undefined);
  });

  test("goes on to its time only where its pod is gone, is not wanted, and each volume claim asks", () => {
    const on = suspending(["a"]);
    on.delete("a", 2);
    assert.equal(guardOf(on), "deleted-by-others");
    on.spec("a", { replicas: 2 });
    assert.equal(guardOf(on), "deleted-by-others", "its pod is there");
    on.pods.delete("db-a-2");
    assert.equal(guardOf(on), "stamping");
    on.spec("a", { replicas: 3 });
    assert.equal(guardOf(on), "deleted-by-others", "it is wanted");
    on.spec("a", { replicas: 2 });
    on.annotate("a", 2, { suspend: undefined });
    assert.equal(guardOf(on), "deleted-by-others", "it does not ask");
  });

  test("is kept for its time from the later of its deletion and the end of its pod, of all its volume claims", () => {
    const until = (suspendedAgo: number, deletedAgo: number, logAgo = 300) => {
      const on = suspending(["a"]);
      on.annotate("a", 2, { "suspended-at": minutesAgo(suspendedAgo), "suspend-state": "Suspended" });
      alsoLog(on, { "suspended-at": minutesAgo(logAgo) });
      const deletionTimestamp = minutesAgo(deletedAgo);
      on.change("a", 2, (claim) => ({ ...claim, metadata: { ...claim.metadata, deletionTimestamp } }));
      on.spec("a", { replicas: 2 });
      on.pods.delete("db-a-2");
      on.annotate("a", 2, { suspend: undefined });
      return /until (\S+),/.exec(messageOf(on))?.[1];
    };
    assert.equal(until(50, 20), "2026-06-01T12:40:00Z");
    assert.equal(until(20, 50), "2026-06-01T12:40:00Z");
    assert.equal(until(50, 40, 20), "2026-06-01T12:40:00Z");
  });
});

describe("what Sluice cannot read", () => {
  test("is named by the first volume claim that has it, of its state as of its request, and nothing changes", () => {
    const states = alsoLog(suspending(["a"]), { "suspend-state": "Away" });
    states.annotate("a", 2, { "suspend-state": "Gone" });
    assert.deepEqual(decided(states), { guard: "state-malformed" });
    assert.match(messageOf(states), /"Gone"/);
    const requests = alsoLog(suspending(["a"]), { suspend: "perhaps" });
    requests.annotate("a", 2, { suspend: "later" });
    assert.deepEqual(decided(requests), { guard: "request-malformed" });
    assert.match(messageOf(requests), /"later"/);
  });
});

describe("a member that is wanted back", () => {
  const recovering = (on = suspended()) => {
    on.annotate("a", 2, { recover: "true" });
    return on;
  };

  test("has nothing to take back before its suspension has begun", () => {
    const on = Suspended.of(["a"]);
    on.ask("a", 2);
    on.annotate("a", 2, { recover: "true" });
    on.spec("a", { replicas: 2 });
    assert.deepEqual(decided(on), { guard: "recovered", step: "clear" });
  });

  test("waits for its pod, which is not there yet, on its way out or not ready, and then its annotations go", () => {
    const on = recovering(suspended(10, "Suspending"));
    on.spec("a", { replicas: 3 });
    assert.match(messageOf(on), /not there yet/);
    assert.deepEqual(decided(on), { guard: "recovering", requeueAfterMs: 2_000 });
    on.addPod("db-a-2", "uid-db-a");
    assert.deepEqual(decided(on), { guard: "recovered", step: "clear" });
    const pod = on.pods.get("db-a-2") ?? assert.fail("no pod");
    on.pods.set("db-a-2", { ...pod, status: { ...pod.status, conditions: [] } });
    assert.match(messageOf(on), /not ready yet/);
    assert.match(messageOf(terminating(on)), /on its way out/);
  });

  test("waits until its owner gives up a removal, also of one of two volumes, and no withdrawn request waits for that", () => {
    const on = alsoLog(recovering(suspending(["a"])));
    const marked = (ready: boolean) => {
      const member = memberOf(on);
      const pvcs = member.pvcs.map((pvc, index) => ({ ...pvc, isRemovalHeld: ready && index === 0 }));
      return { ...member, pvcs };
    };
    assert.equal(decideMember(marked(false), now, true)?.guard, "recovered");
    const waiting = decideMember(marked(true), now, true);
    assert.deepEqual([waiting?.guard, waiting?.requeueAfterMs], ["recovering", 2_000]);
    on.annotate("a", 2, { recover: undefined, suspend: undefined });
    const log = on.claims.get("log-db-a-2") ?? assert.fail("no volume claim");
    on.claims.set("log-db-a-2", { ...log, metadata: { ...log.metadata, annotations: {} } });
    assert.equal(decideMember(marked(true), now, true)?.guard, "withdrawn");
  });
});

describe("a member that is to go", () => {
  test("is cleared where another pod stands in its place that is wanted and stays, by any of its volume claims", () => {
    const replaced = () => {
      const on = alsoLog(suspending(["a"]), { "suspend-pod-uid": undefined });
      on.annotate("a", 2, { "suspend-pod-uid": "the one before" });
      return on;
    };
    assert.deepEqual(decided(replaced()), { guard: "in-use-again", step: "clear" });
    assert.notEqual(guardOf(terminating(replaced())), "in-use-again");
    const unwanted = replaced();
    unwanted.spec("a", { replicas: 2 });
    assert.notEqual(guardOf(unwanted), "in-use-again");
  });

  test("is missing where it is wanted and its pod goes, and its time does not begin while a volume is in use", () => {
    assert.deepEqual(decided(terminating(suspending(["a"]))), { guard: "pod-missing", requeueAfterMs: 2_000 });
    const leaving = suspending(["a"]);
    leaving.spec("a", { replicas: 2 });
    assert.deepEqual(decided(leaving), { guard: "pod-leaving", requeueAfterMs: 2_000 });
    assert.match(messageOf(leaving), /on its way out/);
    leaving.pods.delete("db-a-2");
    assert.deepEqual(decided(leaving), { guard: "stamping", step: "stamp data-db-a-2" });
    leaving.change("a", 2, (claim) => ({
      ...claim,
      status: { ...claim.status, conditions: [{ type: "Unused", status: "False" }] },
    }));
    assert.deepEqual(decided(leaving), { guard: "pod-leaving", requeueAfterMs: 2_000 });
  });

  test("not-drained: stays, and the message names it with the reason", () => {
    const on = suspending(["a"]);
    on.annotate("a", 2, { "drained-at": undefined });
    assert.deepEqual(decided(on), { guard: "not-drained" });
    assert.match(messageOf(on), /^db-a-2 stays: /);
  });

  test("gets our finalizer on each volume claim that lacks it or its state, and on a deleted one only its state", () => {
    const on = alsoLog(suspending(["a"]), { "suspend-state": undefined });
    assert.deepEqual(decided(on), { guard: "protecting", step: "protect log-db-a-2" });
    const bare = alsoLog(suspending(["a"]), {}, { finalizers: [] });
    assert.deepEqual(decided(bare), { guard: "protecting", step: "protect log-db-a-2" });
    assert.equal(guardOf(bare, false), "uninstalling");
    const deleted = (metadata: object, texts = {}) => {
      const one = alsoLog(suspending(["a"]), texts, { deletionTimestamp: minutesAgo(1), ...metadata });
      one.spec("a", { replicas: 2 });
      one.pods.delete("db-a-2");
      return decided(one)?.guard;
    };
    assert.equal(deleted({}), "stamping", "both are there");
    assert.equal(deleted({}, { "suspend-state": undefined }), "protecting", "only its state is lacking");
    assert.equal(deleted({ finalizers: [] }), "stamping", "a deleted one takes no finalizer");
    assert.equal(deleted({ finalizers: [] }, { "suspend-state": undefined }), "stamping");
  });
});

describe("a suspended member", () => {
  test("has the time for which it is kept written down in whole seconds, on those volume claims that are suspended", () => {
    const on = suspended();
    assert.equal(decided(on), undefined);
    on.policy("a", { "suspend-duration": "90m200ms" });
    assert.deepEqual(decided(on), { guard: "suspended", step: "note data-db-a-2" });
    assert.match(messageOf(on), /5401 s/);
    const half = alsoLog(suspended(), { "suspend-state": "Removing" });
    half.policy("a", { "suspend-duration": "2h" });
    assert.deepEqual(decided(half), { guard: "suspended", step: "note data-db-a-2" });
  });

  test("is in use again where its pod is there under another uid than any of its volume claims names", () => {
    const on = alsoLog(suspended(), { "suspend-pod-uid": "the one before" });
    on.addPod("db-a-2", "uid-db-a");
    assert.deepEqual(decided(on), { guard: "in-use-again", step: "clear" });
  });

  test("is stamped anew where one volume claim still says that it is being suspended, or a stamp is far ahead by both clocks", () => {
    const half = alsoLog(suspended(), { "suspend-state": "Suspending" });
    assert.deepEqual(decided(half), { guard: "stamping", step: "stamp log-db-a-2" });
    assert.equal(guardOf(half, false), "uninstalling");
    const ahead = (ms: number) => {
      const on = suspended();
      on.annotate("a", 2, { "suspended-at": new Date(now.nowMs + ms).toISOString() });
      return guardOf(on);
    };
    assert.deepEqual([ahead(wallClockSkewMs), ahead(wallClockSkewMs + 1)], [undefined, "stamping"]);
  });

  test("is not stamped while one of its volumes is in use", () => {
    const half = alsoLog(suspending(["a"]));
    half.spec("a", { replicas: 2 });
    half.pods.delete("db-a-2");
    half.annotate("a", 2, { "suspend-state": "Suspended", "suspended-at": minutesAgo(10) });
    assert.deepEqual(decided(half), { guard: "stamping", step: "stamp log-db-a-2" });
    const unused = { type: "Unused", status: "False" };
    const log = half.claims.get("log-db-a-2") ?? assert.fail("no volume claim");
    half.claims.set("log-db-a-2", { ...log, status: { ...log.status, conditions: [unused] } });
    assert.notEqual(guardOf(half), "stamping");
  });
});

/** What needs a person: of each reason one case that is so, and one that nearly is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { dueMs } from "../../../../functions/shared/ledger/claim-kinds.ts";
import type { SuspendedVolume } from "../../../../functions/shared/suspension/suspended-volumes.ts";
import type { GroupSnapshot, SeenEvent } from "../../../../functions/show-status/snapshot.ts";
import { claimOf, nowMs, pod, zone } from "../advance-zone-rollout/given.ts";
import { ago, certificate, event, ledger, minute, statusOf, volume, waitingFor } from "./given.ts";

function entriesOf(group: Partial<GroupSnapshot>, events: readonly SeenEvent[] = []) {
  return statusOf(group, { events }).needsPerson;
}

const reasonsOf = (...given: Parameters<typeof entriesOf>) => entriesOf(...given).map(({ reason }) => reason);

test("a group at rest needs no person", () => {
  assert.deepEqual(entriesOf({}), []);
});

test("a guard that a person must end needs one after a minute, with its object, time, message and todo", () => {
  const [entry] = entriesOf({ ledger: waitingFor("strategy-not-on-delete", 1) });
  assert.deepEqual(entry, {
    reason: "guard",
    namespace: "db",
    object: "a",
    since: ago(1),
    guard: "strategy-not-on-delete",
    sentence: "a: waits",
    todo: "set updateStrategy.type: OnDelete, or take the StatefulSet out of the group",
  });
  assert.deepEqual(reasonsOf({ ledger: waitingFor("strategy-not-on-delete", 0.99) }), []);
});

test("a guard that this version does not know needs no person, however long it stands", () => {
  const zones = [zone("a", "...")];
  assert.deepEqual(reasonsOf({ zones, ledger: waitingFor("of-a-later-version", 600) }), []);
  assert.deepEqual(reasonsOf({ zones, ledger: waitingFor("constructor", 600) }), []);
});

test("another guard needs a person if no pod has become ready for 30 min", () => {
  const readyFor = (minutes: number) => [
    zone("a", "w.", { extra: [pod("a-1", { readySinceMs: nowMs - minutes * minute })] }),
  ];
  const of = (guardMinutes: number, readyMinutes: number) =>
    reasonsOf({ zones: readyFor(readyMinutes), ledger: waitingFor("zone-settling", guardMinutes) });
  assert.deepEqual(of(30, 30), ["no-progress"]);
  assert.deepEqual(of(29.9, 30), []);
  assert.deepEqual(of(30, 29.9), []);
});

test("a wait that a user has chosen needs no person, however long no pod becomes ready", () => {
  assert.deepEqual(reasonsOf({ zones: [zone("a", "...")], ledger: waitingFor("paused", 600) }), []);
  assert.deepEqual(reasonsOf({ zones: [zone("a", "...")], ledger: waitingFor("zone-settling", 600) }), ["no-progress"]);
});

test("a group that is done needs no person for a guard that ends by itself", () => {
  const zones = [zone("a", ".", { extra: [pod("a-0", { revision: "new", readySinceMs: 0 })] })];
  assert.deepEqual(reasonsOf({ zones, ledger: waitingFor("done", 600) }), []);
  assert.deepEqual(reasonsOf({ zones, ledger: waitingFor("zone-settling", 600) }), []);
});

test("a function that has nothing to do needs no person, although the group is not done", () => {
  assert.deepEqual(reasonsOf({ zones: [zone("a", "...")], ledger: waitingFor("done", 600) }), []);
});

test("a pod that only another revision mends needs a person after 5 min", () => {
  const stuckFor = (minutes: number, drawing = "Bnn") => ({
    zones: [zone("a", drawing)],
    stuckSinceMs: new Map([["uid-of-a-0", nowMs - minutes * minute]]),
  });
  const [entry] = entriesOf(stuckFor(5));
  assert.equal(entry?.reason, "pod-stuck");
  assert.equal(entry?.object, "a-0");
  assert.equal(entry?.since, ago(5));
  assert.equal(entry?.sentence, "a-0 is in CrashLoopBackOff at revision new, which only another revision ends");
  assert.equal(entry?.todo, "kubectl describe pod -n db a-0");
  assert.deepEqual(reasonsOf(stuckFor(4.9)), []);
  assert.deepEqual(reasonsOf(stuckFor(5, "wnn")), []);
});

test("an eviction that arithmetic can never allow needs a person for an hour, once for each object", () => {
  const message = "never-possible: the budget b has maxUnavailable 0";
  const [entry, ...others] = entriesOf({}, [
    event("EvictionRefused", message, 1),
    event("EvictionRefused", message, 59.9),
    event("EvictionRefused", message, 60),
  ]);
  assert.deepEqual(others, []);
  assert.equal(entry?.reason, "never-possible");
  assert.equal(entry?.since, ago(59.9));
  assert.equal(entry?.sentence, "the budget b has maxUnavailable 0");
  assert.equal(entry?.todo, "raise the budget when pods may go");
  assert.deepEqual(reasonsOf({}, [event("EvictionRefused", message, 60)]), []);
  assert.deepEqual(reasonsOf({}, [event("EvictionRefused", "zone-budget: 1 of 3 down", 1)]), []);
  assert.deepEqual(reasonsOf({}, [event("RolloutWaiting", message, 1)]), []);
});

test("a ledger that cannot be read needs a person, and one that is not there does not", () => {
  const [entry] = entriesOf({ ledger: { kind: "unreadable", lease: "sluice-group", message: "it is no ledger" } });
  assert.equal(entry?.reason, "ledger-unreadable");
  assert.deepEqual([entry?.object, entry?.sentence], ["sluice-group", "it is no ledger"]);
  assert.deepEqual(reasonsOf({ ledger: { kind: "absent" } }), []);
  assert.deepEqual(reasonsOf({ ledger: { kind: "unlisted" } }), []);
});

test("an annotation that does not parse needs a person, and one that does not stand there does not", () => {
  const malformed = [{ key: "key", message: "key is x: write a number" }];
  const [entry] = entriesOf({ zones: [zone("a", "nnn", { malformed })] });
  assert.equal(entry?.reason, "malformed-annotation");
  assert.deepEqual([entry?.object, entry?.sentence], ["a", "key is x: write a number"]);
  assert.deepEqual(reasonsOf({ zones: [zone("a", "nnn", { malformed: [] })] }), []);
});

test("a claim that is older than its kind may stand needs a person", () => {
  const claim = claimOf("a:0", "scale-down", { stampMs: 0, sinceMs: 0 });
  const zones = [zone("a", "nnn")];
  const allowedMs = dueMs(claim, zones[0]?.workload);
  const standing = (ms: number) => {
    const claims = [claimOf("a:0", "scale-down", { stampMs: nowMs - ms })];
    return reasonsOf({ zones, ledger: ledger({ claims }) });
  };
  assert.deepEqual(standing(allowedMs + 1), ["claim-overdue"]);
  assert.deepEqual(standing(allowedMs), []);
  const parked = claimOf("a:0", "process", { mode: "parked", phase: "parked", stampMs: nowMs - 10 * allowedMs });
  assert.deepEqual(reasonsOf({ zones, ledger: ledger({ claims: [parked] }) }), [], "a user has parked it");
});

test("a suspended volume needs a person from 24 hours before its removal on, unless a user keeps it or the removal has begun", () => {
  const of = (...volumes: readonly SuspendedVolume[]) => statusOf({}, { volumes }).needsPerson;
  const [entry, ...others] = of(volume(23.9));
  assert.deepEqual(others, []);
  assert.deepEqual([entry?.reason, entry?.object, entry?.namespace], ["volume-removal-near", "data-a-2", "db"]);
  assert.equal(entry?.since, ago(60));
  assert.match(
    entry?.sentence ?? "",
    /^the data of data-a-2 goes for good from \S+Z on, unless a user keeps or recovers it$/,
  );
  assert.equal(entry?.todo, "kubectl annotate pvc -n db data-a-2 sluice.dev/hold=true");
  assert.equal(of(volume(-1)).length, 1, "it is due, and waits for its turn");
  for (const one of [volume(24), volume(undefined), volume(1, { state: "Removing" })]) assert.deepEqual(of(one), []);
});

test("a certificate needs a person in the last week, or in the last sixth of its time where that is shorter", () => {
  const of = (...given: Parameters<typeof certificate>) =>
    statusOf({}, { certificate: certificate(...given) }).needsPerson;
  const [entry, ...others] = of(7);
  assert.deepEqual(others, []);
  assert.deepEqual([entry?.reason, entry?.object, entry?.namespace], ["certificate-ends", "sluice-tls", "db"]);
  assert.equal(entry?.since, ago(0));
  assert.match(entry?.sentence ?? "", /^the certificate in sluice-tls ends at \S+Z: after that no review is answered$/);
  assert.deepEqual(of(7.01), []);
  assert.equal(of(1, 6).length, 1);
  assert.deepEqual(of(1.01, 6), []);
  assert.deepEqual(statusOf().needsPerson, [], "a process without a TLS port presents none");
});

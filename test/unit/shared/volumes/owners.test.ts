/** The zones of an owner that is no StatefulSet: what counts, and what a member is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { describeDown, isUnsettled, ofStatefulSets } from "../../../../functions/shared/groups/zones.ts";
import { parseVolumeUser } from "../../../../functions/shared/volumes/members.ts";
import { findAll } from "../../../../functions/shared/volumes/owners.ts";
import { parsePvc } from "../../../../functions/shared/volumes/pvc.ts";
import { endOfLettingGo } from "../../../../functions/suspend-group/end-claims.ts";
import { Owned } from "../../../support/owned.ts";
import { nowMs } from "../../../support/suspended.ts";

const zonesOf = (on: Owned): readonly string[] => on.zones.map(describeDown);

test("a zone counts the pods of its volume claims, and those that are unready, terminating or missing are down", () => {
  const on = Owned.of(["a", "b"], 3);
  assert.deepEqual(zonesOf(on), ["a: ready", "b: ready"]);
  on.unready("a-0");
  on.terminate("a-1");
  on.pods.delete("b-2");
  assert.deepEqual(zonesOf(on), ["a: 2 of 3 down (1 not ready, 1 terminating)", "b: 1 of 3 down (1 missing)"]);
});

test("a zone of another owner is no StatefulSet, and code that needs one throws", () => {
  const { zones } = Owned.of(["a"]);
  assert.throws(() => ofStatefulSets(zones), /a of owner:FoundationDBCluster.* is no StatefulSet/);
});

test("a pod that was deleted for a suspension is leaving and then gone, and with a recovery missing until it is back", () => {
  const on = Owned.of(["a"], 2);
  on.protect("a-1");
  assert.deepEqual(zonesOf(on), ["a: ready"]);
  on.log("a-1-data", { "suspend-pod-uid": "uid-a-1" });
  on.terminate("a-1");
  assert.deepEqual(zonesOf(on), ["a: 1 leaving"]);
  on.suspend("a-1", 1);
  assert.deepEqual(zonesOf(on), ["a: ready"]);
  on.log("a-1-data", { recover: "true" });
  assert.deepEqual(zonesOf(on), ["a: 1 of 2 down (1 missing)"]);
  on.log("a-1-data", { recover: undefined, suspend: undefined });
  assert.deepEqual(zonesOf(on), ["a: 1 of 2 down (1 missing)"]);
});

test("a pod that went after its request and before its suspension began is missing, and blocks the other zones", () => {
  const on = Owned.of(["a"], 2);
  on.ask("a-1");
  on.pods.delete("a-1");
  assert.deepEqual(zonesOf(on), ["a: 1 of 2 down (1 missing)"]);
  on.protect("a-1");
  assert.deepEqual(zonesOf(on), ["a: ready"]);
});

test("pods that the owner controls or a selector selects count, in the zone of their label or in the unknown one", () => {
  const on = Owned.of(["a"], 1);
  on.log("a-0-data", { "zone-label": "zone", "pod-selector": "app=orders,tier=log" });
  on.addPod("proxy-1", { labels: { zone: "a" } }, []);
  on.addPod("proxy-2", {}, []);
  on.addPod("log-1", { ownerReferences: [], labels: { app: "orders", tier: "log", zone: "b" } }, []);
  on.addPod("other", { ownerReferences: [], labels: { app: "orders" } }, []);
  on.addPod("job", {}, []);
  const job = on.pods.get("job");
  on.pods.set("job", { ...(job as NonNullable<typeof job>), status: { phase: "Succeeded" } });
  for (const name of ["proxy-1", "proxy-2", "log-1", "other"]) on.unready(name);
  assert.deepEqual(zonesOf(on), [
    "a: 1 of 2 down (1 not ready)",
    "b: 1 of 1 down (1 not ready)",
    "unknown: 1 of 1 down (1 not ready)",
  ]);
});

test("another pod with the same volume also counts", () => {
  const on = Owned.of(["a"], 1);
  on.addPod("debugger", { ownerReferences: [] }, ["a-0-data"]);
  on.unready("debugger");
  assert.deepEqual(zonesOf(on), ["a: 1 of 2 down (1 not ready)"]);
});

test("the volume claims of one pod are one member, also when the pod is gone; any other volume claim is a member of its own", () => {
  const on = Owned.of(["a"], 1);
  on.addClaim("a-0-log", { owner: "FoundationDBCluster.apps.foundationdb.org/orders", zone: "a" });
  const names = () => on.members.map(({ name, pvcs }) => [name, ...pvcs.map((pvc) => pvc.name)]);
  assert.deepEqual(names(), [
    ["a-0", "a-0-data"],
    ["a-0-log", "a-0-log"],
  ]);
  on.addPod("a-0", {}, ["a-0-data", "a-0-log"]);
  assert.deepEqual(names(), [["a-0", "a-0-data", "a-0-log"]]);
  const [before] = on.members;
  for (const claim of ["a-0-data", "a-0-log"]) on.log(claim, { "suspend-pod-uid": "uid-a-0" });
  on.pods.delete("a-0");
  assert.deepEqual(names(), [["a-0-data", "a-0-data", "a-0-log"]]);
  assert.equal(on.members[0]?.ordinal, before?.ordinal, "the ledger knows the member by one number");
});

test("the numbers of 20,000 members of a zone all differ, do not change, and are no ordinals of its pods", () => {
  const on = new Owned();
  for (let number = 0; number < 20_000; number++)
    on.addClaim(`data-${number}`, { owner: "Database.example.com/orders", zone: "a" });
  const claims = [...on.claims.values()].map(parsePvc);
  const numbers = findAll([], claims, []).map(({ ordinal }) => ordinal);
  assert.equal(new Set(numbers).size, 20_000);
  assert.ok(numbers.every((one) => one >= 2 ** 30 && one < 2 ** 31));
  assert.deepEqual(
    numbers,
    findAll([], claims.toReversed(), []).map(({ ordinal }) => ordinal),
  );
});

test("the zone is that of the annotation, or of the volume claim's label, or of the pod's label, or unknown", () => {
  const on = new Owned();
  const annotations = { owner: "Database.example.com/orders", "zone-label": "zone" };
  on.addClaim("one-data", { ...annotations, zone: "a" }, { zone: "b" });
  on.addClaim("two-data", annotations, { zone: "b" });
  on.addClaim("three-data", annotations);
  on.addPod("three", { labels: { zone: "c" } });
  on.addClaim("four-data", annotations);
  on.addClaim("five-data", { ...annotations, zone: "a" });
  on.addPod("five", { labels: { zone: "c" } });
  const claims = [...on.claims.values()].map(parsePvc);
  const members = findAll([], claims, [...on.pods.values()].map(parseVolumeUser));
  const zones = Object.fromEntries(members.map(({ name, set }) => [name, set.name]));
  assert.deepEqual(zones, { "one-data": "a", "two-data": "b", three: "c", "four-data": "unknown", five: "a" });
});

test("a group has the strictest mode and the longest wait of its volume claims, and a malformed one lets nothing go", () => {
  const policy = (...texts: readonly Record<string, string>[]) => {
    const on = Owned.of(["a"], texts.length);
    for (const [number, one] of texts.entries()) on.log(`a-${number}-data`, one);
    const [first] = on.members;
    return [first?.set.policy.mode, first?.set.policy.waitMs];
  };
  assert.deepEqual(policy({}, {}), ["Zone", 60_000]);
  assert.deepEqual(policy({ "removal-mode": "All" }, {}), ["All", 60_000]);
  assert.deepEqual(policy({ "removal-mode": "All" }, { "removal-mode": "Group" }), ["Group", 60_000]);
  assert.deepEqual(policy({ "removal-mode": "Zone" }, { "removal-mode": "?" }), ["None", 60_000]);
  assert.deepEqual(policy({ "wait-between-removals": "5s" }, {}), ["Zone", 5_000]);
  assert.deepEqual(policy({ "wait-between-removals": "5s" }, { "wait-between-removals": "2m" }), ["Zone", 120_000]);
  assert.deepEqual(policy({ "wait-between-removals": "5s" }, { "wait-between-removals": "?" }), ["Zone", undefined]);
});

test("a zone with a claim is unsettled, but no pod of it counts as down", () => {
  const on = Owned.of(["a", "b"], 2);
  on.claim("a", "suspend-group", "scale-down");
  assert.deepEqual(zonesOf(on), ["a: ready", "b: ready"]);
  assert.deepEqual(on.zones.map(isUnsettled), [true, false]);
});

test("a claim to delete pods ends when they are gone; a pod that stays for 90 s was not deleted, and a terminating one is awaited", () => {
  const on = Owned.of(["a"], 2);
  const uids = { "a-0": "uid-a-0", "a-1": "uid-a-1" };
  const end = (agedMs: number) =>
    endOfLettingGo({ uids, stampMs: nowMs - agedMs }, [...on.pods.values()].map(parseVolumeUser), nowMs);
  assert.deepEqual([end(89_000), end(90_000)], ["stands", "abandoned"]);
  on.terminate("a-0");
  assert.equal(end(3_600_000), "leaving");
  on.pods.delete("a-0");
  assert.equal(end(90_000), "abandoned");
  on.addPod("a-1", { uid: "another" });
  assert.equal(end(0), "settled");
});

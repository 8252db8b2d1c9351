/** Decisions about volumes whose owner is no StatefulSet (spec suspend-before-delete 3.2 to 3.5). */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { SuspendSnapshot } from "../../../../functions/suspend-group/lowering.ts";
import { Owned, uidOf } from "../../../support/owned.ts";
import { minutesAgo } from "../../../support/suspended.ts";
import { decideOn } from "./given.ts";

/** `KIND NAMES` of each target; `GUARD` of each message to a volume claim. */
function decided(on: Owned, changes: Partial<SuspendSnapshot> = {}): readonly string[] {
  const verdict = decideOn(on, changes);
  if (verdict.kind === "wait") return [verdict.guard];
  const described = verdict.targets.map((target) => {
    if (target.kind === "resize") return "resize";
    if (target.kind === "let-go") return `let-go ${target.leaving.map(({ name }) => name).join(" ")}`;
    return target.kind === "tell" ? target.guard : `${target.kind} ${target.member.name}`;
  });
  return [...new Set(described)];
}

function messageOf(on: Owned): string {
  const verdict = decideOn(on);
  assert.equal(verdict.kind, "take");
  const reported = verdict.kind === "take" ? verdict.targets.find(({ kind }) => kind === "tell") : undefined;
  return reported?.kind === "tell" ? reported.message : "";
}

test("a volume is protected, then its pod is deleted, and its time begins when the pod has gone", () => {
  const on = Owned.of(["a"], 2);
  on.ask("a-1");
  assert.deepEqual(decided(on), ["protect a-1"]);
  on.protect("a-1");
  assert.deepEqual(decided(on), ["let-go a-1"]);
  on.log("a-1-data", { "suspend-pod-uid": "uid-a-1" });
  assert.deepEqual(decided(on), ["let-go a-1"], "a deletion that got no answer is sent again");
  on.terminate("a-1");
  assert.deepEqual(decided(on), ["pod-leaving"]);
  on.pods.delete("a-1");
  assert.deepEqual(decided(on), ["stamp a-1-data"]);
});

test("the pods of one zone go together, in any order, under one claim that names their uids", () => {
  const on = Owned.of(["a", "b"], 3);
  on.protect("a-0", "b-0", "b-2");
  const verdict = decideOn(on);
  const target = verdict.kind === "take" ? verdict.targets.find(({ kind }) => kind === "let-go") : undefined;
  assert.ok(target?.kind === "let-go");
  assert.deepEqual(target.claim.uids, { "b-0": "uid-b-0", "b-2": "uid-b-2" });
  assert.deepEqual([target.claim.kind, target.claim.zone, target.claim.members.length], ["scale-down", "b", 2]);
  const [first, second] = target.claim.members;
  assert.ok((first?.last ?? 0) < (second?.first ?? 0), "the ranges are in order");
});

test("zones-down: no pod goes while a pod of another zone is not ready, missing or terminating", () => {
  for (const harm of ["unready", "terminate"] as const) {
    const on = Owned.of(["a", "b"], 2);
    on.protect("a-0");
    on[harm]("b-1");
    assert.deepEqual(decided(on), ["zones-down"]);
    assert.match(messageOf(on), /^a-0 is to go, and waits: b: 1 of 2 down/);
  }
  const on = Owned.of(["a", "b"], 2);
  on.protect("a-0");
  on.pods.delete("b-1");
  assert.deepEqual(decided(on), ["zones-down"]);
});

test("zone-scaling-down and zone-removing-volume: a second zone waits for the claim of the first, and for the claim of a removal", () => {
  const on = Owned.of(["a", "b"], 2);
  on.protect("a-0");
  on.claim("b", "suspend-group", "scale-down");
  assert.deepEqual(decided(on), ["zone-scaling-down"]);
  const own = Owned.of(["a", "b"], 2);
  own.protect("a-0");
  own.claim("a", "suspend-group", "scale-down");
  assert.deepEqual(decided(own), ["zone-scaling-down"], "another pod of the same zone waits as well");
  const other = Owned.of(["a", "b"], 2);
  other.protect("a-0");
  other.claim("b", "gc-suspended-groups", "volume");
  assert.deepEqual(decided(other), ["zone-removing-volume"]);
});

test("wait-between-removals and mode-none block a removal, and `Group` lets one pod go", () => {
  const on = Owned.of(["a", "b"], 3);
  on.suspend("b-2", 0);
  on.protect("a-0", "a-1");
  assert.deepEqual(decided(on), ["wait-between-removals"]);
  on.log("a-2-data", { "wait-between-removals": "0" });
  assert.deepEqual(decided(on), ["let-go a-0 a-1"]);
  on.log("a-2-data", { "removal-mode": "Group" });
  assert.deepEqual(decided(on), ["let-go a-0", "suspending"]);
  on.log("a-2-data", { "removal-mode": "None" });
  assert.deepEqual(decided(on), ["mode-none"]);
});

test("the cluster's removalMode is read at each reconcile, and its volume claims can only make it stricter", () => {
  const on = Owned.of(["a"], 3);
  on.protect("a-0", "a-1");
  on.log("a-0-data", { "removal-mode": "All", "wait-between-removals": "0" });
  assert.deepEqual(decided(on), ["let-go a-0 a-1"]);
  on.set({ removalMode: "None" });
  assert.deepEqual(decided(on), ["mode-none"]);
  assert.match(messageOf(on), /^a-0 waits: spec\.automationOptions\.removalMode of orders is None$/);
  on.set({ removalMode: "ProcessGroup" });
  assert.deepEqual(decided(on), ["let-go a-0", "suspending"]);
  on.set({ removalMode: "Sometimes" });
  assert.match(messageOf(on), /removalMode of orders is "Sometimes", and none of All, Zone, ProcessGroup and None/);
  on.set({ removalMode: "All" });
  on.log("a-0-data", { "removal-mode": "None" });
  assert.deepEqual(decided(on), ["mode-none"]);
  assert.match(messageOf(on), /sluice\.dev\/removal-mode of a is None/);
});

test("the cluster's waitBetweenRemovalsSeconds counts if its volume claims say nothing or less; a negative one is 60 s", () => {
  const waits = (automationOptions: object, goneMinutes: number, word?: string): readonly string[] => {
    const on = Owned.of(["a"], 3);
    on.suspend("a-2", goneMinutes);
    on.protect("a-0");
    on.log("a-0-data", { "wait-between-removals": word });
    on.set(automationOptions);
    return decided(on);
  };
  assert.deepEqual(waits({ waitBetweenRemovalsSeconds: 20 }, 0.3), ["wait-between-removals"]);
  assert.deepEqual(waits({ waitBetweenRemovalsSeconds: 20 }, 0.4), ["let-go a-0"]);
  assert.deepEqual(waits({ waitBetweenRemovalsSeconds: 20 }, 0.3, "1s"), ["wait-between-removals"]);
  assert.deepEqual(waits({ waitBetweenRemovalsSeconds: 20 }, 0.4, "90s"), ["wait-between-removals"]);
  assert.deepEqual(waits({ waitBetweenRemovalsSeconds: -1 }, 0.9, "1s"), ["wait-between-removals"]);
  assert.deepEqual(waits({}, 0.9, "1s"), ["wait-between-removals"]);
  assert.deepEqual(waits({}, 1.1, "1s"), ["let-go a-0"]);
});

test("not-drained and duration-missing: no pod goes without both annotations", () => {
  const on = Owned.of(["a"], 1);
  on.log("a-0-data", { suspend: "true" });
  assert.deepEqual(decided(on), ["not-drained"]);
  on.ask("a-0");
  on.log("a-0-data", { "suspend-duration": undefined });
  assert.deepEqual(decided(on), ["duration-missing"]);
  assert.match(messageOf(on), /not each of its volume claims has sluice\.dev\/suspend-duration/);
});

test("selector-malformed: no suspension begins while the pod selector of one volume claim of the group is malformed", () => {
  const on = Owned.of(["a", "b"], 1);
  on.ask("a-0");
  on.log("b-0-data", { "pod-selector": "app in (x)" });
  assert.deepEqual(decided(on), ["selector-malformed"]);
});

test("zone-malformed: a pod with a malformed zone stays, and the others go", () => {
  const on = Owned.of(["a"], 2);
  on.protect("a-0", "a-1");
  on.log("a-0-data", { zone: "a b", "suspend-owner-uid": uidOf("unknown") });
  assert.deepEqual(decided(on), ["let-go a-1", "zone-malformed"]);
  on.log("a-0-data", { zone: "a", "zone-label": "?", "suspend-owner-uid": uidOf("a") });
  assert.deepEqual(decided(on), ["let-go a-1", "zone-malformed"]);
});

test("owner-statefulset: this function never deletes a pod that a StatefulSet controls, whatever its volume claim says", () => {
  const on = Owned.of(["a"], 1);
  const ownerReferences = [{ apiVersion: "apps/v1", kind: "StatefulSet", name: "db", uid: "uid-db", controller: true }];
  on.addPod("a-0", { ownerReferences });
  on.protect("a-0");
  assert.deepEqual(decided(on), ["owner-statefulset"]);
});

test("volume-shared and retention-conflict: a pod stays if another pod mounts its volume, or if the volume is deleted with the pod", () => {
  const on = Owned.of(["a"], 1);
  on.ask("a-0");
  on.addPod("debugger", { ownerReferences: [] }, ["a-0-data"]);
  assert.deepEqual(decided(on), ["volume-shared"]);
  const owned = Owned.of(["a"], 1);
  owned.ask("a-0");
  owned.change("a-0-data", { ownerReferences: [{ kind: "Pod", name: "a-0", uid: "uid-a-0" }] });
  assert.deepEqual(decided(owned), ["retention-conflict"]);
});

test("request-incomplete: a pod with two volume claims goes only if both have a request", () => {
  const on = Owned.of(["a"], 1);
  on.addClaim("a-0-log", {
    owner: "FoundationDBCluster.apps.foundationdb.org/orders",
    zone: "a",
    "suspend-duration": "1h",
  });
  on.addPod("a-0", {}, ["a-0-data", "a-0-log"]);
  on.ask("a-0");
  assert.deepEqual(decided(on), ["request-incomplete"]);
  on.log("a-0-log", { suspend: "true", "drained-at": "2026-06-01T10:30:00Z" });
  assert.deepEqual(decided(on), ["protect a-0"]);
});

test("an owner that brings its pod back ends the suspension, before and after the time of the volume has begun", () => {
  const on = Owned.of(["a"], 1);
  on.protect("a-0");
  on.log("a-0-data", { "suspend-pod-uid": "uid-a-0" });
  on.addPod("a-0-again", {}, ["a-0-data"]);
  on.pods.delete("a-0");
  assert.deepEqual(decided(on), ["clear a-0-again"]);
  on.suspend("a-0", 10);
  assert.deepEqual(decided(on), ["clear a-0-again"]);
});

test("recovering: the request stands until a pod of the owner is ready with the volume; Sluice creates no pod", () => {
  const on = Owned.of(["a"], 1);
  on.suspend("a-0", 10);
  on.log("a-0-data", { recover: "true" });
  assert.deepEqual(decided(on), ["recovering"]);
  assert.match(
    messageOf(on),
    /not there yet: FoundationDBCluster\.apps\.foundationdb\.org\/orders is to bring it back$/,
  );
  on.addPod("a-0-again", {}, ["a-0-data"]);
  on.unready("a-0-again");
  assert.deepEqual(decided(on), ["restamp a-0-again"]);
  on.log("a-0-data", { "suspend-state": "Suspending", "suspended-at": undefined });
  assert.deepEqual(decided(on), ["recovering"]);
  on.addPod("a-0-again", {}, ["a-0-data"]);
  assert.deepEqual(decided(on), ["clear a-0-again"]);
});

test("recover-too-late: a request to recover is refused after the point of no return", () => {
  const on = Owned.of(["a"], 1);
  on.suspend("a-0", 90, "Removing");
  on.log("a-0-data", { recover: "true" });
  on.change("a-0-data", { deletionTimestamp: minutesAgo(1) });
  assert.deepEqual(decided(on), ["answer-recover a-0-data"]);
});

test("a recovery waits for the end of a claim by which the pod may still be deleted", () => {
  const on = Owned.of(["a"], 1);
  on.protect("a-0");
  on.log("a-0-data", { "suspend-pod-uid": "uid-a-0", recover: "true" });
  const ordinal = on.members[0]?.ordinal ?? 0;
  assert.deepEqual(decided(on), ["clear a-0"]);
  on.claim("a", "suspend-group", "scale-down");
  const [claim] = on.ledgerClaims;
  if (claim !== undefined) on.ledgerClaims[0] = { ...claim, members: [{ first: ordinal, last: ordinal }] };
  assert.deepEqual(decided(on), ["pod-leaving"]);
});

test("owner-replaced: a pod stays if the zone of its volume claim has changed since the suspension began", () => {
  const on = Owned.of(["a"], 1);
  on.protect("a-0");
  on.log("a-0-data", { zone: "b" });
  assert.deepEqual(decided(on), ["owner-replaced"]);
  on.log("a-0-data", { "suspend-owner-uid": uidOf("b") });
  assert.deepEqual(decided(on), ["let-go a-0"]);
});

test("owner-mixed: a pod with volume claims of two owners stays, whether or not its suspension has begun", () => {
  const on = Owned.of(["a"], 1);
  on.addClaim("a-0-cache", { owner: "Cache.example.com/orders", zone: "a" });
  on.addPod("a-0", {}, ["a-0-data", "a-0-cache"]);
  on.ask("a-0");
  assert.deepEqual(decided(on), ["owner-mixed"]);
  on.protect("a-0");
  assert.deepEqual(decided(on), ["owner-mixed"]);
  on.log("a-0-cache", { owner: undefined });
  assert.deepEqual(decided(on), ["let-go a-0"]);
});

test("pods without a known zone go one by one, whatever other zones do, and together with `All`", () => {
  const on = Owned.of(["a"], 3);
  for (const name of ["a-0", "a-1", "a-2"]) on.log(`${name}-data`, { zone: undefined });
  on.protect("a-0", "a-1");
  assert.deepEqual(decided(on), ["let-go a-0", "suspending"]);
  on.log("a-2-data", { "removal-mode": "All" });
  assert.deepEqual(decided(on), ["let-go a-0 a-1"]);
});

test("a volume is kept for a pod that is being deleted until it has gone, although the owner has created another pod", () => {
  const on = Owned.of(["a"], 1);
  on.protect("a-0");
  on.log("a-0-data", { "suspend-pod-uid": "uid-a-0" });
  on.terminate("a-0");
  on.addPod("a-0-again", {}, ["a-0-data"]);
  assert.deepEqual(decided(on), ["volume-shared"]);
  on.pods.delete("a-0");
  assert.deepEqual(decided(on), ["clear a-0-again"]);
});

test("a volume's time begins again if its pod exists again, even if another pod mounts the volume", () => {
  const on = Owned.of(["a"], 1);
  on.suspend("a-0", 10);
  on.addPod("debugger", { ownerReferences: [] }, ["a-0-data"]);
  on.addPod("a-0");
  assert.deepEqual(decided(on), ["restamp a-0"]);
});

test("a volume claim that is protected without a request is left alone, unless a user deletes it: then it is kept", () => {
  const on = Owned.of(["a"], 2);
  on.change("a-1-data", { finalizers: ["sluice.dev/volume-protection"] });
  assert.deepEqual(decided(on), []);
  on.change("a-1-data", { deletionTimestamp: minutesAgo(1) });
  assert.deepEqual(decided(on), ["deleted-by-others"]);
});

test("a protected volume claim that a user deletes is suspended once it has a request and its pod has gone, without another finalizer", () => {
  const on = Owned.of(["a"], 2);
  on.change("a-1-data", { finalizers: ["sluice.dev/volume-protection"], deletionTimestamp: minutesAgo(1) });
  on.ask("a-1");
  assert.deepEqual(decided(on), ["deleted-by-others"], "its pod still exists");
  on.pods.delete("a-1");
  assert.deepEqual(decided(on), ["protect a-1-data"]);
  on.log("a-1-data", { "suspend-state": "Suspending", "suspend-owner-uid": uidOf("a") });
  assert.deepEqual(decided(on), ["stamp a-1-data"]);
});

test("restamping: the time of a volume claim that a user deleted begins again if its pod was recreated", () => {
  const on = Owned.of(["a"], 2);
  on.suspend("a-1", 90);
  on.change("a-1-data", { finalizers: ["sluice.dev/volume-protection"], deletionTimestamp: minutesAgo(91) });
  on.addPod("a-1", { uid: "uid-new" });
  assert.deepEqual(decided(on), ["restamp a-1"]);
  on.log("a-1-data", { "suspend-state": "Suspending", "suspended-at": undefined });
  assert.deepEqual(decided(on), ["deleted-by-others"]);
});

test("the pod of a protected volume claim without a deletion or a request counts for its zone as any other pod", () => {
  const on = Owned.of(["a", "b"], 2);
  on.change("b-1-data", { finalizers: ["sluice.dev/volume-protection"] });
  on.protect("a-1");
  on.pods.delete("b-1");
  assert.deepEqual(decided(on), ["zones-down"]);
});

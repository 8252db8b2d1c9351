/** Decisions about volumes that users want suspended or recovered: one snapshot, one verdict (spec 3.2, 3.3). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideMember } from "../../../../functions/suspend-group/decide-member.ts";
import { minutesAgo, now, Suspended } from "../../../support/suspended.ts";
import { decided, decideOn, suspending } from "./given.ts";

test("without a request the function does nothing and waits for nothing", () => {
  assert.deepEqual(decided(Suspended.of()), []);
});

test("a volume claim with a request gets Sluice's finalizer before any pod goes", () => {
  const on = Suspended.of();
  on.ask("a", 2);
  assert.deepEqual(decided(on), ["protect db-a-2"]);
});

test("not-drained: a pod stays if its volume claim has no time of its drain, or a time in the future", () => {
  for (const word of [undefined, "soon", minutesAgo(-60)]) {
    const on = Suspended.of();
    on.annotate("a", 2, { suspend: "true", "drained-at": word });
    assert.deepEqual(decided(on), ["not-drained"], String(word));
  }
});

test("a smaller StatefulSet takes the pods of one zone, under a claim that names the pods and their uids", () => {
  const on = suspending(["a", "b"], [1, 2]);
  const verdict = decideOn(on);
  const [target] = verdict.kind === "take" ? verdict.targets : [];
  assert.ok(target?.kind === "resize");
  assert.deepEqual([target.set.name, target.target], ["db-a", 1]);
  assert.deepEqual(target.claim?.members, [{ first: 1, last: 2 }]);
  assert.deepEqual(target.claim?.uids, { "db-a": "uid-db-a", "db-a-1": "uid-db-a-1", "db-a-2": "uid-db-a-2" });
});

test("the zone with the most requests goes first; of several such zones the first by name", () => {
  const on = suspending(["a", "b"], [2]);
  on.ask("b", 1);
  on.annotate("b", 1, { "suspend-state": "Suspending", "suspend-owner-uid": "uid-db-b" });
  on.hold("b", 1, ["sluice.dev/volume-hold"]);
  assert.ok(decided(on).includes("db-b to 1"));
  assert.ok(decided(suspending()).includes("db-a to 2"));
});

test("zones-down and zone-scaling-down: no zone goes while another zone has pods down, or while a claim of Sluice stands", () => {
  const on = suspending();
  on.pods.delete("db-b-0");
  assert.deepEqual(decided(on), ["zones-down"]);
  const claimed = suspending();
  claimed.claim("b", "suspend-group", "scale-down", 2);
  assert.deepEqual(decided(claimed), ["zone-scaling-down"]);
});

test("removal-mode Group takes one pod, the highest; None takes none; a malformed mode counts as None", () => {
  const one = suspending(["a"], [1, 2]);
  one.policy("a", { "removal-mode": "Group" });
  assert.ok(decided(one).includes("db-a to 2"));
  for (const mode of ["None", "zone"]) {
    const none = suspending(["a"]);
    none.policy("a", { "removal-mode": mode });
    assert.deepEqual(decided(none), ["mode-none"], mode);
  }
});

test("wait-between-removals: the next zone waits after a removal, except with All; a malformed wait blocks every zone", () => {
  const wait = (texts: Record<string, string>) => {
    const on = suspending(["a"], [1]);
    on.suspend("a", 2, 1);
    on.spec("a", { replicas: 2 });
    on.policy("a", texts);
    return decided(on);
  };
  assert.deepEqual(wait({ "wait-between-removals": "2m" }), ["wait-between-removals"]);
  assert.ok(wait({ "wait-between-removals": "30s" }).includes("db-a to 1"));
  assert.ok(wait({ "wait-between-removals": "-5m" }).includes("db-a to 1"), "a negative wait counts as 60 s");
  assert.ok(wait({ "removal-mode": "All", "wait-between-removals": "2h" }).includes("db-a to 1"));
  assert.deepEqual(wait({ "wait-between-removals": "soon" }), ["wait-malformed"]);
});

test("not-top-ordinal: a StatefulSet gives up only its highest ordinals", () => {
  const on = suspending(["a"], [0]);
  assert.deepEqual(decided(on), ["not-top-ordinal"]);
});

test("retention-conflict: a pod stays if the StatefulSet controller deletes its volume claim, or if a pod owns that", () => {
  const on = Suspended.of(["a"]);
  on.ask("a", 2);
  on.spec("a", { persistentVolumeClaimRetentionPolicy: { whenScaled: "Delete" } });
  assert.deepEqual(decided(on), ["retention-conflict"]);
  const owned = Suspended.of(["a"]);
  owned.ask("a", 2);
  const ownerReferences = [{ kind: "Pod", name: "db-a-2", uid: "uid-db-a-2" }];
  owned.change("a", 2, (claim) => ({ ...claim, metadata: { ...claim.metadata, ownerReferences } }));
  assert.deepEqual(decided(owned), ["retention-conflict"]);
});

test("volume-shared: a suspension does not begin while another pod mounts the volume claim", () => {
  const on = Suspended.of(["a"]);
  on.ask("a", 2);
  on.addPod("reader", "another", ["data-db-a-2"]);
  assert.deepEqual(decided(on), ["volume-shared"]);
  on.suspend("a", 2, 10);
  assert.deepEqual(decided(on), ["restamp db-a-2"], "the volume's time has already begun");
  on.annotate("a", 2, { "suspended-at": undefined, "suspend-state": "Suspending" });
  assert.deepEqual(decided(on), ["volume-shared"], "the volume's time does not begin while another pod uses it");
});

test("request-malformed, request-incomplete and state-malformed: nothing changes while Sluice cannot read an annotation", () => {
  const malformed = suspending(["a"]);
  malformed.annotate("a", 2, { suspend: "yes please" });
  assert.deepEqual(decided(malformed), ["request-malformed"]);
  const incomplete = Suspended.of(["a"]);
  incomplete.spec("a", { volumeClaimTemplates: [{ metadata: { name: "data" } }, { metadata: { name: "log" } }] });
  incomplete.addClaim("log-db-a-2");
  incomplete.ask("a", 2);
  assert.deepEqual(decided(incomplete), ["request-incomplete"]);
  const state = suspending(["a"]);
  state.annotate("a", 2, { "suspend-state": "Gone" });
  assert.deepEqual(decided(state), ["state-malformed"]);
});

test("owner-deleting and owner-replaced: a pod stays while its StatefulSet is being deleted, or if it was recreated", () => {
  const deleting = suspending(["a"]);
  const set = deleting.sets.get("a");
  if (set !== undefined)
    deleting.sets.set("a", { ...set, metadata: { ...set.metadata, deletionTimestamp: minutesAgo(1) } });
  assert.deepEqual(decided(deleting), ["owner-deleting"]);
  const replaced = suspending(["a"]);
  replaced.annotate("a", 2, { "suspend-owner-uid": "uid-of-another" });
  assert.deepEqual(decided(replaced), ["owner-replaced"]);
});

test("size-led and size-refused: a pod stays if another object sets its StatefulSet's size, or the API server refused a size", () => {
  const follower = suspending(["a", "b"]);
  follower.policy("a", { "grafana.com/rollout-downscale-leader": "db-b" });
  follower.policy("b", { "grafana.com/rollout-downscale-leader": "db-a" });
  assert.deepEqual(decided(follower), ["size-led"]);
  const refused = new Map([["uid-db-a", "a webhook says no"]]);
  assert.deepEqual(decided(suspending(["a"]), { refused }), ["size-refused"]);
});

test("pod-leaving, then stamping: a volume's time begins when its pod has gone, and not at the request", () => {
  const on = suspending(["a"]);
  on.annotate("a", 2, { "suspend-pod-uid": "uid-db-a-2" });
  on.spec("a", { replicas: 2 });
  assert.deepEqual(decided(on), ["pod-leaving"]);
  on.pods.delete("db-a-2");
  assert.deepEqual(decided(on), ["stamp db-a-2"]);
});

test("pod-missing: the volume's time does not begin if its pod is missing while the StatefulSet wants it", () => {
  const on = suspending(["a"]);
  on.pods.delete("db-a-2");
  assert.deepEqual(decided(on), ["pod-missing"]);
});

test("restamping: a volume's time begins again if its pod is back; a pod with another uid ends the suspension", () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 10);
  on.addPod("db-a-2", "uid-db-a");
  assert.deepEqual(decided(on), ["restamp db-a-2"]);
  on.annotate("a", 2, { "suspend-pod-uid": "the one before" });
  assert.deepEqual(decided(on), ["clear db-a-2"]);
});

test("a volume's time begins now if its stamp is in the future or malformed; any other stamp stays", () => {
  for (const stamp of [minutesAgo(-60), "yesterday", undefined]) {
    const on = Suspended.of(["a"]);
    on.suspend("a", 2, 10);
    on.annotate("a", 2, { "suspended-at": stamp });
    assert.deepEqual(decided(on), ["stamp db-a-2"], String(stamp));
  }
  const well = Suspended.of(["a"]);
  well.suspend("a", 2, 10);
  assert.deepEqual(decided(well), []);
});

test("wanted-again: a volume's time begins again, and its pod is waited for, if a user scales its StatefulSet up again", () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 10);
  on.spec("a", { replicas: 3 });
  assert.deepEqual(decided(on), ["restamp db-a-2"]);
  const [member] = on.members.filter(({ ordinal }) => ordinal === 2);
  assert.equal(member && decideMember(member, now, true)?.guard, "wanted-again");
  begunAnew(on);
  assert.deepEqual(decided(on), ["pod-missing"]);
});

/** The state that suspend-group and gc-suspended-groups leave. */
function begunAnew(on: Suspended): void {
  on.annotate("a", 2, { "suspend-state": "Suspending", "suspended-at": undefined });
}

test("recovering: the StatefulSet gets one more replica, and annotations stay until the pod is ready on the same volume claim", () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 10);
  on.annotate("a", 2, { recover: "true" });
  assert.deepEqual(decided(on), ["db-a to 3", "recovering"]);
  on.spec("a", { replicas: 3 });
  assert.deepEqual(decided(on), ["restamp db-a-2"]);
  begunAnew(on);
  assert.deepEqual(decided(on), ["recovering"]);
  on.addPod("db-a-2", "uid-db-a");
  assert.deepEqual(decided(on), ["clear db-a-2"]);
});

test("zone-scaling-down: a claim to scale down blocks a recovery, and a claim to remove the volume does not", () => {
  const blocked = (kind: "scale-down" | "volume") => {
    const on = Suspended.of(["a"]);
    on.suspend("a", 2, 10);
    on.annotate("a", 2, { recover: "true" });
    on.claim("a", "another-function", kind, 2);
    return decided(on);
  };
  assert.deepEqual(blocked("scale-down"), ["zone-scaling-down"]);
  assert.deepEqual(blocked("volume"), ["db-a to 3", "recovering"]);
});

test("removing the request recovers a suspended volume, and ends at once a suspension that has not begun", () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 10);
  on.annotate("a", 2, { suspend: undefined });
  assert.ok(decided(on).includes("db-a to 3"));
  const asked = suspending(["a"]);
  asked.annotate("a", 2, { suspend: "false" });
  assert.deepEqual(decided(asked), ["clear db-a-2"]);
});

test("recover-lower-first: a pod comes back only after the lower ones, and its message says so; requests of all bring back all", () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 10);
  on.suspend("a", 1, 10);
  on.annotate("a", 2, { recover: "true" });
  assert.deepEqual(decided(on), ["recover-lower-first"]);
  on.annotate("a", 1, { recover: "true" });
  assert.ok(decided(on).includes("db-a to 2"));
});

test("below-start: a recovery below the first ordinal is reported, because more replicas would never bring its pod back", () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 0, 10);
  on.spec("a", { replicas: 2, ordinals: { start: 1 } });
  on.annotate("a", 0, { recover: "true" });
  assert.deepEqual(decided(on), ["below-start"]);
  const verdict = decideOn(on);
  assert.match(verdict.message, /db-a-0 is to come back, and spec\.ordinals\.start of db-a is 1: set it to 0 or less/);
});

test("a user who raises the first ordinal takes the lowest pods away: their volumes' time begins when they have gone", () => {
  const on = suspending(["a"], [0]);
  on.spec("a", { replicas: 2, ordinals: { start: 1 } });
  assert.deepEqual(decided(on), ["pod-leaving"]);
  on.pods.delete("db-a-0");
  assert.deepEqual(decided(on), ["stamp db-a-0"]);
});

test("recover-too-late: a recovery is answered with a refusal once the volume claim is deleted, by Sluice or by a user", () => {
  const removing = Suspended.of(["a"]);
  removing.suspend("a", 2, 100, "Removing");
  removing.annotate("a", 2, { recover: "true" });
  assert.deepEqual(decided(removing), ["recovering"], "the removal may be taken back until the deletion");
  removing.delete("a", 2);
  assert.deepEqual(decided(removing), ["answer-recover db-a-2"]);
  const deleted = Suspended.of(["a"]);
  deleted.suspend("a", 2, 10);
  deleted.delete("a", 2);
  deleted.annotate("a", 2, { recover: "true" });
  assert.deepEqual(decided(deleted), ["answer-recover db-a-2"]);
});

test("in-use-again: a volume that was to be removed and is used again is cleared, unless it is already deleted", () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 100, "Removing");
  on.spec("a", { replicas: 3 });
  on.addPod("db-a-2", "uid-db-a");
  assert.deepEqual(decided(on), ["clear db-a-2"]);
  on.delete("a", 2);
  assert.deepEqual(decided(on), []);
});

test("deleted-by-others: a volume claim that a user deletes keeps Sluice's finalizer, and its time begins when its pod is gone", () => {
  const on = suspending(["a"]);
  on.delete("a", 2);
  assert.deepEqual(decided(on), ["deleted-by-others"]);
  on.spec("a", { replicas: 2 });
  on.pods.delete("db-a-2");
  assert.deepEqual(decided(on), ["stamp db-a-2"]);
});

test("deleted-by-others: if a user deletes one of two volumes of a pod, the recovery of the other waits until the first is gone", () => {
  const on = Suspended.of(["a"]);
  on.spec("a", { volumeClaimTemplates: [{ metadata: { name: "data" } }, { metadata: { name: "journal" } }] });
  on.suspend("a", 2, 10);
  const kept = on.claims.get("data-db-a-2");
  assert.ok(kept);
  const metadata = { ...kept.metadata, name: "journal-db-a-2", uid: "uid-journal", deletionTimestamp: minutesAgo(1) };
  on.claims.set("journal-db-a-2", { ...kept, metadata });
  on.annotate("a", 2, { recover: "true" });
  assert.deepEqual(decided(on), ["deleted-by-others"]);
  on.claims.set("journal-db-a-2", {
    ...kept,
    metadata: { ...metadata, annotations: { ...metadata.annotations, "sluice.dev/recover": "true" } },
  });
  const verdict = decideOn(on);
  const [target] = verdict.kind === "take" ? verdict.targets : [];
  assert.ok(target?.kind === "answer-recover");
  assert.deepEqual(
    target.pvcs.map(({ name }) => name),
    ["journal-db-a-2"],
  );
  on.claims.delete("journal-db-a-2");
  assert.equal(decided(on)[0], "db-a to 3");
});

test("if one of two volumes of a pod is to be removed, the function does not stamp it again, and a recovery saves both", () => {
  const on = Suspended.of(["a"]);
  on.spec("a", { volumeClaimTemplates: [{ metadata: { name: "data" } }, { metadata: { name: "journal" } }] });
  on.suspend("a", 2, 100);
  const other = on.claims.get("data-db-a-2");
  assert.ok(other);
  const metadata = { ...other.metadata, name: "journal-db-a-2", uid: "uid-journal" };
  on.claims.set("journal-db-a-2", { ...other, metadata });
  on.annotate("a", 2, { "suspend-state": "Removing" });
  assert.deepEqual(decided(on), []);
  on.annotate("a", 2, { recover: "true" });
  assert.equal(decided(on)[0], "db-a to 3");
});

test("uninstalling: no suspension begins with VOLUME_HOLD=remove", () => {
  const on = Suspended.of(["a"]);
  on.ask("a", 2);
  assert.deepEqual(decided(on, { protects: false }), ["uninstalling"]);
});

test("protecting: a finalizer that was removed by hand comes back; suspending: a pod that goes gets no other verdict", () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 10);
  on.hold("a", 2, []);
  const verdict = decideOn(on);
  assert.deepEqual(
    [decided(on), verdict.message],
    [["protect db-a-2"], "the volume claims of db-a-2 get our finalizer first"],
  );
  const guards = suspending(["a"]);
  assert.deepEqual(decided(guards), ["db-a to 2"]);
});

test("nothing is suspended or recovered in a namespace that is being deleted", () => {
  const on = suspending(["a"]);
  assert.deepEqual(decided(on, { isNamespaceEnding: true }), []);
});

test("each step that is carried out has a guard, as each wait has", () => {
  const named = (on: Suspended) =>
    on.members.map((member) => decideMember(member, now, true)?.guard).find((guard) => guard);
  const asked = Suspended.of(["a"]);
  asked.ask("a", 2);
  assert.equal(named(asked), "protecting");
  assert.equal(named(suspending(["a"])), "suspending");
  const gone = Suspended.of(["a"]);
  gone.suspend("a", 2, 10, "Suspending");
  assert.equal(named(gone), "stamping");
  gone.annotate("a", 2, { "suspend-state": "Removing" });
  gone.addPod("db-a-2", "uid-db-a");
  gone.spec("a", { replicas: 3 });
  assert.equal(named(gone), "in-use-again");
  gone.delete("a", 2);
  gone.annotate("a", 2, { recover: "true" });
  assert.equal(named(gone), "recover-too-late");
  const back = Suspended.of(["a"]);
  back.suspend("a", 2, 10);
  back.addPod("db-a-2", "uid-db-a");
  assert.equal(named(back), "restamping");
  begunAnew(back);
  back.annotate("a", 2, { recover: "true" });
  assert.equal(named(back), "recovering");
  const left = suspending(["a"]);
  left.spec("a", { replicas: 2 });
  assert.equal(named(left), "pod-leaving");
});

test("annotations are cleared only when the ledger has no scale-down of the pod, because another process may still carry it out", () => {
  for (const wish of [{ recover: "true" }, { suspend: undefined }]) {
    const on = suspending(["a"]);
    on.annotate("a", 2, wish);
    assert.deepEqual(decided(on), ["clear db-a-2"]);
    on.claim("a", "suspend-group", "scale-down", 2);
    assert.deepEqual(decided(on), ["pod-leaving"]);
  }
});

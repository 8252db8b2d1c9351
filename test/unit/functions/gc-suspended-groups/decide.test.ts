/** Which suspended volumes are removed, and what blocks the others: one snapshot, one verdict (spec 3.2 to 3.4). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/gc-suspended-groups/decide.ts";
import type { RemovalSnapshot } from "../../../../functions/gc-suspended-groups/decide-removals.ts";
import { describeSpan, warningDue } from "../../../../functions/shared/suspension/time-left.ts";
import { minutesAgo, nowMs, Suspended } from "../../../support/suspended.ts";

const decideOn = (on: Suspended, changes: Partial<RemovalSnapshot> = {}) =>
  decide({ ...on.around("gc-suspended-groups", "volume"), removes: true, ...changes });

function decided(on: Suspended, changes: Partial<RemovalSnapshot> = {}): readonly string[] {
  const verdict = decideOn(on, changes);
  if (verdict.kind === "wait") return [verdict.guard];
  const described = verdict.targets.map((target) => {
    return target.kind === "tell" ? target.guard : `${target.kind} ${target.member.name}`;
  });
  return [...new Set(described)];
}

/** Suspended two hours ago, so that its duration is over. */
function over(
  zones: readonly string[] = ["a"],
  ordinals: readonly number[] = [2],
  policy = { "suspend-duration": "1h" },
) {
  const on = Suspended.of(zones, 3, policy);
  for (const zone of zones) for (const ordinal of [...ordinals].sort().reverse()) on.suspend(zone, ordinal, 120);
  return on;
}

test("a volume whose duration is over is removed, under a claim that rests on the mark of its first volume claim", () => {
  const on = over();
  const verdict = decideOn(on);
  const [target] = verdict.kind === "take" ? verdict.targets : [];
  assert.ok(target?.kind === "remove");
  const { kind, zone, members, uids, anchor } = target.claim;
  assert.deepEqual([target.member.name, kind, zone, members], ["db-a-2", "volume", "db-a", [{ first: 2, last: 2 }]]);
  assert.deepEqual(uids, { "data-db-a-2": "uid-data-db-a-2" });
  assert.deepEqual(anchor, {
    resource: "persistentvolumeclaims",
    name: "data-db-a-2",
    annotation: "sluice.dev/removal-claim",
  });
});

test("suspended: a volume is removed exactly when its duration is over, and no moment before (I1)", () => {
  const at = (minutes: number, duration: string) => {
    const on = Suspended.of(["a"], 3, { "suspend-duration": duration });
    on.suspend("a", 2, minutes);
    return decided(on)[0];
  };
  assert.equal(at(59, "1h"), "suspended");
  assert.equal(at(60, "1h"), "remove db-a-2");
  assert.equal(at(1, "60"), "remove db-a-2", "a number is seconds");
  assert.equal(at(1, "61"), "suspended");
  assert.equal(at(1, "0"), "remove db-a-2", "0 does not wait");
});

test("drain-refused, drain-unknown, drain-not-asked: others are asked again right before the removal, and must agree (I11)", () => {
  const on = over(["a"], [2], { "suspend-duration": "1h", "drain-url": "http://:80/drained/{pod}" } as never);
  const answered = (state?: "good" | "bad" | "unknown"): Partial<RemovalSnapshot> => {
    const drain = state && { pod: "db-a-0", health: { state, detail: "HTTP 1" } };
    return { members: on.members.map((one) => (drain ? { ...one, drain } : one)) };
  };
  assert.deepEqual(decided(on, answered("bad")), ["drain-refused"]);
  assert.deepEqual(decided(on, answered("unknown")), ["drain-unknown"]);
  assert.deepEqual(decided(on, answered()), ["drain-not-asked"]);
  assert.deepEqual(decided(on, answered("good")), ["remove db-a-2"]);
  on.annotate("a", 2, { "suspended-at": minutesAgo(30) });
  assert.deepEqual(decided(on, answered()), ["suspended"], "no pod is asked while its time runs");
  on.policy("a", { "drain-url": "http://:80/all" });
  on.annotate("a", 2, { "suspended-at": minutesAgo(90) });
  assert.deepEqual(decided(on, answered("good")), ["drain-question-malformed"]);
});

test("the duration is read again: a longer one keeps the volume, and a shorter one removes it no earlier than it says (I3)", () => {
  const on = over();
  on.policy("a", { "suspend-duration": "1d" });
  assert.deepEqual(decided(on), ["suspended"]);
  on.policy("a", { "suspend-duration": "119m" });
  assert.deepEqual(decided(on), ["remove db-a-2"]);
  on.annotate("a", 2, { "suspend-duration": "121m" });
  assert.deepEqual(decided(on), ["suspended"], "one on the volume claim counts where it is longer");
});

test("a volume claim never cuts the time of its StatefulSet short, before its time runs and after", () => {
  const on = over();
  on.policy("a", { "suspend-duration": "7d" });
  for (const text of ["0", "1s", "6d"]) {
    on.annotate("a", 2, { "suspend-duration": text });
    assert.deepEqual(decided(on), ["suspended"], text);
  }
  on.policy("a", { "suspend-duration": undefined });
  assert.deepEqual(
    decided(on),
    ["duration-missing"],
    "what its StatefulSet does not say the volume claim does not say for it",
  );
});

test("duration-missing and duration-malformed: a missing or unreadable duration blocks the removal (I2)", () => {
  const on = over();
  on.policy("a", { "suspend-duration": undefined });
  assert.deepEqual(decided(on), ["duration-missing"]);
  for (const text of ["", "1 h", "-1h", "1h30", "NaN", "1e3", "7 days", "∞"]) {
    on.policy("a", { "suspend-duration": text });
    assert.deepEqual(decided(on), ["duration-malformed"], text);
  }
});

test("stamp-missing: a stamp that is gone, in the future or unreadable starts no removal", () => {
  for (const stamp of [undefined, "yesterday", minutesAgo(-60), "2026-02-30T00:00:00Z"]) {
    const on = over();
    on.annotate("a", 2, { "suspended-at": stamp });
    assert.deepEqual(decided(on), ["stamp-missing"], String(stamp));
  }
});

test("a stamp by another client counts from its write, and one of ours as it is", () => {
  const forged = (manager: string, minutes: number) => {
    const on = over();
    const annotations = { "f:sluice.dev/suspended-at": {} };
    const fieldsV1 = { "f:metadata": { "f:annotations": annotations } };
    const managedFields = [{ manager, operation: "Update", time: minutesAgo(minutes), fieldsV1 }];
    on.change("a", 2, (claim) => ({ ...claim, metadata: { ...claim.metadata, managedFields } }));
    return decided(on);
  };
  assert.deepEqual(forged("kubectl-annotate", 5), ["suspended"]);
  assert.deepEqual(forged("kubectl-annotate", 90), ["remove db-a-2"]);
  assert.deepEqual(forged("sluice", 5), ["remove db-a-2"]);
});

test("the API server's condition Unused must agree: if the claim is in use its duration restarts, and a later time of the condition counts", () => {
  const witness = (status: string, minutes: number) => {
    const on = over();
    const conditions = [{ type: "Unused", status, lastTransitionTime: minutesAgo(minutes) }];
    on.change("a", 2, (claim) => ({ ...claim, status: { ...claim.status, conditions } }));
    return decided(on);
  };
  assert.deepEqual(witness("False", 200), ["restamp db-a-2"]);
  assert.deepEqual(witness("True", 10), ["suspended"]);
  assert.deepEqual(witness("True", 90), ["remove db-a-2"]);
});

test("on-hold: true, or a text that Sluice cannot read, on the volume claim or on its StatefulSet; the duration goes on", () => {
  for (const text of ["true", "yes", ""]) {
    const claim = over();
    claim.annotate("a", 2, { hold: text });
    assert.deepEqual(decided(claim), ["on-hold"], text);
    const set = over();
    set.policy("a", { hold: text });
    assert.deepEqual(decided(set), ["on-hold"], text);
  }
  const free = over();
  free.annotate("a", 2, { hold: "false" });
  assert.deepEqual(decided(free), ["remove db-a-2"]);
});

test("restamping, wanted-again and in-use: while a pod mounts the volume, or its StatefulSet wants that pod, the duration restarts (I6)", () => {
  const anew = (on: Suspended) => {
    const verdict = decideOn(on);
    const targets = verdict.kind === "take" ? verdict.targets : [];
    return targets.map((target) => (target.kind === "restamp" ? target.anew.guard : target.kind));
  };
  const used = over();
  used.addPod("reader", "another", ["data-db-a-2"]);
  assert.deepEqual(anew(used), ["restamping"]);
  const wanted = over();
  wanted.spec("a", { replicas: 3 });
  assert.deepEqual(anew(wanted), ["wanted-again"]);
  for (const word of ["suspend", "drained-at", "suspend-duration", "hold", "suspend-owner-uid", "suspend-state"]) {
    wanted.annotate("a", 2, { [word]: "?" });
    assert.deepEqual(anew(wanted), ["wanted-again"], `${word} is malformed`);
  }
  const deleted = over();
  deleted.suspend("a", 2, 120, "Removing");
  deleted.delete("a", 2);
  deleted.addPod("reader", "another", ["data-db-a-2"]);
  assert.deepEqual(decided(deleted), ["in-use"], "nothing can be taken back of what is deleted");
});

test("drain-lost: Sluice asks again for the statement that the data is not needed (I11)", () => {
  for (const word of [undefined, "soon", minutesAgo(-60)]) {
    const on = over();
    on.annotate("a", 2, { "drained-at": word });
    assert.deepEqual(decided(on), ["drain-lost"], String(word));
  }
});

test("Sluice does not remove a volume that a user wants back, or no longer asks to remove", () => {
  for (const texts of [{ recover: "true" }, { recover: "maybe" }, { suspend: "false" }, { suspend: undefined }]) {
    const on = over();
    on.annotate("a", 2, texts);
    assert.deepEqual(decided(on), [], JSON.stringify(texts));
  }
});

test("owner-replaced and owner-deleting: volumes stay if their StatefulSet was replaced by a namesake, or is being deleted (I9)", () => {
  const replaced = over();
  replaced.annotate("a", 2, { "suspend-owner-uid": undefined });
  assert.deepEqual(decided(replaced), ["owner-replaced"]);
  const deleting = over();
  const set = deleting.sets.get("a");
  if (set !== undefined)
    deleting.sets.set("a", { ...set, metadata: { ...set.metadata, deletionTimestamp: minutesAgo(1) } });
  assert.deepEqual(decided(deleting), ["owner-deleting"]);
});

test("one zone at a time loses volumes: first the one with most of them, and all of its own in one turn", () => {
  const on = over(["a", "b"], [2]);
  on.suspend("b", 1, 120);
  assert.deepEqual(decided(on), ["remove db-b-1", "remove db-b-2", "zone-busy"]);
  on.policy("b", { "removal-mode": "Group" });
  assert.deepEqual(decided(on), ["remove db-b-1", "zone-busy"]);
});

test("zone-busy: while a volume of one zone goes, no other zone begins; a removal under way goes on", () => {
  const on = over(["a", "b"], [2]);
  on.claim("b", "gc-suspended-groups", "volume", 2);
  on.annotate("b", 2, { "suspend-state": "Removing" });
  assert.deepEqual(decided(on), ["remove db-b-2", "zone-busy"]);
});

test("zones-down: nothing is removed while a pod of another zone is away", () => {
  const on = over(["a", "b"], [2]);
  on.pods.delete("db-b-0");
  assert.ok(decided(on).includes("zones-down"));
  assert.ok(!decided(on).some((one) => one.startsWith("remove db-a")));
});

test("mode-none removes nothing, and wait-between-removals counts pods and volumes alike", () => {
  const none = over();
  none.policy("a", { "removal-mode": "None" });
  assert.deepEqual(decided(none), ["mode-none"]);
  const wait = over(["a"], [2], { "suspend-duration": "1h" });
  wait.policy("a", { "wait-between-removals": "3h" });
  assert.deepEqual(decided(wait), ["wait-between-removals"]);
  wait.policy("a", { "wait-between-removals": "often" });
  assert.deepEqual(decided(wait), ["wait-malformed"]);
});

test("a marked claim that is not deleted yet goes only if its duration is over, and a hold or a pod stops it", () => {
  const on = over();
  for (const texts of [{ "suspend-duration": "3h" }, { "suspend-duration": "?" }, { "suspended-at": undefined }]) {
    on.suspend("a", 2, 120, "Removing");
    on.annotate("a", 2, texts);
    assert.deepEqual(decided(on), ["restamp db-a-2"], JSON.stringify(texts));
  }
  on.suspend("a", 2, 120, "Removing");
  on.annotate("a", 2, { "suspend-duration": undefined });
  assert.deepEqual(decided(on), ["remove db-a-2"]);
  on.annotate("a", 2, { hold: "true" });
  assert.deepEqual(decided(on), ["on-hold"]);
  on.delete("a", 2);
  assert.deepEqual(decided(on), ["on-hold"], "and our finalizer stays");
});

test("a deleted claim loses our finalizer; one that another client deleted keeps it for its duration", () => {
  const on = over();
  on.suspend("a", 2, 120, "Removing");
  on.delete("a", 2);
  assert.deepEqual(decided(on), ["release db-a-2"]);
  const early = over();
  early.annotate("a", 2, { "suspended-at": minutesAgo(10) });
  early.delete("a", 2);
  assert.deepEqual(decided(early), ["suspended"]);
});

test("removing and finalizer-foreign: Sluice waits for a deleted claim that is not gone, and reports whose finalizer keeps it", () => {
  const on = over();
  on.suspend("a", 2, 120, "Removing");
  on.delete("a", 2);
  on.hold("a", 2, []);
  assert.deepEqual(decided(on), ["removing"]);
  on.hold("a", 2, ["example.com/backup"]);
  const verdict = decideOn(on);
  assert.deepEqual([decided(on), /example.com\/backup/.test(verdict.message)], [["finalizer-foreign"], true]);
});

test("uninstalling: with VOLUME_HOLD=remove all claims lose our finalizer and the stamp, and nothing is removed", () => {
  const on = over();
  assert.deepEqual(decided(on, { removes: false }), ["release db-a-2"]);
  on.hold("a", 2, []);
  assert.deepEqual(decided(on, { removes: false }), ["release db-a-2"], "its time is left");
  on.annotate("a", 2, { "suspend-state": "Suspending", "suspended-at": undefined });
  assert.deepEqual(decided(on, { removes: false }), ["uninstalling"]);
});

test("namespace-ending: deleted claims lose our finalizer, unless they are on hold", () => {
  const on = over();
  assert.deepEqual(decided(on, { isNamespaceEnding: true }), ["namespace-ending"]);
  on.delete("a", 2);
  assert.deepEqual(decided(on, { isNamespaceEnding: true }), ["release db-a-2"]);
  on.annotate("a", 2, { hold: "true" });
  assert.deepEqual(decided(on, { isNamespaceEnding: true }), ["on-hold"]);
});

test("all volume claims of a pod must be due, and one that a user wants back keeps them all", () => {
  const on = over();
  on.spec("a", { volumeClaimTemplates: [{ metadata: { name: "data" } }, { metadata: { name: "log" } }] });
  on.addClaim("log-db-a-2", {
    suspend: "true",
    "drained-at": minutesAgo(90),
    "suspend-state": "Suspended",
    "suspend-owner-uid": "uid-db-a",
    "suspended-at": minutesAgo(10),
  });
  assert.deepEqual(decided(on), ["suspended"]);
  on.claims.delete("log-db-a-2");
  on.addClaim("log-db-a-2", { recover: "true", "suspend-state": "Suspended", "suspended-at": minutesAgo(120) });
  assert.deepEqual(decided(on), []);
});

test("warnings come at half of the duration and an hour before its end, and say how long is left", () => {
  const warned = (minutes: number, duration: string) => {
    const on = Suspended.of(["a"], 3, { "suspend-duration": duration });
    on.suspend("a", 2, minutes);
    const member = on.members.find(({ name }) => name === "db-a-2");
    const due = member && warningDue(member, nowMs, 0);
    return due && `${due.name} ${describeSpan(due.leftMs)}`;
  };
  assert.equal(warned(179, "6h"), undefined);
  assert.equal(warned(180, "6h"), "half 3h");
  assert.equal(warned(300, "6h"), "hour 1h");
  assert.equal(warned(360, "6h"), undefined, "it is over");
  assert.equal(warned(45, "1h"), "half 15m", "an hour before the end of an hour is its beginning");
  assert.equal(describeSpan(601_200_000), "6d 23h");
});

test("if a pod came back after the removal began, the claim is released once, and its volume goes with that pod", () => {
  const on = over();
  on.annotate("a", 2, { "suspend-state": "Removing", "removal-claim": "volume db-a 2 1" });
  on.delete("a", 2);
  on.spec("a", { replicas: 3 });
  on.addPod("db-a-2", "uid-db-a");
  assert.ok(decided(on).includes("stand-back db-a-2"));
  on.annotate("a", 2, { "removal-claim": undefined });
  assert.ok(!decided(on).includes("stand-back db-a-2"));
  on.pods.delete("db-a-2");
  assert.ok(decided(on).includes("release db-a-2"));
});

test("a process whose clock is behind does not overwrite the wait of a process by whose clock the duration is over", () => {
  const messageAfter = (duration: string) => {
    const on = Suspended.of(["a"], 3, { "suspend-duration": duration });
    on.suspend("a", 2, 60);
    on.annotate("a", 2, { "suspend-message": "wait-between-removals: db-a-2 waits" });
    return decideOn(on).kind;
  };
  assert.equal(messageAfter("3630"), "wait", "30 s are left, by which clocks may differ: nothing is written");
  assert.equal(messageAfter("3631"), "take", "a user has said a longer time: it says so");
});

test("after a size change by another client the duration counts from the next reconcile at the latest, because the pod may have ended slowly", () => {
  const resized = (minutes: number) => {
    const on = over();
    const set = on.sets.get("a");
    const fieldsV1 = { "f:spec": { "f:replicas": {} } };
    const managedFields = [{ manager: "kube-autoscaler", operation: "Update", time: minutesAgo(minutes), fieldsV1 }];
    if (set !== undefined) on.sets.set("a", { ...set, metadata: { ...set.metadata, managedFields } });
    return on;
  };
  const why = "an hour has passed since the change, and not since a reconcile that came after it";
  assert.equal(decided(resized(69))[0], "suspended", why);
  assert.match(
    decideOn(resized(5)).message,
    /kept for 1h 5m more: another client changed the size of db-a, and their 1h begin/,
  );
  assert.equal(decided(resized(70))[0], "remove db-a-2");
  assert.equal(decided(resized(121))[0], "remove db-a-2", "a change before the stamp says nothing");
});

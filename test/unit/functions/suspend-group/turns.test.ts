/** Which member of a group comes back or goes first, what a verdict names, and when the group is reconciled again. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { leavingClaimOf } from "../../../../functions/suspend-group/decide.ts";
import { minutesAgo, Suspended } from "../../../support/suspended.ts";
import { claimOf, foreignClaim } from "../advance-zone-rollout/given.ts";
import { decided, decideOn, suspending } from "./given.ts";

describe("a scale-down by which a pod may still go", () => {
  const [member] = Suspended.of(["a"]).members.filter(({ ordinal }) => ordinal === 2);
  const found = (...claims: Parameters<typeof leavingClaimOf>[0]) => member && leavingClaimOf(claims, member)?.id;

  test("is one of its StatefulSet whose members include its ordinal", () => {
    for (const place of ["db-a:2", "db-a:1-2", "db-a:2-3", "db-a:0,2", "db-a:2,5"])
      assert.equal(found(claimOf(place, "scale-down")), `claim-of-${place}`);
    for (const place of ["db-b:2", "db-a:3-4", "db-a:0-1", "db-a:0-1,3-9"])
      assert.equal(found(claimOf(place, "scale-down")), undefined, place);
  });

  test("is none of another kind, nor one that this version cannot read, and the first one counts", () => {
    const unreadable = { ...foreignClaim("db-a"), kind: "scale-down" } as ReturnType<typeof foreignClaim>;
    assert.equal(found(claimOf("db-a:2", "volume"), foreignClaim("db-a"), unreadable), undefined);
    const two = ["first", "second"].map((id) => claimOf("db-a:2", "scale-down", { id }));
    assert.equal(found(...two), "first");
  });

  test("keeps its annotations, and its time begins again where that runs although the pod is there", () => {
    const on = Suspended.of(["a"]);
    on.suspend("a", 2, 10, "Suspending");
    on.annotate("a", 2, { recover: "true" });
    on.spec("a", { replicas: 3 });
    on.addPod("db-a-2", "uid-db-a");
    assert.deepEqual(decided(on), ["clear db-a-2"]);
    assert.deepEqual(decided(on, { zones: [] }), ["clear db-a-2"], "its zone is not known");
    on.annotate("a", 2, { "suspend-state": "Suspended", "suspended-at": "2026-06-01T11:50:00Z" });
    on.claim("a", "suspend-group", "scale-down", 2);
    assert.deepEqual(decided(on), ["restamp db-a-2"]);
  });
});

describe("what comes back", () => {
  /** The highest pods of a zone of three are suspended, and these are to come back. */
  function returning(suspended: readonly number[], ...ordinals: readonly number[]): Suspended {
    const on = Suspended.of(["a"]);
    for (const ordinal of suspended) on.suspend("a", ordinal, 10);
    for (const ordinal of ordinals) on.annotate("a", ordinal, { recover: "true" });
    return on;
  }

  test("comes back in its turn, one at a time, whatever its zone's first ordinal is", () => {
    const on = returning([1, 2], 1, 2);
    assert.deepEqual(decided(on), ["db-a to 2", "recovering"]);
    on.spec("a", { replicas: 1, ordinals: { start: 1 } });
    assert.deepEqual(decided(on), ["restamp db-a-1", "db-a to 2", "recovering"]);
  });

  test("owner-deleting and size-led: no pod comes back to a StatefulSet that goes, or whose size another object says", () => {
    const deleting = returning([2], 2);
    const set = deleting.sets.get("a");
    assert.ok(set);
    deleting.sets.set("a", { ...set, metadata: { ...set.metadata, deletionTimestamp: "2026-06-01T11:00:00Z" } });
    assert.deepEqual(decided(deleting), ["owner-deleting"]);
    const follower = returning([2], 2);
    follower.policy("a", { "grafana.com/rollout-downscale-leader": "db-b" });
    assert.deepEqual(decided(follower), ["size-led"]);
    follower.annotate("a", 2, { recover: undefined, suspend: undefined });
    assert.equal(decideOn(follower).kind, "take", "its volume claim gets the message though it does not ask any more");
  });

  test("size-refused: a size that the API server has refused is not tried again at once", () => {
    const refused = new Map([["uid-db-a", "a webhook says no"]]);
    assert.deepEqual(decided(returning([2], 2), { refused }), ["size-refused"]);
    assert.deepEqual(decided(returning([2], 2), { refused: new Map([["uid-db-b", "no"]]) }), [
      "db-a to 3",
      "recovering",
    ]);
  });

  test("recover-lower-first: only a lower pod of its own StatefulSet that is suspended comes before it", () => {
    const other = returning([1, 2], 1, 2);
    other.addZone("b", 3, { "suspend-duration": "1h" });
    other.suspend("b", 1, 10);
    assert.ok(!decided(other).includes("recover-lower-first"), "a lower one of another zone does not count");
    const plain = returning([2], 2);
    plain.spec("a", { replicas: 1 });
    assert.ok(decided(plain).includes("db-a to 2"), "nor does one that a user took away without suspending it");
    assert.match(decideOn(returning([0, 1, 2], 2)).message, /db-a-0 comes before it/, "the lowest is named");
    assert.ok(decided(returning([0, 1, 2], 0)).includes("db-a to 1"), "the first ordinal comes back as well");
    const begun = returning([2], 2);
    begun.annotate("a", 1, { suspend: "true" });
    begun.hold("a", 1, ["sluice.dev/volume-hold"]);
    assert.ok(decided(begun).includes("db-a to 3"), "a lower one that is still wanted does not count");
    assert.deepEqual(decided(returning([1, 2], 2)), ["recover-lower-first"]);
    const higher = returning([1, 2], 1);
    assert.ok(decided(higher).includes("db-a to 2"), "a higher one does not count");
  });
});

describe("what goes", () => {
  test("waits for the time between removals from when another pod is seen to be gone, and not beside another step", () => {
    const on = suspending(["a"], [1, 2]);
    on.spec("a", { replicas: 2 });
    on.pods.delete("db-a-2");
    assert.deepEqual(decided(on), ["stamp db-a-2", "wait-between-removals"]);
    const protecting = suspending(["a", "b"]);
    protecting.ask("b", 1);
    assert.deepEqual(decided(protecting).slice(0, 2), ["protect db-b-1", "db-a to 2"]);
  });

  test("is named by its verdict with its zone, and so is the first step where the first member waits", () => {
    const going = decideOn(suspending(["a"]));
    assert.deepEqual([going.zone, going.message, going.requeueAfterMs], ["db-a", "db-a-2 is to go", 2_000]);
    const mixed = suspending(["a"]);
    mixed.addZone("b", 3, { "suspend-duration": "1h" });
    mixed.ask("b", 2);
    mixed.pods.delete("db-b-0");
    const verdict = decideOn(mixed);
    assert.deepEqual(decided(mixed).slice(0, 1), ["protect db-b-2"]);
    assert.deepEqual([verdict.zone, verdict.message], ["db-b", "the volume claims of db-b-2 get our finalizer first"]);
  });
});

describe("the message on volume claims", () => {
  /** The volume claims of a pod that waits: its first one has the message of now, and `log` has this one. */
  function messages(log: Readonly<Record<string, string>>, metadata = {}): boolean {
    const on = suspending(["a"]);
    on.policy("a", { "removal-mode": "None" });
    on.annotate("a", 2, { "suspend-message": "mode-none: it stays", "suspend-pod-created": minutesAgo(600) });
    on.spec("a", { volumeClaimTemplates: [{ metadata: { name: "data" } }, { metadata: { name: "log" } }] });
    const data = on.claims.get("data-db-a-2");
    assert.ok(data);
    const annotations = { ...data.metadata.annotations, ...log };
    const own = { ...data.metadata, name: "log-db-a-2", uid: "uid-log", annotations, ...metadata };
    on.claims.set("log-db-a-2", { ...data, metadata: own });
    return decideOn(on).kind === "take";
  }

  test("is written where one of a pod's volume claims has another one, or was written before the pod was made", () => {
    assert.equal(messages({}), false);
    assert.equal(messages({ "sluice.dev/suspend-message": "zones-down: another" }), true);
    assert.equal(messages({ "sluice.dev/suspend-pod-created": minutesAgo(700) }), true);
  });
});

describe("when the group is reconciled again", () => {
  const requeue = (on: Suspended, changes = {}) => decideOn(on, changes).requeueAfterMs;

  test("after 15 s where a user has to do something, and after 2 s where a pod is to go or to come back", () => {
    const undrained = Suspended.of(["a"]);
    undrained.annotate("a", 2, { suspend: "true" });
    assert.equal(requeue(undrained), 15_000);
    const blocked = suspending();
    blocked.pods.delete("db-b-0");
    assert.equal(requeue(blocked), 2_000);
    const leaving = suspending(["a"]);
    leaving.spec("a", { replicas: 2 });
    assert.equal(requeue(leaving), 2_000);
  });

  test("after 30 s where one of a pod's volume claims does not ask, and no message is written for that", () => {
    const on = Suspended.of(["a"]);
    on.spec("a", { volumeClaimTemplates: [{ metadata: { name: "data" } }, { metadata: { name: "log" } }] });
    on.addClaim("log-db-a-2");
    on.ask("a", 2);
    const verdict = decideOn(on);
    assert.deepEqual([verdict.kind, verdict.requeueAfterMs], ["wait", 30_000]);
    on.ask("a", 1);
    on.hold("a", 1, ["sluice.dev/volume-hold"]);
    on.annotate("a", 1, { "suspend-state": "Suspending", "suspend-owner-uid": "uid-db-a" });
    assert.equal(requeue(on), 2_000, "the soonest counts");
  });
});

/** What keeps some pods of a group from a restart together, beside others that run on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DriftZone } from "../../../../functions/advance-process-restart/drift/decide-drift.ts";
import { blockedByOutsiders } from "../../../../functions/advance-process-restart/drift/decide-outsiders.ts";
import type { Coordinating, FilesBefore } from "../../../../functions/advance-process-restart/drift/decide-settings.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { managed } from "./given.ts";

const [old, wanted] = ["1:old", "1:new"];
const named = (name: string): Coordinating => new Map([["cluster.name", name]]);

/** A StatefulSet of two pods that run with the old settings, and whose files have other ones by now. */
function changed(name: string, changes: Partial<DriftZone> = {}): DriftZone {
  const zone = managed(name, "nn") as Zone<StatefulSet>;
  const running = new Map(zone.pods.map(({ uid }) => [uid, old]));
  const noted = new Map([[old, named("a")]]);
  return { ...{ zone, sum: wanted, expected: named("b"), mounted: named("b"), noted, running }, ...changes };
}

/** The pod that the message names; undefined where nothing keeps the members from their restart. */
function pods(known: readonly DriftZone[], members: readonly string[], unusable: readonly FilesBefore[] = []) {
  const uids = known.flatMap(({ zone }) => zone.pods.filter(({ name }) => members.includes(name)));
  const blocked = blockedByOutsiders(known, new Set(uids.map(({ uid }) => uid)), unusable);
  if (blocked === undefined) return undefined;
  assert.equal(blocked.guard, "restart-config-together");
  assert.match(blocked.message, /cluster\.name.*: write schedule-coordinated on all pods of the group$/);
  return /a pod besides \w+|\w-\d/.exec(blocked.message)?.[0];
}

test("a pod besides the members that runs with another setting than its files have keeps them from a restart", () => {
  assert.equal(pods([changed("a"), changed("b")], ["a-0", "a-1"]), "b-0");
  assert.equal(pods([changed("a")], ["a-0"]), "a-1", "also one of the same StatefulSet");
  assert.equal(pods([changed("a"), changed("b")], ["a-0", "a-1", "b-0", "b-1"]), undefined, "all are members");
  assert.equal(pods([changed("a")], []), undefined, "none is a member");
  assert.equal(pods([changed("a"), changed("b", { expected: named("a") })], ["a-0", "a-1"]), undefined);
});

test("a process of which it is not known with which files it runs, and a pod without one, keep nothing", () => {
  const members = ["a-0", "a-1"];
  const silent = changed("b", { running: new Map(), mounted: named("a") });
  assert.equal(pods([changed("a"), silent], members), undefined);
  const down = changed("b");
  const uids = down.zone.pods.map(({ uid }) => uid);
  assert.equal(pods([changed("a"), { ...down, down: new Set(uids) }], members), undefined);
  assert.equal(pods([changed("a"), { ...down, down: new Set(uids.slice(0, 1)) }], members), "b-1");
});

test("where a person lets each pod of a StatefulSet restart alone, its processes keep nothing", () => {
  assert.equal(pods([changed("a"), changed("b", { mode: "rolling" })], ["a-0", "a-1"]), undefined);
  assert.equal(pods([changed("a", { mode: "rolling" }), changed("b")], ["a-0", "a-1"]), "b-0");
});

test("processes whose files cannot be read or written count for each StatefulSet with a member, and for no other", () => {
  const unusable = [{ mounted: named("c") }];
  const same = changed("b", { noted: new Map([[old, named("b")]]) });
  assert.equal(pods([changed("a"), same], ["a-0", "a-1"], unusable), "a pod besides a");
  assert.equal(pods([changed("a"), same], ["a-0", "a-1"], [{ mounted: named("b") }]), undefined);
  const part = changed("a", { noted: new Map([[old, named("b")]]) });
  assert.equal(pods([part], ["a-1"], unusable), "a pod besides a", "one member is enough");
  const [apart, member] = [changed("a", { expected: named("c"), mode: "rolling" }), changed("b")];
  assert.equal(pods([apart, member], ["a-0", "a-1"], unusable), "b-0");
  const other = changed("b", { noted: new Map([[old, named("b")]]) });
  assert.equal(pods([{ ...apart, mode: undefined }, other], ["a-0", "a-1"], unusable), undefined);
});

/** Which volumes are removed if their owner is no StatefulSet (spec suspend-before-delete 3.3). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { releasingPatch } from "../../../../functions/gc-suspended-groups/act.ts";
import { decide } from "../../../../functions/gc-suspended-groups/decide.ts";
import { decideStray } from "../../../../functions/gc-suspended-groups/decide-stray.ts";
import { clearingPatch } from "../../../../functions/shared/suspension/writing.ts";
import { parsePvc } from "../../../../functions/shared/volumes/pvc.ts";
import { Owned } from "../../../support/owned.ts";
import { minutesAgo, now } from "../../../support/suspended.ts";

function decided(on: Owned): readonly string[] {
  const verdict = decide({ ...on.around("gc-suspended-groups", "volume"), removes: true });
  if (verdict.kind === "wait") return [verdict.guard];
  return verdict.targets.map((target) =>
    target.kind === "tell" ? target.guard : `${target.kind} ${target.member.name}`,
  );
}

test("a volume is removed when its duration is over, under a claim that names its uid, one zone at a time", () => {
  const on = Owned.of(["a", "b"], 3);
  on.suspend("a-2", 59);
  assert.deepEqual(decided(on), ["suspended"]);
  on.suspend("a-2", 60);
  on.suspend("b-1", 60);
  on.suspend("b-2", 61);
  const verdict = decide({ ...on.around("gc-suspended-groups", "volume"), removes: true });
  const removals = verdict.kind === "take" ? verdict.targets.filter((target) => target.kind === "remove") : [];
  assert.deepEqual(
    removals.map(({ member, claim }) => [member.name, claim.zone, Object.keys(claim.uids ?? {})]),
    [
      ["b-1-data", "b", ["b-1-data"]],
      ["b-2-data", "b", ["b-2-data"]],
    ],
  );
});

test("mode-none in the cluster's own settings freezes removals under way, and releases them later", () => {
  const on = Owned.of(["a", "b"], 2);
  on.suspend("a-1", 90);
  on.set({ removalMode: "None" });
  assert.deepEqual(decided(on), ["mode-none"]);
  on.suspend("a-1", 90, "Removing");
  assert.deepEqual(decided(on), ["mode-none"], "its deletion is not sent");
  on.change("a-1-data", { deletionTimestamp: minutesAgo(1) });
  assert.deepEqual(decided(on), ["mode-none"], "our finalizer keeps its volume");
  on.set({ removalMode: "Zone" });
  assert.deepEqual(decided(on), ["release a-1-data"]);
});

test("zones-down and zone-scaling-down: no volume is removed while something of another zone is down or going", () => {
  const on = Owned.of(["a", "b"], 2);
  on.suspend("a-1", 90);
  on.unready("b-0");
  assert.deepEqual(decided(on), ["zones-down"]);
  const other = Owned.of(["a", "b"], 2);
  other.suspend("a-1", 90);
  other.claim("b", "suspend-group", "scale-down");
  assert.deepEqual(decided(other), ["zone-scaling-down"]);
});

test("a pod that uses it, drain-lost, on-hold, selector-malformed, duration-missing: each blocks a volume whose duration is over", () => {
  const cases: readonly [string, (on: Owned) => void][] = [
    ["restamp a-1-again", (on) => on.addPod("a-1-again", {}, ["a-1-data"])],
    ["drain-lost", (on) => on.log("a-1-data", { "drained-at": undefined })],
    ["on-hold", (on) => on.log("a-1-data", { hold: "true" })],
    ["selector-malformed", (on) => on.log("b-0-data", { "pod-selector": "?" })],
    ["duration-missing", (on) => on.log("a-1-data", { "suspend-duration": undefined })],
    ["owner-replaced", (on) => on.log("a-1-data", { zone: "c" })],
  ];
  for (const [guard, change] of cases) {
    const on = Owned.of(["a", "b"], 2);
    on.suspend("a-1", 90);
    assert.deepEqual(decided(on), ["remove a-1-data"]);
    change(on);
    assert.deepEqual(decided(on), [guard]);
  }
});

test("owner-malformed: a volume claim whose owner Sluice cannot read is kept, and its message says so", () => {
  const on = Owned.of(["a"], 1);
  on.suspend("a-0", 90);
  on.log("a-0-data", { owner: "foundationdb" });
  assert.deepEqual(on.members, []);
  const [object] = on.claims.values();
  assert.ok(object);
  const decision = decideStray(
    { pvc: parsePvc(object), users: [] },
    { removes: true, isNamespaceEnding: false, ...now },
  );
  assert.deepEqual([decision.kind, decision.guard], ["tell", "owner-malformed"]);
  assert.match(decision.message, /annotation sluice\.dev\/owner is "foundationdb"; write KIND\.GROUP\/NAME/);
});

test("a claim that is only protected is not touched; if deleted, it is removed and released when its duration is over", () => {
  const finalizers = ["sluice.dev/volume-protection"];
  const on = Owned.of(["a"], 2);
  on.change("a-1-data", { finalizers });
  assert.deepEqual(decided(on), []);
  on.suspend("a-1", 59);
  on.change("a-1-data", { finalizers, deletionTimestamp: minutesAgo(60) });
  assert.deepEqual(decided(on), ["suspended"]);
  on.suspend("a-1", 60);
  on.change("a-1-data", { finalizers });
  assert.deepEqual(decided(on), ["remove a-1-data"]);
  on.suspend("a-1", 60, "Removing");
  on.change("a-1-data", { finalizers });
  assert.deepEqual(decided(on), ["release a-1-data"]);
});

test("the patch that releases a volume claim removes the finalizer of its protection only if the volume claim is deleted", () => {
  const finalizers = ["a/b", "sluice.dev/volume-hold", "sluice.dev/volume-protection"];
  const metadata = { name: "a", namespace: "db", uid: "u", resourceVersion: "1", finalizers };
  assert.deepEqual(releasingPatch(parsePvc({ metadata })).finalizers, ["a/b", "sluice.dev/volume-protection"]);
  const deleted = { ...metadata, deletionTimestamp: minutesAgo(1) };
  assert.deepEqual(releasingPatch(parsePvc({ metadata: deleted })).finalizers, ["a/b"]);
  assert.deepEqual(clearingPatch(parsePvc({ metadata })).finalizers, ["a/b", "sluice.dev/volume-protection"]);
});

/** Suspended volume claims whose StatefulSet is gone are kept until a user decides otherwise. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideStray } from "../../../../functions/gc-suspended-groups/decide-stray.ts";
import { parseVolumeUser } from "../../../../functions/shared/volumes/members.ts";
import { parsePvc } from "../../../../functions/shared/volumes/pvc.ts";
import { now, Suspended } from "../../../support/suspended.ts";

const usual = { removes: true, isNamespaceEnding: false, ...now };

function decision(
  change: (on: Suspended) => void,
  around: Partial<typeof usual> = {},
  used = false,
): readonly string[] {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 120);
  change(on);
  const claim = on.claims.get("data-db-a-2");
  assert.ok(claim !== undefined);
  const users = used ? [...on.pods.values()].slice(0, 1).map(parseVolumeUser) : [];
  const { kind, guard } = decideStray({ pvc: parsePvc(claim), users }, { ...usual, ...around });
  return [kind, guard];
}

test("owner-gone: a claim of any age stays, and its message says why, once", () => {
  assert.deepEqual(
    decision(() => {}),
    ["tell", "owner-gone"],
  );
  assert.deepEqual(
    decision((on) => on.annotate("a", 2, { "suspend-message": "owner-gone: x" })),
    ["nothing", "owner-gone"],
  );
  assert.deepEqual(
    decision((on) => on.delete("a", 2)),
    ["tell", "owner-gone"],
    "also where a user deletes it: until when, it says then",
  );
});

test("recovered: a request to recover removes all annotations of ours, the time of the drain included", () => {
  assert.deepEqual(
    decision((on) => on.annotate("a", 2, { recover: "true" })),
    ["clear", "recovered"],
  );
});

test("recover-too-late: a claim is not recovered if its removal has begun, or if a user deletes it", () => {
  const late = (change: (on: Suspended) => void) =>
    decision((on) => {
      on.annotate("a", 2, { recover: "true" });
      change(on);
    });
  assert.deepEqual(
    late((on) => on.delete("a", 2)),
    ["answer-recover", "recover-too-late"],
  );
  assert.deepEqual(
    late((on) => on.annotate("a", 2, { "suspend-state": "Removing" })),
    ["clear", "recovered"],
    "as long as nothing is deleted",
  );
});

test("removing: a volume claim whose removal has begun goes, unless a user's hold or a pod keeps it", () => {
  const removing = (on: Suspended) => {
    on.annotate("a", 2, { "suspend-state": "Removing" });
    on.delete("a", 2);
  };
  assert.deepEqual(decision(removing), ["release", "removing"]);
  assert.deepEqual(decision(removing, {}, true), ["restamp", "in-use"]);
  assert.deepEqual(
    decision((on) => {
      removing(on);
      on.annotate("a", 2, { hold: "true" });
    }),
    ["tell", "on-hold"],
  );
});

test("in a deleted namespace a claim is released, unless it is on hold", () => {
  assert.deepEqual(
    decision((on) => on.delete("a", 2), { isNamespaceEnding: true }),
    ["release", "removing"],
  );
  const finalized = (on: Suspended) => {
    on.delete("a", 2);
    on.annotate("a", 2, { hold: "true" });
  };
  assert.deepEqual(decision(finalized, { isNamespaceEnding: true }), ["tell", "on-hold"]);
});

test("in a deleted namespace the volume is retained, because a hold on its StatefulSet may have gone with that", () => {
  const on = Suspended.of(["a"]);
  on.suspend("a", 2, 120);
  on.delete("a", 2);
  const retainedOf = (texts: Readonly<Record<string, string | undefined>>) => {
    on.annotate("a", 2, texts);
    const claim = on.claims.get("data-db-a-2");
    assert.ok(claim !== undefined);
    return decideStray({ pvc: parsePvc(claim), users: [] }, { ...usual, isNamespaceEnding: true }).isRetained;
  };
  assert.equal(retainedOf({ "suspend-owner-uid": "uid-db-a" }), true);
  assert.equal(retainedOf({ owner: "FoundationDBCluster.apps.foundationdb.org/orders" }), false, "it says so itself");
});

test("uninstalling: our finalizer and the time go, and nothing else", () => {
  assert.deepEqual(
    decision(() => {}, { removes: false }),
    ["release", "uninstalling"],
  );
  assert.deepEqual(
    decision((on) => on.hold("a", 2, []), { removes: false }),
    ["release", "uninstalling"],
    "its time is left",
  );
  const released = (on: Suspended) => {
    on.hold("a", 2, []);
    on.annotate("a", 2, { "suspend-state": "Suspending", "suspended-at": undefined });
  };
  assert.deepEqual(decision(released, { removes: false }), ["nothing", "uninstalling"]);
});

/** Two volumes of one pod of another owner are one member, even if the pod has gone without a function's decision. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/gc-suspended-groups/decide.ts";
import { hasNewPartners, partnerAnnotations } from "../../../../functions/shared/volumes/owners.ts";
import { decide as decideToSuspend } from "../../../../functions/suspend-group/decide.ts";
import { Owned, owner } from "../../../support/owned.ts";
import { minutesAgo } from "../../../support/suspended.ts";

/** A pod with two volumes that should go, and that went by itself before its deletion: no annotation has its uid. */
function gone(together: string | undefined): Owned {
  const on = Owned.of(["a"], 2);
  on.addClaim("a-1-journal", { owner, zone: "a", "suspend-duration": "1h" });
  on.suspend("a-1", 120);
  const { annotations = {}, finalizers = [] } = on.claims.get("a-1-data")?.metadata ?? {};
  on.change("a-1-journal", { annotations: { ...annotations }, finalizers });
  for (const name of ["a-1-data", "a-1-journal"]) on.log(name, { "suspend-pod-uid": undefined });
  on.log("a-1-data", { "suspend-together": together });
  on.log("a-1-journal", { "suspend-state": "Suspending", "suspended-at": undefined, "drained-at": undefined });
  return on;
}

const removed = (on: Owned): readonly string[] => {
  const verdict = decide({ ...on.around("gc-suspended-groups", "volume"), removes: true });
  if (verdict.kind === "wait") return [];
  return verdict.targets.flatMap((target) =>
    target.kind === "remove" ? target.member.pvcs.map((one) => one.name) : [],
  );
};

test("a volume is not removed while the other volume of its pod is needed, even if the pod went by itself", () => {
  const on = gone("a-1-data,a-1-journal");
  assert.deepEqual(removed(on), []);
  on.log("a-1-journal", { "suspend-state": "Suspended", "suspended-at": minutesAgo(90), "drained-at": minutesAgo(90) });
  assert.deepEqual(removed(on), ["a-1-data", "a-1-journal"]);
});

test("an annotation that is malformed or names no volume claim joins nothing and causes no error", () => {
  for (const text of ["", ",", ",,a-1-data", "no such one", "a-1-data", undefined]) {
    const { members } = gone(text);
    assert.deepEqual(
      members.map(({ pvcs }) => pvcs.length),
      [1, 1, 1],
      String(text),
    );
  }
});

test("with the finalizer each volume claim of a pod gets the names of all of them, if there are several", () => {
  const on = Owned.of(["a"], 1);
  const [alone] = on.members;
  assert.deepEqual(alone && partnerAnnotations(alone), {});
  on.addClaim("a-0-journal", { owner, "suspend-duration": "1h" });
  on.addPod("a-0", {}, ["a-0-data", "a-0-journal"]);
  const [both] = on.members;
  assert.deepEqual(both && partnerAnnotations(both), { "sluice.dev/suspend-together": "a-0-data,a-0-journal" });
});

test("from the first request on each volume claim of a pod names the others, even if only one has the request", () => {
  const on = Owned.of(["a"], 1);
  on.addClaim("a-0-journal", { owner, zone: "a", "suspend-duration": "1h" });
  on.addPod("a-0", {}, ["a-0-data", "a-0-journal"]);
  const isReported = (): boolean => {
    const around = { refused: new Map(), protects: true, disruptionBudgets: [] };
    const verdict = decideToSuspend({ ...on.around("suspend-group", "scale-down"), ...around });
    const targets = verdict.kind === "take" ? verdict.targets : [];
    return targets.some((target) => target.kind === "tell" && hasNewPartners(target.member));
  };
  assert.equal(isReported(), false, "no volume claim has a request");
  on.log("a-0-data", { suspend: "true" });
  assert.equal(isReported(), true);
  for (const name of ["a-0-data", "a-0-journal"]) on.log(name, { "suspend-together": "a-0-data,a-0-journal" });
  assert.equal(isReported(), false, "each of them has the names");
});

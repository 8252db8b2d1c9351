/** A pod with two volumes that differ in one field: what blocks one of them blocks both, in either order of their names. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../functions/gc-suspended-groups/decide.ts";
import { Owned } from "../../../support/owned.ts";
import { minutesAgo, Suspended } from "../../../support/suspended.ts";

type Texts = Readonly<Record<string, string | undefined>>;

/** Annotation of one of the two, and what both then wait for; undefined: no volume of the pod may be removed. */
const differences: readonly (readonly [Texts, string | undefined])[] = [
  [{ suspend: undefined }, undefined],
  [{ suspend: "false" }, undefined],
  [{ recover: "true" }, undefined],
  [{ "drained-at": undefined }, "drain-lost"],
  [{ "drained-at": minutesAgo(-60) }, "drain-lost"],
  [{ hold: "true" }, "on-hold"],
  [{ "suspend-duration": "3h" }, "suspended"],
  [{ "suspend-duration": "soon" }, "duration-malformed"],
  [{ "suspended-at": minutesAgo(10) }, "suspended"],
  [{ "suspended-at": undefined }, "stamp-missing"],
  [{ "suspend-owner-uid": "another" }, "owner-replaced"],
  [{ "suspend-state": undefined }, undefined],
];

const outcome = (verdict: ReturnType<typeof decide>): string | undefined => {
  if (verdict.kind === "wait") return verdict.guard;
  const [target] = verdict.targets;
  return target === undefined ? undefined : target.kind === "tell" ? target.guard : target.kind;
};

/** The second template's name sorts after the first one's, or before it. */
function twoVolumes(second: string, texts: Texts): Suspended {
  const on = Suspended.of(["a"], 3, { "suspend-duration": "1h" });
  on.suspend("a", 2, 120);
  on.spec("a", { volumeClaimTemplates: [{ metadata: { name: "data" } }, { metadata: { name: second } }] });
  const { metadata } = on.claims.get("data-db-a-2") ?? {};
  const same = { ...metadata?.annotations };
  on.addClaim(`${second}-db-a-2`, { ...same, ...prefixed(texts) });
  return on;
}

const prefixed = (texts: Texts) =>
  Object.fromEntries(Object.entries(texts).map(([name, text]) => [`sluice.dev/${name}`, text]));

test("pod of a StatefulSet: both volumes go together, and what one of them lacks blocks both", () => {
  for (const second of ["archive", "journal"]) {
    const decided = (texts: Texts) =>
      outcome(decide({ ...twoVolumes(second, texts).around("gc-suspended-groups", "volume"), removes: true }));
    assert.equal(decided({}), "remove");
    for (const [texts, guard] of differences)
      assert.equal(decided(texts), guard, `${second}: ${JSON.stringify(texts)}`);
  }
});

test("if one of two volumes is marked and the user wants the other, the mark is taken back, with the claim of the removal", () => {
  const removing = { "suspend-state": "Removing", "removal-claim": "x" };
  for (const [second, texts] of [
    ["journal", { recover: "true" }],
    ["journal", { suspend: undefined }],
    ["archive", { hold: "true" }],
  ] as const) {
    const on = twoVolumes(second, texts);
    on.annotate("a", 2, removing);
    const verdict = decide({ ...on.around("gc-suspended-groups", "volume"), removes: true });
    const targets = verdict.kind === "take" ? verdict.targets : [];
    const back = targets.map((one) => (one.kind === "stand-back" ? one.pvcs.map(({ name }) => name) : one.kind));
    assert.deepEqual(back, [["data-db-a-2"]], JSON.stringify(texts));
  }
  const on = twoVolumes("journal", {});
  on.annotate("a", 2, removing);
  assert.equal(outcome(decide({ ...on.around("gc-suspended-groups", "volume"), removes: true })), "remove");
});

test("pod of another owner: both volumes go together, and what one of them lacks blocks both", () => {
  for (const second of ["a-1-archive", "a-1-journal"]) {
    const decided = (texts: Texts) => {
      const on = Owned.of(["a"], 2);
      on.suspend("a-1", 120);
      on.addClaim(second, {});
      const { annotations = {}, finalizers = [] } = on.claims.get("a-1-data")?.metadata ?? {};
      on.change(second, { annotations: { ...annotations }, finalizers });
      on.log(second, texts);
      return outcome(decide({ ...on.around("gc-suspended-groups", "volume"), removes: true }));
    };
    assert.equal(decided({}), "remove");
    for (const [texts, guard] of differences)
      assert.equal(decided(texts), guard, `${second}: ${JSON.stringify(texts)}`);
  }
});

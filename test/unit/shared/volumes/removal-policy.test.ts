/** A FoundationDBCluster's own settings about the removal of process groups, and the effect of annotations on them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseOwnerRemovalPolicy } from "../../../../functions/shared/volumes/removal-policy.ts";

function policyOf(spec: unknown, annotations: Readonly<Record<string, string>> = {}) {
  const metadata = { name: "orders", namespace: "db", uid: "u", resourceVersion: "1", annotations };
  return parseOwnerRemovalPolicy({ metadata, spec } as Parameters<typeof parseOwnerRemovalPolicy>[0]);
}

const withOptions = (automationOptions: unknown, annotations: Readonly<Record<string, string>> = {}) =>
  policyOf({ automationOptions }, annotations);

test("the defaults are those of the operator: Zone, and 60 s", () => {
  for (const spec of [undefined, null, {}, { automationOptions: null }, { automationOptions: { removalMode: "" } }]) {
    const { mode, waitMs, unreadable } = policyOf(spec);
    assert.deepEqual([mode, waitMs, unreadable], ["Zone", 60_000, undefined]);
  }
});

test("the cluster's modes mean what they mean to its operator, and a negative wait counts as 60 s", () => {
  const modes = ["All", "Zone", "ProcessGroup", "None"].map((removalMode) => withOptions({ removalMode }).mode);
  assert.deepEqual(modes, ["All", "Zone", "Group", "None"]);
  const waits = [-5, 0, 20, null].map(
    (waitBetweenRemovalsSeconds) => withOptions({ waitBetweenRemovalsSeconds }).waitMs,
  );
  assert.deepEqual(waits, [60_000, 0, 20_000, 60_000]);
});

test("a malformed value counts as None, and the warning names the field and the value", () => {
  const cases: readonly [unknown, RegExp][] = [
    [{ removalMode: "Half" }, /^spec\.automationOptions\.removalMode of orders is "Half", and none of All, Zone,/],
    [{ removalMode: ["All"] }, /removalMode of orders is \["All"\]/],
    [{ removalMode: "none" }, /is "none", and none of All, Zone, ProcessGroup and None/],
    [{ waitBetweenRemovalsSeconds: "20" }, /waitBetweenRemovalsSeconds of orders is "20", and no number of seconds/],
    ["All", /^spec\.automationOptions of orders is "All", and no object/],
    [["All"], /^spec\.automationOptions of orders is \["All"\], and no object/],
  ];
  for (const [options, message] of cases) {
    const { mode, unreadable, frozenBecause } = withOptions(options);
    assert.equal(mode, "None", JSON.stringify(options));
    assert.match(unreadable ?? "", message);
    assert.match(unreadable ?? "", /until a user corrects it$/);
    assert.equal(frozenBecause, unreadable);
  }
});

test("an annotation can only make the policy stricter", () => {
  const mode = (removalMode: string, text: string) =>
    withOptions({ removalMode }, { "sluice.dev/removal-mode": text }).mode;
  assert.deepEqual(
    [mode("None", "All"), mode("ProcessGroup", "Zone"), mode("Zone", "All"), mode("All", "Group"), mode("All", "None")],
    ["None", "Group", "Zone", "Group", "None"],
  );
  assert.equal(mode("All", "sometimes"), "None", "a malformed one is the strictest");
  const wait = (seconds: number, text: string) =>
    withOptions({ waitBetweenRemovalsSeconds: seconds }, { "sluice.dev/wait-between-removals": text }).waitMs;
  assert.deepEqual([wait(20, "1s"), wait(20, "2m"), wait(0, "0"), wait(20, "soon")], [20_000, 120_000, 0, undefined]);
});

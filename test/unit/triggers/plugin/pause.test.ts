/** What kubectl sluice pause and resume write, and what they say that a pause does not stop. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Harness, namespace, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

const pausedKey = "grafana.com/rollout-paused";

const pausedOf = (harness: Harness) =>
  harness.world.store.list("statefulsets").items.map(({ metadata }) => metadata.annotations?.[pausedKey]);

test("pause stops the rollout of all zones, says what it does not stop, and resume lets the rollout go on", async () => {
  const harness = await new Harness().prepare();
  const { code, out, err } = await sluice(harness, "pause group");
  assert.deepEqual([code, err, pausedOf(harness)], [0, [], ["true", "true"]]);
  assert.match(out, /^grafana\.com\/rollout-paused: true is written on StatefulSet group-a, group-b\. /);
  assert.match(out, /It stops rollouts there within 5 s, and neither evictions nor downscales\. /);
  assert.match(out, new RegExp(`kubectl sluice resume group -n ${namespace} lets the rollout go on\n$`));
  await harness.run();
  assert.equal(harness.guard, "paused");
  const resumed = await sluice(harness, "resume group");
  assert.deepEqual([resumed.code, pausedOf(harness)], [0, [undefined, undefined]]);
  assert.equal(resumed.out, "grafana.com/rollout-paused is taken off StatefulSet group-a, group-b\n");
  await harness.run();
  assert.equal(harness.guard, "rolling");
});

test("with a zone only its StatefulSet is written; what is as it should be is not, and --dry-run writes nothing", async () => {
  const harness = await new Harness().prepare();
  const pretended = await sluice(harness, "pause group group-b --dry-run");
  assert.equal(pretended.out, "would be done: grafana.com/rollout-paused: true is written on StatefulSet group-b\n");
  assert.deepEqual(writes(harness), []);
  const { out } = await sluice(harness, "pause group group-b");
  assert.match(out, /kubectl sluice resume group group-b -n db lets/);
  assert.deepEqual([writes(harness), pausedOf(harness)], [["patch statefulsets"], [undefined, "true"]]);
  const again = await sluice(harness, "pause group group-b");
  assert.deepEqual([again.code, again.out], [0, "nothing to do: group-b: paused already\n"]);
  assert.match((await sluice(harness, "pause group")).out, /is written on StatefulSet group-a\. /);
  assert.deepEqual(writes(harness), ["patch statefulsets", "patch statefulsets"]);
  harness.world.annotate({ namespace, name: "group-a" }, { [pausedKey]: "yes" });
  await sluice(harness, "resume group");
  assert.deepEqual(pausedOf(harness), [undefined, undefined], "a value that does not parse goes as well");
  assert.equal((await sluice(harness, "resume group")).out, "nothing to do: group-a, group-b: not paused\n");
});

test("pause names a StatefulSet that its controller rolls nevertheless", async () => {
  const harness = await new Harness().prepare();
  harness.world.store.patch(
    "statefulsets",
    { namespace, name: "group-b" },
    { spec: { updateStrategy: { type: "RollingUpdate" } } },
  );
  const { out } = await sluice(harness, "pause group");
  assert.match(out, /\. The controller of group-b rolls it nevertheless, because it is not OnDelete\. /);
});

test("pause is refused for a zone or group that is not there, and for a group that Sluice does not roll", async () => {
  const harness = await new Harness().prepare();
  for (const [line, expected] of [
    ["pause group other", /^there is no StatefulSet other in the group group: there are group-a, group-b$/],
    ["resume other", /^there is no group "other" in namespace db .+: there are "group"$/],
  ] as const) {
    const { code, err } = await sluice(harness, line);
    assert.equal(code, 1);
    assert.match(err[0] ?? "", expected);
  }
  const spec = { selector: { matchLabels: { "rollout-group": "group" } }, maxUnavailable: 1 };
  const body = { kind: "ZoneAwarePodDisruptionBudget", metadata: { name: "b" }, spec };
  harness.world.store.create("zoneawarepoddisruptionbudgets", namespace, body);
  for (const name of ["group-a", "group-b"])
    harness.world.store.patch("statefulsets", { namespace, name }, { metadata: { labels: { "rollout-group": null } } });
  assert.match(
    (await sluice(harness, "pause budget:b")).err[0] ?? "",
    /^Sluice rolls only StatefulSets with rollout-group, so that pause has no effect here$/,
  );
  assert.deepEqual(writes(harness), []);
});

test("a write that meets another one is made again, and what was paused before a failure is named", async () => {
  const harness = await new Harness().prepare();
  let others = 2;
  harness.interfere = ({ verb }) => {
    if (verb === "patch" && others-- > 0)
      harness.world.annotate({ namespace, name: "group-a" }, { "example.com/other": String(others) });
  };
  assert.equal((await sluice(harness, "pause group group-a")).code, 0);
  assert.equal(writes(harness).length, 3);
  await sluice(harness, "resume group");
  harness.interfere = ({ verb, given: [, key] }) => {
    if (verb === "patch" && (key as { name: string }).name === "group-b") throw refused(409);
  };
  const { code, err } = await sluice(harness, "pause group");
  assert.deepEqual([code, pausedOf(harness)], [1, ["true", undefined]]);
  assert.match(
    err[0] ?? "",
    /^nothing was written on StatefulSet group-b: .+; before that, .+ is written on StatefulSet group-a$/,
  );
});

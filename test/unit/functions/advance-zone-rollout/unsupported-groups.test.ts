/** What becomes of a group that asks for what nobody here does: it is held, and no other. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseStatefulSet } from "../../../../functions/shared/objects/statefulsets.ts";
import { createTestWorld } from "../../triggers/doors/world.ts";
import { decideOn, outcome, statefulSetObject, zone } from "./given.ts";

const leader = "grafana.com/rollout-downscale-leader";
const uses = [`${leader} (replicas follow another StatefulSet)`];

/** Two groups of new templates, of which the first has a StatefulSet that follows another one. */
async function rolled(settings: { readonly views: "watch" | "list"; readonly allowUnsupported?: boolean }) {
  const doors = createTestWorld({ settings });
  const { world, start, goTo, changeTemplates } = doors;
  const other = world.addGroup({ namespace: "app", group: "store", zones: ["a", "b"], replicas: 1 });
  world.settle();
  world.annotate({ namespace: "app", name: "ingester-b" }, { [leader]: "ingester-a" });
  changeTemplates("app:2");
  for (const statefulSet of other.statefulSets) world.changeTemplate(statefulSet, "app:2");
  start();
  await goTo(900);
  const events = world.store.list("events").items as readonly { reason?: string; type?: string; message?: string }[];
  const updated = (group: string) =>
    world.store
      .list("statefulsets")
      .items.filter(({ metadata }) => metadata.name.startsWith(group))
      .map(({ status }) => status.updatedReplicas ?? 0);
  return { ...doors, events, updated };
}

test("scaling-unsupported: a StatefulSet that asks for scaling holds its whole group, repairs too, and says how to go on", () => {
  const zones = [zone("a", "ob"), zone("b", "oo", { unsupported: uses })];
  const verdict = decideOn(zones);
  assert.equal(outcome(verdict), "scaling-unsupported");
  assert.equal(verdict.zone, "b");
  assert.match(
    verdict.sentence,
    /^b uses what Sluice does not do yet: grafana\.com\/rollout-downscale-leader \(replicas/,
  );
  assert.match(verdict.sentence, /ALLOW_UNSUPPORTED=true/);
  const both = ["a", "b"].map((name) => zone(name, "oo", { unsupported: uses }));
  assert.equal(decideOn(both).zone, "a", "the first of them is named");
  const foreign = [zone("a", "oo", { unsupported: uses }), zone("b", "oo", { strategy: "RollingUpdate" })];
  assert.equal(outcome(decideOn(foreign)), "strategy-not-on-delete");
});

test("ALLOW_UNSUPPORTED rolls such a group all the same", () => {
  const zones = [zone("a", "on"), zone("b", "nn", { unsupported: uses })];
  assert.equal(outcome(decideOn(zones, [], {}, true)), "record-revision b, delete a-0");
});

test("what a StatefulSet asks for is read where decisions are made, whichever view they have", () => {
  const object = statefulSetObject("a", { metadata: { annotations: { [leader]: "b" } } });
  assert.deepEqual(parseStatefulSet(object).unsupported, uses);
  assert.deepEqual(parseStatefulSet(statefulSetObject("a")).unsupported, []);
});

for (const views of ["watch", "list"] as const) {
  test(`with VIEWS=${views}, an annotation of one group holds that group alone, with an Event and a metric`, async () => {
    const { events, updated, reporting, lines } = await rolled({ views });
    assert.deepEqual(updated("ingester"), [0, 0, 0]);
    assert.deepEqual(updated("store"), [1, 1]);
    const said = events.filter(({ message }) => message?.startsWith("scaling-unsupported: ingester-b uses"));
    assert.deepEqual(
      said.map(({ type, reason }) => [type, reason]),
      [["Warning", "RolloutWaiting"]],
    );
    const waiting = (await reporting.metrics.waitingSince.get()).values.map(({ labels }) => labels);
    assert.deepEqual(
      waiting.map(({ rollout_group, guard, zone }) => [rollout_group, guard, zone]),
      [["ingester", "scaling-unsupported", "ingester-b"]],
    );
    assert.equal(lines.filter(({ guard }) => guard === "scaling-unsupported").length, 1);
  });
}

test("with ALLOW_UNSUPPORTED the same group is rolled", async () => {
  const { updated } = await rolled({ views: "watch", allowUnsupported: true });
  assert.deepEqual(updated("ingester"), [3, 3, 3]);
});

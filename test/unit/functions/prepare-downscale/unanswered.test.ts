/** One call of a review that the API server refuses or does not answer: the size stays, and the answer says what to do. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { denied, type Process, preparedGroup } from "./downscales.ts";

const codes = [0, 403, 404, 409, 422, 429, 500, 503] as const;

function failure(code: number, verb: string, resource: string): ClusterError {
  const message =
    code === 403 ? `User "sluice" cannot ${verb} resource "${resource}" in the namespace "db"` : `it said ${code}`;
  return new ClusterError({ code, reason: "Test", message, verb, resource });
}

/** Makes each call of this kind fail. */
function failing(process: Process, code: number, verb: string, resource: string): void {
  process.interfere = (call) => {
    if (call.verb === verb && call.resource === resource) throw failure(code, verb, resource);
  };
}

test("a scale whose StatefulSet cannot be read for the moment is refused with 429, and no pod is told", async () => {
  for (const code of [0, 429, 500, 503]) {
    const world = await preparedGroup();
    const process = world.process();
    failing(process, code, "get", "statefulsets");
    const answer = denied(await process.reviewScale("group-a", 2));
    assert.deepEqual([answer.guard, answer.code], ["api-server-away", 429], String(code));
    assert.match(answer.message, /^downscale of statefulsets\/group-a in db from 5 to 2 replicas is not allowed: /);
    assert.match(answer.message, new RegExp(`Sluice has to get statefulsets, and that failed: it said ${code}$`));
    assert.deepEqual([world.requests, world.claimed], [[], []]);
    process.interfere = () => {};
    assert.equal((await process.reviewScale("group-a", 2)).guard, "allowed", "the next try is allowed");
  }
});

test("late: a scale is refused before the API server gives up if the read of its StatefulSet gets no answer", async () => {
  const world = await preparedGroup();
  const process = world.process();
  process.interfere = ({ verb, resource }) =>
    verb === "get" && resource === "statefulsets" ? new Promise(() => undefined) : undefined;
  const startMs = process.cluster.monotonicMs();
  const answer = denied(await process.reviewScale("group-a", 2));
  assert.deepEqual([answer.guard, answer.code], ["late", 429]);
  assert.ok(process.cluster.monotonicMs() - startMs <= 9_100);
  assert.deepEqual(world.requests, []);
});

test("right-missing: the refusal of a scale names the right that Sluice lacks", async () => {
  const world = await preparedGroup();
  const process = world.process();
  failing(process, 403, "get", "statefulsets");
  const answer = denied(await process.reviewScale("group-a", 2));
  assert.deepEqual([answer.guard, answer.code], ["right-missing", 429]);
  assert.match(answer.message, /cannot get resource "statefulsets" in the namespace "db"$/);
});

test("object-gone: a scale of a StatefulSet that is gone is refused with 404", async () => {
  const world = await preparedGroup();
  const process = world.process();
  failing(process, 404, "get", "statefulsets");
  const answer = denied(await process.reviewScale("group-a", 2));
  assert.deepEqual([answer.guard, answer.code], ["object-gone", 404]);
});

test("a zone tracker that Sluice may not read counts as absent: the downscale is allowed, and one Event and one log line name the right", async () => {
  const world = await preparedGroup();
  const process = world.process();
  failing(process, 403, "get", "configmaps");
  for (const review of ["first", "joined"]) {
    const answer = await process.review("group-a", 4);
    assert.ok(answer.allowed && answer.guard === "allowed", review);
    assert.equal(answer.warnings.length, 1, review);
    assert.match(
      String(answer.warnings[0]),
      /rollout-operator-zone-tracker, .+ counts as absent: .+ right to get configmaps/,
    );
  }
  assert.deepEqual(world.requests, ["POST group-a-4"]);
  const named = /rollout-operator-zone-tracker, .+ counts as absent: Sluice lacks the right to get configmaps/;
  assert.equal(world.harness.problems.filter((one) => named.test(one)).length, 1);
  const [event, ...others] = world.harness.events.filter((one) => named.test(one));
  assert.match(event ?? "", /^RightMissing group-a: /);
  assert.deepEqual(others, []);
});

test("without the right to read the zone tracker, an object's last downscale counts, or the ledger's age if no object has one", async () => {
  for (const annotated of [false, true]) {
    const world = await preparedGroup();
    world.label("group-b", { "grafana.com/min-time-between-zones-downscale": "12h" });
    if (annotated) world.annotate("group-b", { "grafana.com/last-downscale": "1970-01-01T00:00:00Z" });
    const process = world.process();
    failing(process, 403, "get", "configmaps");
    assert.equal(await process.guard("group-a", 4), annotated ? "allowed" : "min-time-between-zones");
  }
});

test("whichever call of a review fails, and with whatever code, the size stays and no answer is a 500", async () => {
  const probe = await preparedGroup();
  const whole = probe.process();
  await whole.reviewScale("group-a", 4);
  const calls = new Set(whole.calls.map(({ verb, resource }) => `${verb} ${resource}`));
  assert.ok(calls.has("patch leases") && calls.has("list pods") && calls.has("get configmaps"), [...calls].join());
  // Without its CRD there are no budgets, so a 404 is harmless.
  const harmless = new Set(["get configmaps 403", "get configmaps 404", "list zoneawarepoddisruptionbudgets 404"]);
  for (const call of calls) {
    const [verb = "", resource = ""] = call.split(" ");
    for (const code of codes) {
      const world = await preparedGroup();
      const process = world.process();
      failing(process, code, verb, resource);
      const answer = await process.reviewScale("group-a", 4);
      const what = `${call} ${code}`;
      if (harmless.has(what)) assert.equal(answer.guard, "allowed", what);
      else assert.ok(!answer.allowed && [404, 409, 429].includes(answer.code), `${what}: ${answer.guard}`);
      if (answer.allowed) continue;
      process.interfere = () => {};
      await world.harness.goOn(91_000);
      await process.sweep();
      assert.deepEqual(
        [world.claimed, world.prepared.size],
        [[], 0],
        `${what}: each pod that was told to leave is told to stay`,
      );
    }
  }
});

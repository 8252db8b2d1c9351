/** A change of `spec.ordinals.start`: which pods leave, which pods are told so, and which changes are refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { namespace } from "../../shared/reconcile/harness.ts";
import { type Downscales, denied, type Process, prefix, preparedGroup } from "./downscales.ts";

const name = "group-a";

interface Wanted {
  readonly start?: unknown;
  readonly replicas?: number;
}

/** A review that changes the first ordinal as well as the number of replicas. */
function move(world: Downscales, process: Process, { start, replicas = 5 }: Wanted) {
  const old = world.harness.world.store.get("statefulsets", { namespace, name });
  const object = { ...old, spec: { ...old.spec, replicas, ordinals: { start } } };
  return process.review(name, replicas, { object });
}

function store(world: Downscales, start: number, replicas: number): void {
  const spec = { replicas, ordinals: { start } };
  world.harness.world.store.patch("statefulsets", { namespace, name }, { spec } as never);
}

const podsOf = ({ harness }: Downscales): string[] =>
  harness.world.store
    .list("pods", { namespace })
    .items.map(({ metadata }) => metadata.name)
    .filter((pod) => pod.startsWith(`${name}-`));

test("a review with a raised start and fewer replicas tells exactly the pods that leave", async () => {
  const world = await preparedGroup();
  const answer = await move(world, world.process(), { start: 2, replicas: 3 });
  assert.equal(answer.guard, "allowed");
  assert.deepEqual(world.requests, ["POST group-a-1", "POST group-a-0"]);
  const before = podsOf(world);
  store(world, 2, 3);
  await world.harness.goOn(30_000);
  const left = before.filter((pod) => !podsOf(world).includes(pod));
  assert.deepEqual(left, ["group-a-0", "group-a-1"], "D1: each pod that left was told");
});

test("a review that raises the start alone is a downscale: it tells the pods below the start, and its claim names them", async () => {
  const world = await preparedGroup();
  const answer = await move(world, world.process(), { start: 2 });
  assert.equal(answer.guard, "allowed");
  assert.deepEqual(world.requests, ["POST group-a-1", "POST group-a-0"]);
  const [claim] = world.claims;
  assert.deepEqual(claim?.isKnown && claim.members, [{ first: 0, last: 1 }]);
});

test("a review tells the pods at both ends if a range shrinks to its middle, and the highest pods if the start is lowered", async () => {
  const world = await preparedGroup();
  assert.equal((await move(world, world.process(), { start: 1, replicas: 2 })).guard, "allowed");
  assert.deepEqual(world.requests, ["POST group-a-4", "POST group-a-3", "POST group-a-0"]);
  const moved = await preparedGroup();
  store(moved, 2, 5);
  await moved.harness.goOn(30_000);
  assert.equal((await move(moved, moved.process(), { start: 0, replicas: 5 })).guard, "allowed");
  assert.deepEqual(moved.requests, ["POST group-a-6", "POST group-a-5"]);
});

test("a raised start with more replicas is still a downscale: if a pod refuses, the old ordinals stay", async () => {
  const world = await preparedGroup();
  world.reply = (pod, method) => (method === "POST" && pod === "group-a-0" ? { status: 500, body: "busy" } : undefined);
  const answer = denied(await move(world, world.process(), { start: 3, replicas: 9 }));
  assert.deepEqual([answer.guard, answer.code], ["pod-unprepared", 429]);
  assert.match(answer.message, /^downscale of statefulsets\/group-a in db from ordinals 0-4 to 3-11 is not allowed: /);
  assert.deepEqual([world.claimed, world.prepared.size], [[], 0]);
});

test("a start that is lowered by as many ordinals as replicas are added takes no pod away, and calls no pod", async () => {
  const world = await preparedGroup();
  store(world, 2, 5);
  await world.harness.goOn(30_000);
  assert.equal((await move(world, world.process(), { start: 0, replicas: 7 })).guard, "not-a-downscale");
  assert.deepEqual(world.requests, []);
});

test("the next review of an allowed change joins it, and a review with another start is refused until the change has ended", async () => {
  const world = await preparedGroup();
  const process = world.process();
  assert.equal((await move(world, process, { start: 2 })).guard, "allowed");
  assert.equal((await move(world, process, { start: 2 })).guard, "allowed");
  assert.equal(world.requests.length, 2, "no pod is told again");
  const other = denied(await move(world, process, { start: 3 }));
  assert.equal(other.guard, "zone-scaling-down");
  assert.match(other.message, /it takes the ordinals 0-1, and this change takes 0-2$/);
  const smaller = denied(await process.review(name, 3));
  assert.match(smaller.message, /it takes the ordinals 0-1, and this change takes 3-4$/);
});

test("if a raised start is allowed and never stored, the lowest pods are told that they stay", async () => {
  const world = await preparedGroup();
  const process = world.process();
  assert.equal((await move(world, process, { start: 2 })).guard, "allowed");
  await world.harness.goOn(91_000);
  await process.sweep();
  assert.deepEqual([world.claimed, world.prepared.size], [[], 0]);
});

for (const start of [2 ** 31, -1, 1.5, "2", [2]]) {
  test(`ordinals-malformed: a start of ${JSON.stringify(start)} is refused without a call, and the message says what to write`, async () => {
    const world = await preparedGroup();
    const answer = denied(await move(world, world.process(), { start, replicas: 3 }));
    assert.deepEqual([answer.guard, answer.code, answer.field], ["ordinals-malformed", 400, "spec.ordinals.start"]);
    assert.match(answer.message, /spec\.ordinals\.start of statefulsets\/group-a in db is no integer from 0 to/);
    assert.deepEqual([world.requests, world.claimed], [[], []]);
  });
}

test("the largest start that Kubernetes accepts takes all pods away, and the ledger stays readable", async () => {
  const world = await preparedGroup();
  const process = world.process();
  assert.equal((await move(world, process, { start: 2 ** 31 - 1 })).guard, "allowed");
  assert.deepEqual(world.requests.length, 5);
  assert.deepEqual(world.claimed, ["group-a confirmed"]);
});

test("no-downscale: a protected StatefulSet keeps its start, and none of its pods is called", async () => {
  const world = await preparedGroup();
  world.label(name, { [`${prefix}no-downscale`]: "true" });
  const answer = denied(await move(world, world.process(), { start: 2 }));
  assert.equal(answer.guard, "no-downscale");
  assert.match(answer.message, / from ordinals 0-4 to 2-6 is not allowed because it has the label/);
  assert.deepEqual(world.requests, []);
});

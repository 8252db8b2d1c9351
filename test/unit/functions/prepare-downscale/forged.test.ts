/** A review is untrusted bytes from the network: the stored StatefulSet decides which pods are called, and what is written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { key, namespace } from "../../shared/reconcile/harness.ts";
import { denied, type Process, prefix, preparedGroup, settings } from "./downscales.ts";

/** `REVIEWS=10000 node --test test/unit/functions/prepare-downscale/forged.test.ts` tries 10,000 reviews. */
const reviews = Number(process.env.REVIEWS ?? 300);

interface Forgeable {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly spec: Readonly<Record<string, unknown>>;
}

/** A review whose old object differs from the stored one. */
function forged(replica: Process, name: string, to: number, metadata: object, spec: object = {}) {
  const asked = replica.request(name, to);
  const old = asked.oldObject as Forgeable;
  return {
    ...asked,
    oldObject: { ...old, metadata: { ...old.metadata, ...metadata }, spec: { ...old.spec, ...spec } },
  };
}

const elsewhere = {
  labels: { "rollout-group": "elsewhere", [`${prefix}prepare-downscale`]: "true" },
  annotations: {
    ...settings,
    [`${prefix}prepare-downscale-http-path`]: "admin/shutdown",
    [`${prefix}prepare-downscale-http-port`]: "6379",
    "sluice.dev/unprepared-pods": "0-9",
  },
};

test("the stored StatefulSet decides which URL of a pod is called, whatever port, path, Service and group a review has", async () => {
  const world = await preparedGroup();
  const replica = world.process();
  const request = forged(replica, "group-a", 4, elsewhere, { serviceName: "attacker" });
  assert.equal((await replica.review("group-a", 4, request)).guard, "allowed");
  assert.deepEqual(
    world.received.map(({ method, pod, url }) => [
      method,
      pod,
      url.includes("6379"),
      url.endsWith("/ingester/prepare-shutdown"),
    ]),
    [["POST", "group-a-4", false, true]],
  );
  assert.ok(world.received.every(({ url }) => !url.includes("attacker")));
  assert.deepEqual(world.claimed, ["group-a confirmed"]);
});

test("no pod of a StatefulSet without the label is called, whatever label a review has", async () => {
  const world = await preparedGroup();
  world.label("group-a", { [`${prefix}prepare-downscale`]: null });
  const replica = world.process();
  const answer = await replica.review("group-a", 4, forged(replica, "group-a", 4, elsewhere));
  assert.deepEqual([answer.guard, world.requests, replica.writes()], ["not-prepared", [], []]);
});

test("size-conflict: a review whose old size is not the stored one is refused, also at the scale, and calls and writes nothing", async () => {
  const world = await preparedGroup();
  const replica = world.process();
  const scale = (replicas: number) => ({
    apiVersion: "autoscaling/v1",
    kind: "Scale",
    metadata: {},
    spec: { replicas },
  });
  const asked = [
    replica.review("group-a", 0, forged(replica, "group-a", 0, {}, { replicas: 1 })),
    replica.review("group-a", 4, forged(replica, "group-a", 4, {}, { replicas: 9 })),
    replica.review("group-a", 4, forged(replica, "group-a", 4, {}, { ordinals: { start: 3 } })),
    replica.reviewScale("group-a", 4, { oldObject: scale(9) }),
  ];
  for (const one of asked) {
    const { guard, code, message } = denied(await one);
    assert.deepEqual([guard, code], ["size-conflict", 409]);
    assert.match(message, /it has 5 replicas from ordinal 0 on now/);
  }
  assert.deepEqual([world.requests, replica.writes()], [[], []]);
});

test("uid-conflict: a review of another StatefulSet of the same name is refused, and calls and writes nothing", async () => {
  const world = await preparedGroup();
  const replica = world.process();
  const answer = denied(await replica.review("group-a", 4, forged(replica, "group-a", 4, { uid: "other" })));
  assert.deepEqual([answer.guard, answer.code, world.requests, replica.writes()], ["uid-conflict", 409, [], []]);
});

test("a review whose old size was right a moment ago is refused, and the client's next try of the same change is allowed", async () => {
  const world = await preparedGroup();
  const replica = world.process();
  const { oldObject, object } = replica.request("group-a", 3);
  world.scale("group-a", 4);
  await world.harness.goOn(60_000);
  assert.equal(denied(await replica.review("group-a", 3, { oldObject, object })).guard, "size-conflict");
  assert.equal(await replica.guard("group-a", 3), "allowed");
  assert.deepEqual(world.requests, ["POST group-a-3"]);
});

test("no answer reports a uid that its review did not contain, and no forged review has a pod called at another URL", async () => {
  const world = await preparedGroup();
  const { store } = world.harness.world;
  const stored = (["pods", "statefulsets", "leases"] as const).flatMap((resource) => store.list(resource).items);
  const uids = stored.map(({ metadata }) => metadata.uid);
  const replica = world.process();
  const uid = fc.option(fc.constantFrom("", "other", ...uids), { nil: undefined });
  const review = fc.record({
    name: fc.constantFrom("group-a", "group-b", "nothing"),
    to: fc.integer({ min: 0, max: 6 }),
    from: fc.integer({ min: 0, max: 9 }),
    start: fc.integer({ min: 0, max: 6 }),
    uid,
    isScale: fc.boolean(),
    isForeign: fc.boolean(),
  });
  let called = 0;
  await fc.assert(
    fc.asyncProperty(review, async ({ name, to, from, start, uid: reported, isScale, isForeign }) => {
      const ordinals = { start };
      const lies = { ...(isForeign ? elsewhere : {}), ...(reported === undefined ? {} : { uid: reported }), name };
      const asked = forged(replica, "group-a", to, lies, { replicas: from, ordinals });
      const object = { ...(asked.object as object), metadata: { name, namespace } };
      const review = { ...asked, name, object };
      const answer = await (isScale && name !== "nothing"
        ? replica.reviewScale(name, to)
        : replica.review("group-a", to, review));
      const text = JSON.stringify(answer);
      for (const one of uids) assert.ok(one === reported || !text.includes(one), `${one}: ${text}`);
      called = world.received.length;
      assert.ok(
        world.received.every(({ url }) => url.endsWith("/ingester/prepare-shutdown") && !url.includes(":6379")),
      );
    }),
    { numRuns: reviews },
  );
  assert.ok(called > 0, "some of the forged reviews were honest by chance");
  assert.ok(world.claims.length <= 2, key.group);
});

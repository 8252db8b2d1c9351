/**
 * Rules R18 to R20: a claim comes before the calls, one change is made at a time, and a process takes back a change
 * that it finds unfinished.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { played } from "../../shared/reconcile/harness.ts";
import { type Downscales, denied, foreignClaim, type Process, preparedGroup } from "./downscales.ts";

/** From the nth such call on, the API server answers nothing to the process. */
function dieAt(process: Process, call: string, nth = 1): void {
  let seen = 0;
  process.interfere = ({ verb, resource }) => {
    if (`${verb} ${resource}` === call) seen++;
    return seen >= nth ? new Promise<void>(() => {}) : undefined;
  };
}

test("a review of the same change joins its claim, under another uid and in another process, and tells no pod twice", async () => {
  const world = await preparedGroup();
  assert.equal(await world.process().guard("group-a", 3), "allowed");
  const [before] = world.claims;
  await world.harness.goOn(30_000);
  const again = world.process();
  assert.equal(await again.guard("group-a", 3, { uid: "again" }), "allowed");
  assert.equal((await again.reviewScale("group-a", 3)).guard, "allowed");
  assert.deepEqual(world.requests.length, 2);
  const [after] = world.claims;
  assert.ok(before?.isKnown && after?.isKnown && after.stampMs >= before.stampMs + 30_000, "a write renews its stamp");
  assert.deepEqual([after.id, after.sinceMs], [before.id, before.stampMs - (before.stampMs - (before.sinceMs ?? 0))]);
});

test("zone-scaling-down: any other change of the same size is refused until the claim has ended", async () => {
  const world = await preparedGroup();
  assert.equal(await world.process().guard("group-a", 3), "allowed");
  assert.equal(await world.process().guard("group-a", 2), "zone-scaling-down");
  assert.equal(await world.process().guard("group-a", 4), "zone-scaling-down");
  world.harness.world.store.delete("pods", { namespace: "db", name: "group-a-4" });
  await world.harness.goOn(60_000);
  const answer = denied(await world.process().review("group-a", 3));
  assert.match(answer.message, /group-a-4 is another pod than the one that was told/);
});

test("of two downscales of one group at once, in two processes, one is allowed, and the pods of the other are not told", async () => {
  const world = await preparedGroup();
  const [one, other] = [world.process(), world.process()];
  const { timeline } = world.harness;
  const answers = await played(
    timeline,
    Promise.all([one.handler.review(one.request("group-a", 4)), other.handler.review(other.request("group-b", 4))]),
  );
  assert.equal(answers.filter(({ allowed }) => allowed).length, 1);
  assert.equal(world.requests.length, 1);
});

test("a downscale that was carried out does not block the next one, although no function has ended its claim yet", async () => {
  const world = await preparedGroup();
  const process = world.process();
  assert.equal(await process.guard("group-a", 4), "allowed");
  world.scale("group-a", 4);
  assert.equal(await process.guard("group-a", 3), "zone-scaling-down", "its pod has not gone yet");
  await world.harness.goOn(60_000);
  assert.equal(await process.guard("group-a", 3), "allowed");
  assert.deepEqual(
    world.claims.map((claim) => claim.isKnown && claim.members),
    [[{ first: 3, last: 3 }]],
  );
  assert.ok(world.harness.ledger.lastDownscales?.["group-a"]);
});

for (const [call, nth, notified] of [
  ["get leases", 1, 0],
  ["patch leases", 1, 0],
  ["get leases", 2, 2],
  ["patch leases", 2, 2],
  ["list pods", 5, 2],
] as const) {
  test(`a process that dies at call ${nth} of "${call}" leaves no pod prepared, because another process takes the change back`, async () => {
    const world = await preparedGroup();
    const process = world.process();
    dieAt(process, call, nth);
    const answer = denied(await process.review("group-a", 3));
    assert.equal(answer.guard, "late");
    assert.equal(world.requests.filter((word) => word.startsWith("POST")).length, notified);
    const other = world.process();
    await other.sweep();
    assert.equal(world.prepared.size, notified, "as long as a review may still be allowed");
    await world.harness.goOn(91_000);
    await other.sweep();
    assert.deepEqual([world.prepared.size, world.claimed], [0, []]);
    assert.equal(world.replicasOf("group-a"), 5);
  });
}

test("a process that dies after its first write, before any call, blocks the group for 90 s and no longer", async () => {
  const world = await preparedGroup();
  const process = world.process();
  world.reply = () => "hang";
  process.interfere = ({ verb, resource }) => {
    if (verb === "get" && resource === "leases" && world.claims.length > 0) return new Promise<void>(() => {});
  };
  assert.ok(!(await process.review("group-a", 3)).allowed);
  world.reply = () => undefined;
  const other = world.process();
  assert.equal(await other.guard("group-a", 3), "zone-scaling-down");
  await world.harness.goOn(75_000);
  assert.equal(await other.sweep(), "downscale-under-way");
  await world.harness.goOn(10_000);
  assert.equal(await other.sweep(), "downscale-taken-back");
  assert.equal(await other.guard("group-a", 3), "allowed");
});

test("ledger-contended: a review is refused only if others write the ledger at each try; then it tells the pods that they stay", async () => {
  const world = await preparedGroup();
  const process = world.process();
  let left = 4;
  process.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "leases" && left-- > 0)
      world.harness.writeLedger({ "example.com/other": String(left) });
  };
  assert.equal(await process.guard("group-a", 4), "allowed");
  left = 1_000;
  assert.equal(await process.guard("group-b", 4), "zone-scaling-down");
  const second = await preparedGroup();
  const contended = second.process();
  contended.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "leases" && second.requests.length > 0)
      second.harness.writeLedger({ "example.com/other": String(second.harness.ledger.resourceVersion) });
  };
  assert.equal(await contended.guard("group-a", 4), "ledger-contended");
  assert.deepEqual([second.prepared.size, second.requests.includes("DELETE group-a-4")], [0, true]);
});

test("a second write without an answer is not taken back at once, because another review may have joined the claim", async () => {
  const world = await preparedGroup();
  const process = world.process();
  let writes = 0;
  process.interfere = ({ verb, resource }) => {
    if (verb !== "patch" || resource !== "leases" || ++writes !== 2) return;
    world.harness.timeline.after(1, () => {});
    throw new ClusterError({ code: 0, reason: "", message: "lost", verb: "patch", resource: "leases" });
  };
  assert.equal(await process.guard("group-a", 4), "api-server-away");
  assert.deepEqual([world.requests, world.claimed], [["POST group-a-4"], ["group-a preparing"]]);
  await world.harness.goOn(91_000);
  await process.sweep();
  assert.deepEqual([world.prepared.size, world.claimed], [0, []]);
});

test("claim-lost: if another client removes the claim meanwhile, the review is refused", async () => {
  const world = await preparedGroup();
  world.reply = () => {
    world.harness.writeLedger({ "sluice.dev/claims": "" });
    return undefined;
  };
  assert.equal(await world.process().guard("group-a", 4), "claim-lost");
  assert.deepEqual(world.prepared.size, 0);
});

test("pod-replaced: a review is refused if a pod was replaced while the old one was told", async () => {
  const world = await preparedGroup();
  world.reply = (_pod, method) => {
    const { store } = world.harness.world;
    if (method !== "POST") return undefined;
    const { metadata } = store.get("pods", { namespace: "db", name: "group-a-4" });
    store.delete("pods", { namespace: "db", name: metadata.name }, { gracePeriodSeconds: 0 });
    return { status: 200 };
  };
  assert.equal(await world.process().guard("group-a", 4), "pod-replaced");
});

test("claim-unconfirmed: if the second write fails with an error, the review takes its change back at once", async () => {
  const world = await preparedGroup();
  const process = world.process();
  process.interfere = ({ verb, resource }) => {
    if (verb === "list" && resource === "pods" && world.requests.length === 1) throw new Error("broken");
  };
  assert.equal(await process.guard("group-a", 4), "claim-unconfirmed");
  assert.deepEqual([world.prepared.size, world.claimed], [0, []]);
});

test("a review joins another function's claim of the same change: it first tells the pods in its own way, then renews the stamp", async () => {
  const world = await preparedGroup();
  const { uid } = world.harness.world.store.get("statefulsets", { namespace: "db", name: "group-a" }).metadata;
  const { uid: pod } = world.harness.world.store.get("pods", { namespace: "db", name: "group-a-4" }).metadata;
  const stampMs = world.process().cluster.serverTimeMs();
  const claim = foreignClaim("group-a", uid, { stampMs, uids: { "group-a": uid, "group-a-4": pod } });
  world.harness.writeLedger({ "sluice.dev/claims": claim.line });
  await world.harness.goOn(10_000);
  const process = world.process();
  assert.equal(await process.guard("group-a", 4), "allowed");
  assert.deepEqual(world.requests, ["POST group-a-4"]);
  const stamps = world.claims.map((one) => one.isKnown && one.stampMs >= stampMs + 10_000);
  assert.deepEqual(
    [stamps, world.claimed],
    [
      [true, true],
      ["group-a confirmed", "group-a confirmed"],
    ],
  );
  assert.equal(await process.guard("group-a", 4), "allowed");
  assert.equal(await process.guard("group-a", 3), "zone-scaling-down");
  assert.equal(world.requests.length, 1);
});

test("zone-departed, uid-conflict: a review is refused if its StatefulSet changes its group or is recreated meanwhile", async () => {
  for (const [guard, change] of [
    ["zone-departed", (world: Downscales) => world.label("group-a", { "rollout-group": "elsewhere" })],
    ["uid-conflict", (world: Downscales) => world.replace("group-a")],
  ] as const) {
    const world = await preparedGroup();
    const process = world.process();
    let reads = 0;
    process.interfere = ({ verb, resource }) => {
      if (verb === "get" && resource === "leases" && reads++ === 0) change(world);
    };
    assert.equal(await process.guard("group-a", 4), guard);
    assert.deepEqual([world.requests, process.writes()], [[], ["create events"]]);
  }
});

test("if another client changes the size meanwhile, pods that are wanted again are told so, and pods that leave stay claimed", async () => {
  const world = await preparedGroup();
  const process = world.process();
  assert.equal(await process.guard("group-a", 3), "allowed");
  world.scale("group-a", 4);
  await world.harness.goOn(91_000);
  assert.equal(await process.sweep(), "downscale-taken-back");
  assert.deepEqual(
    world.requests.filter((word) => word.startsWith("DELETE")),
    ["DELETE group-a-3"],
  );
  await process.sweep();
  assert.deepEqual(world.claimed, []);
});

test("200 changes of one scale in a row never conflict with Sluice, because no review writes the StatefulSet", async () => {
  const world = await preparedGroup();
  const process = world.process();
  const { store } = world.harness.world;
  for (let changed = 0; changed < 200; changed++) {
    const to = changed % 2 === 0 ? 4 : 5;
    const { resourceVersion, uid } = store.get("statefulsets", { namespace: "db", name: "group-a" }).metadata;
    assert.ok((await process.reviewScale("group-a", to)).allowed, String(changed));
    // The API server writes on condition that no other client has written the object since the review began.
    store.patch(
      "statefulsets",
      { namespace: "db", name: "group-a" },
      { metadata: { uid, resourceVersion }, spec: { replicas: to } },
    );
    await world.harness.goOn(60_000);
    await process.sweep();
  }
  assert.equal(world.requests.filter((word) => word.startsWith("POST")).length, 100);
});

test("uid-conflict: if a StatefulSet is recreated while its pods are told, its downscale is refused, and they are told to stay", async () => {
  const world = await preparedGroup();
  const process = world.process((cluster) => ({
    cluster: {
      ...cluster,
      // The new StatefulSet has adopted the pods of the old one.
      get: (async (resource: never, key: never, ...more: never[]) => {
        const object = await cluster.get(resource, key, ...more);
        if (resource !== ("statefulsets" as never) || world.received.length === 0) return object;
        const { metadata, ...rest } = object as unknown as { metadata: object };
        return { ...rest, metadata: { ...metadata, uid: "another" } };
      }) as never,
    },
  }));
  assert.equal(await process.guard("group-a", 4), "uid-conflict");
  assert.deepEqual(world.requests, ["POST group-a-4", "DELETE group-a-4"]);
  assert.deepEqual(world.claimed, []);
});

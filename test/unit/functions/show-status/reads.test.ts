/** What a process reads for the status besides groups and ledgers: Events, the evictions that it parks, and volumes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { evaluateEviction } from "../../../../functions/evaluate-eviction/function.ts";
import { askedOf } from "../../../support/asked-eviction.ts";
import type { TestWorldOptions } from "../../triggers/server/world.ts";
import { failing, started } from "./started.ts";

const namespace = "app";
type Scene = Awaited<ReturnType<typeof started>>;

/** Creates an Event that is so many seconds old, unless `changes` say otherwise. */
function send({ world, cluster }: Scene, name: string, secondsAgo: number, changes: object = {}): void {
  const lastTimestamp = new Date(cluster.serverTimeMs() - secondsAgo * 1_000).toISOString();
  world.store.create("events", namespace, {
    metadata: { name },
    involvedObject: { kind: "StatefulSet", namespace, name: "ingester-a" },
    source: { component: "sluice" },
    ...{ reason: "RolloutStarted", message: name, lastTimestamp, ...changes },
  });
}

const lists = (requests: readonly string[]) => requests.filter((one) => one === "list events").length;

test("a GET lists the Events of Sluice, newest first, and none of other components; further GETs of five seconds list none", async () => {
  const scene = await started();
  const { read, requests, standalone, goTo } = scene;
  send(scene, "old", 60);
  send(scene, "new", 1);
  send(scene, "foreign", 2, { source: { component: "sluice-other" } });
  const status = await read(10);
  assert.deepEqual(
    status?.events?.map(({ message }) => message),
    ["new", "old"],
  );
  const [first] = status?.events ?? [];
  assert.deepEqual([first?.namespace, first?.object, first?.reason], [namespace, "ingester-a", "RolloutStarted"]);
  assert.equal(lists(requests()), 1);
  await goTo(14.9);
  void standalone.readStatus?.();
  await goTo(15.1);
  assert.equal(lists(requests()), 0);
  await read(20);
  assert.equal(lists(requests()), 1);
  await goTo(600);
  assert.equal(lists(requests()), 0, "no GET has come");
});

test("the time of an Event without one of its own is that of its creation, and long texts of other clients are cut", async () => {
  const scene = await started();
  send(scene, "none", 0, { lastTimestamp: undefined, message: "m".repeat(100_000), reason: "r".repeat(300) });
  const [event] = (await scene.read(10))?.events ?? [];
  assert.deepEqual([event?.message.length, event?.reason.length], [1_025, 129]);
  assert.ok(Math.abs(Date.parse(event?.at ?? "") - scene.cluster.serverTimeMs()) < 60_000);
});

test("of 5,001 Events none is shown, and the status says why", async () => {
  const scene = await started();
  for (let index = 0; index <= 5_000; index++) send(scene, `event-${index}`, 1);
  const status = await scene.read(10);
  assert.deepEqual([status?.events, status?.waiting], [null, null]);
  const [left] = status?.leftOut ?? [];
  assert.equal(left?.part, "events");
  assert.match(left?.why ?? "", /there are 5001 or more events/);
});

/** A process that also reviews evictions, under a budget of one pod. */
async function reviewing(
  options: Partial<TestWorldOptions> = {},
): Promise<Scene & { evict(pod: string): Promise<unknown> }> {
  const scene = await started(
    { admissions: [evaluateEviction], settings: { evictionWaitMs: 20_000 }, ...options },
    { suspendsVolumes: true },
  );
  const { world, standalone, cluster } = scene;
  world.store.create("zoneawarepoddisruptionbudgets", namespace, {
    metadata: { name: "budget" },
    spec: { selector: { matchLabels: { "rollout-group": "ingester" } }, maxUnavailable: 1 },
  });
  const [admission] = standalone.admissions;
  const evict = (name: string) => {
    const asked = askedOf({ namespace, name }, { uid: name, deadlineMs: cluster.monotonicMs() + 30_000 });
    return admission?.handler.review(asked) ?? assert.fail();
  };
  return { ...scene, evict };
}

test("the status has the evictions that wait at this process with their place and node, and at least one of each zone by Events", async () => {
  const scene = await reviewing();
  const { evict, read, requests, goTo, world } = scene;
  await goTo(5);
  const pods = ["ingester-a-0", "ingester-a-1", "ingester-a-2"];
  void pods.map(evict);
  const status = await read(9);
  requests();
  const nodeOf = (name: string) => world.store.get("pods", { namespace, name }).spec.nodeName;
  assert.deepEqual(
    status?.parked.map(({ pod, place, node, guard, group }) => [pod, place, node, guard, group]),
    pods.map((pod, index) => [pod, index + 1, nodeOf(pod), index === 0 ? "ledger-new" : "zone-budget", "ingester"]),
  );
  const waitedMs = Date.parse(status?.at ?? "") - Date.parse(status?.parked[0]?.since ?? "");
  assert.ok(waitedMs >= 3_000 && waitedMs < 5_000, `${waitedMs} ms`);
  assert.deepEqual(
    status?.waiting?.map(({ zone, guard, refused }) => [zone, guard, refused]),
    [["ingester-a", "ledger-new", false]],
  );
  assert.equal(status?.groups[0]?.state, "done", "an eviction waits");
  await read(14);
  assert.equal(requests().filter((one) => one === "get pods").length, 0, "each pod is read once");
  const later = await read(30);
  assert.deepEqual(later?.parked, []);
  assert.ok(later?.waiting?.some(({ refused }) => refused));
});

const rights: readonly (readonly [verb: string, resource: string, part: string])[] = [
  ["list", "leases", "ledgers"],
  ["list", "events", "events"],
  ["list", "persistentvolumeclaims", "suspended volumes"],
  ["get", "pods", "nodes of evictions that wait"],
];

for (const [verb, resource, part] of rights)
  test(`without the right to ${verb} ${resource} the status leaves out the ${part}, and has everything else`, async () => {
    const message = `${resource} is forbidden: User "sluice" cannot ${verb} resource "${resource}"`;
    let isLost = false;
    const beforeCall = (call: { readonly verb: string; readonly resource: string }) => {
      if (isLost && call.verb === verb && call.resource === resource) throw failing(403, message, resource, verb);
    };
    const scene = await reviewing({ beforeCall });
    send(scene, "event", 0);
    await scene.goTo(2);
    isLost = true;
    void scene.evict("ingester-a-0");
    const first = await scene.read(5);
    assert.deepEqual(
      first?.leftOut.map((left) => [left.part, left.why]),
      [[part, `Sluice lacks the right to ${verb} ${resource}: ${message}`]],
    );
    const isThere = [
      first?.groups.length === 1 && first.groups[0]?.ready === 9,
      first?.events?.some((event) => event.message === "event") === true,
      first?.volumes?.length === 0,
      resource === "leases" || first?.parked[0]?.node === "a-0",
    ];
    const isWhole = rights.map(([, other]) => other !== resource);
    assert.deepEqual(isThere, [true, isWhole[1], isWhole[2], isWhole[3]]);
    assert.equal((await scene.read(9))?.leftOut[0]?.since, first?.leftOut[0]?.since);
    isLost = false;
    assert.deepEqual((await scene.read(40))?.leftOut, []);
  });

for (const resource of ["pods", "statefulsets"])
  test(`without the right to list ${resource} no group is shown as it is not, and the status says so`, async () => {
    const message = `${resource} is forbidden: User "sluice" cannot list resource "${resource}"`;
    let isLost = true;
    const beforeCall = (call: { readonly verb: string; readonly resource: string }) => {
      if (isLost && call.verb === "list" && call.resource === resource) throw failing(403, message, resource);
    };
    const scene = await started({ beforeCall });
    send(scene, "event", 0);
    const first = await scene.read(5);
    assert.deepEqual([first?.groups, first?.needsPerson, first?.events?.length], [[], [], 1]);
    assert.deepEqual(
      first?.leftOut.map(({ part, why }) => [part, why]),
      [["pods and StatefulSets", `Sluice lacks the right to list ${resource}: ${message}`]],
    );
    isLost = false;
    const later = await scene.read(120);
    assert.deepEqual([later?.groups[0]?.ready, later?.leftOut], [9, []]);
  });

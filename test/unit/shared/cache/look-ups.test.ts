/** The cost of reviews of pods that the cache lacks: for the API server, and for reviews of cached pods. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { evaluateEviction } from "../../../../functions/evaluate-eviction/function.ts";
import type { AdmissionAnswer } from "../../../../functions/shared/admission/definition.ts";
import { TooManyLookUps } from "../../../../functions/shared/cache/look-ups.ts";
import { SharedReads } from "../../../../functions/shared/cache/shared-reads.ts";
import {
  limitLookUps,
  lookUpLimit,
  mostWaiting,
  patienceMs,
  refusedWithinMs,
} from "../../../../triggers/workqueue/limited-look-ups.ts";
import { VirtualTimeline } from "../../../fake-cluster/timeline.ts";
import { askedOf } from "../../../support/asked-eviction.ts";
import { governedGroup, Replica } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { createTestWorld } from "../../triggers/server/world.ts";
import { withServer } from "../kubernetes/server.ts";

const namespace = "app";

/** A process that decides evictions by watches, 20 s after its start. */
async function reviewing() {
  const testWorld = createTestWorld({ admissions: [evaluateEviction] });
  const { world, cluster, calls } = testWorld;
  world.store.create("zoneawarepoddisruptionbudgets", namespace, {
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: "budget" },
    spec: { maxUnavailable: 1, selector: { matchLabels: { "rollout-group": "ingester" } } },
  });
  const [admission] = testWorld.start().admissions;
  assert.ok(admission !== undefined);
  await testWorld.goTo(20);
  calls.length = 0;
  const review = async (name: string, answers: AdmissionAnswer[] = []): Promise<void> => {
    const deadlineMs = cluster.monotonicMs() + 9_000;
    const request = askedOf({ namespace, name }, { uid: name, path: "/pods/eviction/pin", deadlineMs });
    answers.push(await admission.handler.review(request));
  };
  const lookedUp = () => calls.filter(({ verb, resource }) => verb === "get" && resource === "pods").length;
  return { ...testWorld, review, lookedUp };
}

test("6,000 forged reviews at once cause GETs only at the limited rate, each gets a 429 with a cause, and a known pod is answered", async () => {
  const { goTo, review, lookedUp } = await reviewing();
  const forged: AdmissionAnswer[] = [];
  for (let number = 0; number < 6_000; number++) void review(`forged-${number}`, forged);
  const known: AdmissionAnswer[] = [];
  void review("ingester-a-0", known);
  await goTo(21);
  assert.equal(known[0]?.guard, "allowed", "a known pod waits for no look-up");
  assert.ok(lookedUp() <= lookUpLimit.burst + 1_000 / lookUpLimit.everyMs, `${lookedUp()} in the first second`);
  await goTo(30);
  assert.equal(forged.length, 6_000, "each gets its answer before its deadline");
  assert.ok(lookedUp() <= lookUpLimit.burst + 10_000 / lookUpLimit.everyMs, `${lookedUp()} in ten seconds`);
  const guards = Map.groupBy(forged, ({ guard }) => guard);
  assert.deepEqual([...guards.keys()].sort(), ["look-ups-busy", "pod-gone"]);
  assert.equal(guards.get("pod-gone")?.length, lookedUp());
  const [busy] = guards.get("look-ups-busy") ?? [];
  assert.ok(busy !== undefined && !busy.allowed);
  assert.deepEqual([busy.code, busy.reason, busy.cause], [429, "TooManyRequests", "DisruptionBudget"]);
  assert.match(busy.message, /^pod forged-\d+ must be looked up, but .+ try again$/);
});

test("a new pod never goes undecided: its review has its turn, or is refused with 429", async () => {
  const { goTo, review, world } = await reviewing();
  const forged: AdmissionAnswer[] = [];
  for (let number = 0; number < 6_000; number++) void review(`forged-${number}`, forged);
  await goTo(21);
  const metadata = { name: "new-0", labels: { "rollout-group": "ingester" } };
  world.store.create("pods", namespace, { metadata, spec: { containers: [] } });
  const answers: AdmissionAnswer[] = [];
  for (let number = 0; number < 10; number++) void review("new-0", answers);
  await goTo(32);
  assert.equal(answers.length, 10);
  assert.deepEqual(
    answers.map(({ allowed, guard }) => [allowed, ["look-ups-busy", "late", "no-statefulset"].includes(guard)]),
    answers.map(() => [false, true]),
  );
  const calm: AdmissionAnswer[] = [];
  await goTo(40);
  void review("new-0", calm);
  await goTo(41);
  assert.equal(calm[0]?.guard, "no-statefulset", "afterwards a review is decided at once");
});

/** The rate alone: the outcome of this many reads that are requested at once, and its time in milliseconds. */
async function ended(count: number): Promise<{ readonly read: number[]; readonly refused: number[] }> {
  const timeline = new VirtualTimeline();
  const startMs = timeline.nowMs();
  const passedMs = () => timeline.nowMs() - startMs;
  const cluster = {
    get: (async () => ({})) as never,
    list: (async () => ({ items: [], resourceVersion: "1" })) as never,
    monotonicMs: () => timeline.nowMs(),
    sleep: (ms: number) => new Promise<void>((resolve) => void timeline.after(ms, resolve)),
  };
  const lookUps = limitLookUps(cluster);
  const [read, refused]: [number[], number[]] = [[], []];
  for (let number = 0; number < count; number++) {
    lookUps.get("pods", { namespace, name: `p-${number}` }).then(
      () => void read.push(passedMs()),
      (error: unknown) => {
        assert.ok(error instanceof TooManyLookUps);
        refused.push(passedMs());
      },
    );
  }
  await timeline.run(() => read.length + refused.length === count);
  return { read, refused };
}

test("look-ups that have their turn within two seconds are all made within that time", async () => {
  const { read, refused } = await ended(lookUpLimit.burst + patienceMs / lookUpLimit.everyMs - 1);
  assert.deepEqual(refused, []);
  assert.ok(Math.max(...read) <= patienceMs);
  assert.equal(read.filter((ms) => ms === 0).length, lookUpLimit.burst);
});

test("look-ups beyond that are refused one after the other, in time for the webhook's answer", async () => {
  const { refused } = await ended(lookUpLimit.burst + 6_000);
  assert.ok(Math.min(...refused) >= patienceMs);
  const busiest = Math.max(...[...Map.groupBy(refused, (ms) => ms).values()].map(({ length }) => length));
  assert.ok(busiest <= 13, `${busiest} at one moment`);
  assert.ok(Math.max(...refused) <= patienceMs + refusedWithinMs, `${Math.max(...refused)} ms`);
});

test("beyond the limit of waiting look-ups, each is refused at once", async () => {
  const { refused } = await ended(lookUpLimit.burst + mostWaiting + 100);
  assert.equal(refused.filter((ms) => ms === 0).length, 100);
});

test("look-ups have connections of their own: while they hang, other calls are answered", async () => {
  await withServer({ connections: 2 }, async ({ cluster, server }) => {
    const waiting: (() => void)[] = [];
    server.answer(({ request, response }) => {
      const end = () => response.end('{"metadata":{"name":"web"}}');
      if (request.url?.includes("/hangs")) waiting.push(end);
      else end();
    });
    const hanging = Array.from({ length: 20 }, () =>
      cluster.get("pods", { namespace: "ns", name: "hangs" }, { aside: true }),
    );
    await cluster.get("pods", { namespace: "ns", name: "web" });
    assert.ok(server.connections() <= 4 + 2, `${server.connections()} connections`);
    while (waiting.length > 0 || server.requests.length < 21) {
      waiting.shift()?.();
      await new Promise(setImmediate);
    }
    waiting.shift()?.();
    await Promise.all(hanging);
  });
});

test("after silence a review's LIST also answers for the other pods of its group, which are not looked up again", async () => {
  const harness = await governedGroup({ maxUnavailable: 3 });
  const cache = await harness.watch();
  const replica = new Replica(harness, () => ({ cache }));
  await harness.goOn(31_000);
  harness.forget();
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
  assert.deepEqual([harness.count("get pods"), harness.count("list pods")], [1, 2]);
  for (const pod of ["group-a-1", "group-a-2"]) {
    assert.deepEqual(await replica.guards(replica.review(pod)), ["allowed"]);
  }
  assert.deepEqual([harness.count("get pods"), harness.count("list pods")], [1, 2]);
  await cache.stop();
});

test("after silence a flood of unknown names does not delay cached pods, each of which is read once in a second", async () => {
  const { goTo, review, calls } = await reviewing();
  // No bookmark comes here: the watches have been silent for more than 30 s.
  await goTo(60);
  const forged: AdmissionAnswer[] = [];
  for (let number = 0; number < 6_000; number++) void review(`forged-${number}`, forged);
  calls.length = 0;
  const known: AdmissionAnswer[] = [];
  for (let number = 0; number < 50; number++) void review("ingester-a-0", known);
  await goTo(61);
  assert.equal(known.length, 50, "none of them waits for its turn");
  assert.equal(known.filter(({ guard }) => guard === "allowed").length, 50);
  assert.equal(calls.filter(({ verb, name }) => verb === "get" && name === "ingester-a-0").length, 1);
});

test("a read serves callers for a second, a failed read serves no other caller, and neither is remembered for longer", async () => {
  let nowMs = 0;
  let asked = 0;
  const reads = new SharedReads<number>({ monotonicMs: () => nowMs });
  const ask = async () => ++asked;
  assert.deepEqual(await Promise.all([reads.read("a", ask), reads.read("a", ask), reads.read("b", ask)]), [1, 1, 2]);
  nowMs = 999;
  assert.equal(await reads.read("a", ask), 1);
  nowMs = 1_000;
  assert.deepEqual([await reads.read("a", ask), reads.size], [3, 1]);
  await assert.rejects(
    reads.read("c", () => Promise.reject(new Error("no"))),
    /no/,
  );
  assert.equal(await reads.read("c", ask), 4);
});

test("a failed read does not remove a newer one of the same pod, and at most 10,000 are remembered", async () => {
  let nowMs = 0;
  const reads = new SharedReads<number>({ monotonicMs: () => nowMs });
  const slow = Promise.withResolvers<number>();
  const failing = reads.read("a", () => slow.promise);
  nowMs = 1_000;
  assert.equal(await reads.read("a", async () => 2), 2);
  slow.reject(new Error("no"));
  await assert.rejects(failing, /no/);
  assert.equal(await reads.read("a", async () => 3), 2);
  for (let number = 0; number < 9_999; number++) void reads.read(`${number}`, async () => number);
  assert.equal(reads.size, 10_000);
  void reads.read("one more", async () => 1);
  assert.equal(reads.size, 10_000);
  assert.equal(await reads.read("0", async () => assert.fail("it is still remembered")), 0);
});

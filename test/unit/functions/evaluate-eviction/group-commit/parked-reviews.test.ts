/** Reviews that wait for their turn: in order, answered as soon as a pod is back, and no longer than permitted. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  mostParked,
  mostParkedOfGroup,
} from "../../../../../functions/evaluate-eviction/group-commit/parked-reviews.ts";
import type { AdmissionAnswer, AdmissionRequest } from "../../../../../functions/shared/admission/definition.ts";
import { type Call, Harness, namespace, played, refused } from "../../../shared/reconcile/harness.ts";
import { addBudget, governedGroup, Replica, reservationOf, reserved } from "./reviews.ts";

const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";
/** Time that a pod of the fake cluster is away. */
const awayMs = 1_505;

/** A process that keeps running, and users who evict: the API server carries out what is allowed. */
class Drains {
  readonly harness: Harness;
  readonly replica: Replica;
  /** The answers in order, with the time since the start. */
  readonly answered: {
    readonly pod: string;
    readonly guard: string;
    readonly atMs: number;
    readonly message: string;
  }[] = [];
  readonly #startMs: number;

  constructor(harness: Harness, replica: Replica) {
    this.harness = harness;
    this.replica = replica;
    this.#startMs = harness.timeline.nowMs();
  }

  static async of(spec: object, { replicas = 8, settings = {} } = {}): Promise<Drains> {
    const harness = await governedGroup(spec, { replicas });
    const cache = await harness.watch();
    harness.holds.length = 0;
    return new Drains(harness, new Replica(harness, () => ({ cache, settings })));
  }

  evict(pod: string, changes: Partial<AdmissionRequest> = {}): Promise<AdmissionAnswer> {
    const asked = this.replica.review(pod, changes);
    void asked.then((answer) => {
      const message = answer.allowed ? "" : answer.message;
      this.answered.push({ pod, guard: answer.guard, atMs: this.harness.timeline.nowMs() - this.#startMs, message });
      if (answer.allowed && changes.dryRun !== true) this.harness.world.store.delete("pods", { namespace, name: pod });
    });
    return asked;
  }

  guards(...asked: readonly Promise<AdmissionAnswer>[]): Promise<string[]> {
    return this.replica.guards(...asked);
  }

  get outcomes(): string[] {
    return this.harness.holds.flatMap(({ ended }) => (ended === undefined ? [] : [ended.outcome]));
  }
}

const pods = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => `group-a-${from + index}`);

test("an eviction that the budget does not allow now waits, and is allowed as soon as a pod is back", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  const asked = pods(0, 4).map((pod) => drains.evict(pod));
  assert.deepEqual(await drains.guards(...asked), ["allowed", "allowed", "allowed", "allowed"]);
  assert.deepEqual(
    drains.answered.map(({ pod }) => pod),
    pods(0, 4),
    "in the order in which they came",
  );
  for (const [index, { atMs }] of drains.answered.entries()) {
    const lateMs = atMs - index * awayMs;
    assert.ok(lateMs >= 0 && lateMs < 100, `${index} goes ${lateMs} ms after the one before it is back`);
  }
});

test("a waiting eviction has nothing in the ledger, and its stamp is the time at which it is allowed (R8, R9)", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  await drains.guards(drains.evict("group-a-0"));
  const firstMs = reservationOf(drains.harness, "group-a-0")?.stampMs ?? Number.NaN;
  const waits = drains.evict("group-a-1");
  await drains.harness.goOn(1_000);
  assert.deepEqual(reserved(drains.harness), ["group-a-0 by evaluate-eviction"]);
  assert.deepEqual(await drains.guards(waits), ["allowed"]);
  const laterMs = (reservationOf(drains.harness, "group-a-1")?.stampMs ?? Number.NaN) - firstMs;
  assert.ok(laterMs >= 1_000 && laterMs <= 2_000, `${laterMs} ms after the first, by a clock of whole seconds`);
});

test("an eviction waits as long as the setting says, and is then refused with its reason", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 }, { settings: { evictionWaitMs: 1_200 } });
  const asked = [drains.evict("group-a-0"), drains.evict("group-a-1")];
  assert.deepEqual(await drains.guards(...asked), ["allowed", "zone-budget"]);
  const atMs = drains.answered[1]?.atMs ?? 0;
  assert.ok(atMs >= 1_200 && atMs < 1_300, `${atMs} ms`);
  assert.deepEqual(drains.outcomes, ["over"]);
});

test("EVICTION_WAIT of 0 refuses at once", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 }, { settings: { evictionWaitMs: 0 } });
  assert.deepEqual(await drains.guards(...pods(0, 3).map((pod) => drains.evict(pod))), [
    "allowed",
    "zone-budget",
    "zone-budget",
  ]);
  assert.ok((drains.answered[2]?.atMs ?? 1_000) < 50);
  assert.deepEqual(drains.harness.holds, []);
});

test("Sluice cuts a setting that is too long for the timeout to 1.5 s less than the timeout, and reports that once", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 }, { settings: { evictionWaitMs: 60_000 } });
  const deadlineMs = drains.replica.cluster.monotonicMs() + 2_500;
  const asked = pods(0, 3).map((pod) => drains.evict(pod, { deadlineMs }));
  assert.deepEqual(await drains.guards(...asked), ["allowed", "zone-budget", "zone-budget"]);
  const atMs = drains.answered[1]?.atMs ?? 0;
  assert.ok(atMs >= 1_000 && atMs < 1_100, `${atMs} ms`);
  assert.equal(drains.harness.problems.length, 1);
  assert.match(drains.harness.problems[0] ?? "", /EVICTION_WAIT is 60 s, .* evictions wait for 1\.0 s at most/);
});

test("evictions of a webhook with a timeout of one second are refused at once", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  const deadlineMs = drains.replica.cluster.monotonicMs() + 900;
  const asked = pods(0, 3).map((pod) => drains.evict(pod, { deadlineMs }));
  assert.deepEqual(await drains.guards(...asked), ["allowed", "zone-budget", "zone-budget"]);
  assert.ok((drains.answered[2]?.atMs ?? 1_000) < 50);
  assert.match(drains.harness.problems[0] ?? "", /no eviction waits.* timeoutSeconds of 11/);
});

test("32 reviews of a group wait; each further one is refused at once, with its place in the queue", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 }, { replicas: 40 });
  const asked = pods(0, 36).map((pod) => drains.evict(pod));
  await drains.harness.goOn(20);
  assert.equal(drains.answered.length, 1 + 36 - 1 - mostParkedOfGroup);
  const refused = drains.answered.slice(1);
  assert.deepEqual(
    refused.map(({ pod }) => pod),
    pods(33, 36),
    "those who came last",
  );
  const places = refused.map(({ message }) =>
    Number(/number (\d+) in the line of its group, where 32 wait already/.exec(message)?.[1]),
  );
  assert.deepEqual(places, [33, 34, 35]);
  assert.equal(drains.harness.holds.at(-1)?.parked, mostParkedOfGroup);
  assert.deepEqual(drains.outcomes, ["behind", "behind", "behind"]);
  await drains.guards(...asked);
});

test("64 reviews of all groups wait in one process, and a group without room there is refused at once", async () => {
  const harness = new Harness({ replicas: 20 });
  const groups = ["group", "group-1", "group-2", "group-3", "group-4"];
  for (const group of groups.slice(1)) harness.world.addGroup({ namespace, group, zones: ["a", "b"], replicas: 20 });
  for (const group of groups)
    addBudget(harness, { selector: { matchLabels: { "rollout-group": group } }, maxUnavailable: 1 }, group);
  harness.world.settle();
  const cache = await harness.watch();
  const replica = new Replica(harness, () => ({ cache, settings: {} }));
  // Each ledger is new, and old enough ten seconds later (rule R4).
  await replica.guards(...groups.map((group) => replica.review(`${group}-a-0`)));
  await harness.goOn(60_000);
  await replica.guards(...groups.map((group) => replica.review(`${group}-a-0`)));
  harness.holds.length = 0;
  const answered: string[] = [];
  for (const group of groups) {
    for (let ordinal = 1; ordinal <= 16; ordinal++)
      void replica.review(`${group}-a-${ordinal}`).then((answer) => {
        answered.push(answer.allowed ? answer.guard : answer.message);
      });
  }
  await harness.goOn(50);
  assert.equal(harness.holds.findLast(({ ended }) => ended === undefined)?.parked, mostParked);
  assert.equal(answered.length, 5 * 16 - mostParked);
  for (const message of answered) assert.match(message, /and 64 of all groups wait here already/);
  await harness.goOn(20_000);
  assert.equal(harness.holds.at(-1)?.parked, 0);
});

test("10,000 reviews at once: the first ones wait, as many as may, and all others are answered", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 }, { replicas: 40 });
  const answers: string[] = [];
  const order = Array.from({ length: 10_000 }, (_, index) => `group-a-${index % 40}`);
  for (const pod of order) void drains.replica.review(pod).then(({ guard }) => answers.push(guard));
  await drains.harness.goOn(500);
  assert.equal(Math.max(...drains.harness.holds.map(({ parked }) => parked)), mostParkedOfGroup);
  const blocked = drains.harness.holds.filter(({ ended }) => ended === undefined).length;
  assert.equal(blocked, mostParkedOfGroup, "no review that came later took the place of an earlier one");
  assert.equal(answers.length, 10_000 - mostParkedOfGroup);
  await drains.harness.goOn(9_000);
  assert.equal(answers.length, 10_000);
});

test("the review of a client that has gone leaves the queue, and nothing is reserved for it", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  const leaving = new AbortController();
  const first = drains.evict("group-a-0");
  const gone = drains.replica.review("group-a-1", { signal: leaving.signal });
  const next = drains.evict("group-a-2");
  await drains.harness.goOn(500);
  leaving.abort();
  assert.deepEqual(await drains.guards(first, gone, next), ["allowed", "zone-budget", "allowed"]);
  assert.deepEqual(reserved(drains.harness), ["group-a-2 by evaluate-eviction"]);
  assert.deepEqual(drains.outcomes, ["gone", "allowed"]);
});

test("Sluice withdraws a reservation for a client that disconnects at that moment", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  await drains.guards(drains.evict("group-a-0"));
  const leaving = new AbortController();
  const gone = drains.replica.review("group-a-1", { signal: leaving.signal });
  await drains.harness.goOn(500);
  drains.replica.interfere = (call) => {
    if (isWrite(call)) leaving.abort();
  };
  assert.deepEqual(await drains.guards(gone), ["zone-budget"]);
  drains.replica.interfere = () => {};
  assert.deepEqual(await drains.guards(drains.evict("group-a-2")), ["allowed"]);
  assert.deepEqual(reserved(drains.harness), ["group-a-2 by evaluate-eviction"]);
});

test("an ending process answers all waiting reviews at once with 429, and lets no further one wait", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  const asked = pods(0, 4).map((pod) => drains.evict(pod));
  await drains.harness.goOn(500);
  drains.replica.handler.stop?.();
  const answers = await played(drains.harness.timeline, Promise.all(asked));
  assert.ok((drains.answered.at(-1)?.atMs ?? 0) < 510);
  assert.deepEqual(
    answers.slice(1).map((answer) => !answer.allowed && answer.code),
    [429, 429, 429],
  );
  assert.deepEqual(drains.outcomes, ["stopped", "stopped", "stopped"]);
  assert.deepEqual(await drains.guards(drains.evict("group-a-5")), ["zone-budget"]);
  assert.equal(drains.harness.holds.at(-1)?.parked, 0);
});

test("no review waits in a dry run, in shadow mode, or in a process that only lists", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  await drains.guards(drains.evict("group-a-0"));
  assert.deepEqual(await drains.guards(drains.evict("group-a-1", { dryRun: true })), ["zone-budget"]);
  const { cache } = drains.replica.context;
  const shadow = new Replica(drains.harness, () => ({ cache, mode: "shadow", settings: {} }));
  await shadow.guards(shadow.review("group-a-1"));
  const listing = new Replica(drains.harness, () => ({ settings: {} }));
  assert.deepEqual(await listing.guards(listing.review("group-a-1")), ["zone-budget"]);
  assert.ok((drains.answered.at(-1)?.atMs ?? 1_000) < 100);
  assert.deepEqual(drains.harness.holds, []);
});

test("a pod that cannot go for another kind of reason is refused at once, and delays no pod behind it", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  const first = drains.evict("group-a-0");
  const [waits, other] = [drains.evict("group-a-1"), drains.evict("group-b-0")];
  await drains.harness.goOn(100);
  // The pod is scaled away, so that no budget lets it go. The review behind it is allowed as soon as possible.
  drains.harness.world.store.delete("pods", { namespace, name: "group-a-1" });
  assert.deepEqual(await drains.guards(first, waits), ["allowed", "exempt"]);
  assert.deepEqual(await drains.guards(other), ["allowed"]);
});

test("a replacement of a pod that waited is not allowed instead of it", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  await drains.guards(drains.evict("group-a-0"));
  const waits = drains.replica.review("group-a-1", { path: "/pods/eviction" });
  await drains.harness.goOn(100);
  drains.harness.world.store.delete("pods", { namespace, name: "group-a-1" }, { gracePeriodSeconds: 0 });
  assert.deepEqual(await drains.guards(waits), ["pod-unseen"]);
});

test("a budget that changes meanwhile applies from then on", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  const asked = [drains.evict("group-a-0"), drains.evict("group-a-1"), drains.evict("group-a-2")];
  await drains.harness.goOn(200);
  const budget = { namespace, name: "budget" };
  drains.harness.world.store.patch("zoneawarepoddisruptionbudgets", budget, { spec: { maxUnavailable: 3 } });
  assert.deepEqual(await drains.guards(...asked), ["allowed", "allowed", "allowed"]);
  assert.ok((drains.answered.at(-1)?.atMs ?? 0) < 300);
  const [more, never] = [drains.evict("group-a-3"), drains.evict("group-a-4")];
  await drains.harness.goOn(100);
  drains.harness.world.store.patch("zoneawarepoddisruptionbudgets", budget, { spec: { maxUnavailable: 0 } });
  assert.deepEqual(await drains.guards(more, never), ["never-possible", "never-possible"]);
});

test("a second review of a pod that waits already goes with the first, by one reservation", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  const first = drains.evict("group-a-0");
  const [one, again] = [drains.replica.review("group-a-1"), drains.replica.review("group-a-1")];
  assert.deepEqual(await drains.guards(first, one, again), ["allowed", "allowed", "allowed"]);
  assert.deepEqual(reserved(drains.harness), ["group-a-1 by evaluate-eviction"]);
});

test("a review waits for what ends by time alone if the time is enough, and is refused at once otherwise", async () => {
  const harness = new Harness({ replicas: 4 });
  addBudget(harness);
  const cache = await harness.watch();
  const replica = new Replica(harness, () => ({ cache, settings: {} }));
  const startMs = harness.timeline.nowMs();
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["ledger-new"]);
  assert.ok(harness.timeline.nowMs() - startMs < 100, "ten seconds are more than it may wait");
  await harness.goOn(5_000);
  assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
  const afterMs = harness.timeline.nowMs() - startMs;
  assert.ok(afterMs >= 10_000 && afterMs < 10_200, `${afterMs} ms`);
});

test("reviews wait for a ledger that others write all the time, and read it less often than it changes", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  const contended = () => drains.harness.writeLedger({ noise: String(Math.random()) });
  drains.replica.interfere = (call) => (isWrite(call) ? contended() : undefined);
  const waits = drains.evict("group-a-0");
  await drains.harness.goOn(2_900);
  const tries = drains.replica.count("patch leases");
  assert.ok(tries >= 10 && tries <= 20, `${tries} writes in three seconds`);
  drains.replica.interfere = () => {};
  assert.deepEqual(await drains.guards(waits), ["allowed"]);
});

test("one failure of the API server does not refuse all waiting reviews", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  const first = drains.evict("group-a-0");
  const waits = drains.evict("group-a-1");
  await drains.harness.goOn(500);
  let failures = 0;
  drains.replica.interfere = (call) => {
    if (isWrite(call) && failures++ === 0) throw refused(503);
  };
  assert.deepEqual(await drains.guards(first, waits), ["allowed", "allowed"]);
  assert.equal(failures, 2);
});

test("Sluice reads nothing for a queue without a waiting review, and a waiting review costs few requests", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 });
  // The pod may go, but does not.
  await drains.guards(drains.replica.review("group-a-0"));
  drains.harness.forget();
  const waits = drains.evict("group-a-1");
  assert.deepEqual(await drains.guards(waits), ["zone-budget"]);
  const gets = drains.harness.count("get statefulsets");
  assert.ok(gets <= 8, `${gets} GETs in 7.5 s`);
  assert.equal(drains.harness.count("list pods"), 0);
  drains.harness.forget();
  await drains.harness.goOn(10_000);
  assert.deepEqual(drains.harness.requests, []);
});

test("a review that would wait too long, at the rate of those before it, is refused early, and the queue goes on", async () => {
  const drains = await Drains.of({ maxUnavailable: 1 }, { replicas: 24 });
  const asked = pods(0, 17).map((pod) => drains.evict(pod));
  await drains.harness.goOn(2 * awayMs);
  assert.equal(drains.answered.length, 2, "nothing is known of the rate yet");
  await drains.harness.goOn(700);
  const refused = drains.answered.filter(({ guard }) => guard !== "allowed");
  // Of 7.5 s some have passed, and a pod goes each 1.5 s: three of the waiting reviews may have a chance.
  assert.deepEqual(
    refused.map(({ pod }) => pod),
    pods(6, 17),
  );
  for (const { message } of refused) assert.match(message, /its turn comes in about \d+ s, and it may wait for 4 s/);
  assert.deepEqual(await drains.guards(...asked.slice(0, 5)), Array(5).fill("allowed"));
  assert.deepEqual(new Set(drains.outcomes), new Set(["behind", "allowed"]));
});

/** Zones that join a group: from another group, whose ledger may have reserved their pods, or created a moment ago. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupView } from "../../../../functions/shared/cache/cache.ts";
import type { Ledger } from "../../../../functions/shared/ledger/reservation.ts";
import { findJoining } from "../../../../functions/shared/transaction/joining.ts";
import { refuseJoining } from "../../../../functions/shared/transaction/ledger-age.ts";
import { nowMs, statefulSet } from "../../functions/advance-zone-rollout/given.ts";
import { addBudget, governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, key, namespace, played } from "../reconcile/harness.ts";

/** Two healthy groups of two zones, under a budget each. Both ledgers are old. */
async function twoGroups(): Promise<Harness> {
  const harness = new Harness({ replicas: 2 });
  harness.world.addGroup({ namespace, group: "other", zones: ["x", "y"], replicas: 2 });
  harness.world.settle();
  addBudget(harness);
  addBudget(harness, { selector: { matchLabels: { "rollout-group": "other" } }, maxUnavailable: 1 }, "others");
  const first = new Replica(harness);
  await first.guards(first.review("group-a-0"), first.review("other-x-0"));
  await harness.goOn(60_000);
  return harness;
}

function move(harness: Harness, name: string, group: string): void {
  const labels = { "rollout-group": group };
  harness.world.store.patch("statefulsets", { namespace, name }, { metadata: { labels } });
}

test("zone-joined: no pod goes for ten seconds after a zone has joined whose pod another group's ledger has reserved", async () => {
  for (const watches of [false, true]) {
    const harness = await twoGroups();
    const cache = watches ? await harness.watch() : undefined;
    // A review that must wait is refused at once, so that the test sees the reason.
    const settings = { evictionWaitMs: 0 };
    const replica = new Replica(harness, () => ({ settings, ...(cache === undefined ? {} : { cache }) }));
    assert.deepEqual(await replica.guards(replica.review("group-a-0")), ["allowed"]);
    harness.world.store.delete("pods", { namespace, name: "group-a-0" }, {});
    harness.world.settle();
    assert.deepEqual(await replica.guards(replica.review("other-x-0")), ["allowed"]);
    move(harness, "other-x", "group");
    await harness.goOn(20);
    assert.deepEqual(await replica.guards(replica.review("group-b-0")), ["zone-joined"]);
    await harness.goOn(9_900);
    assert.deepEqual(await replica.guards(replica.review("group-b-0")), ["zone-joined"]);
    // The latest time at which an eviction from the other group's ledger may arrive.
    harness.world.store.delete("pods", { namespace, name: "other-x-0" }, { gracePeriodSeconds: 0 });
    await harness.goOn(200);
    assert.deepEqual(await replica.guards(replica.review("group-b-0")), ["zones-down"]);
    harness.world.settle();
    assert.deepEqual(await replica.guards(replica.review("group-b-0")), ["allowed"]);
    assert.deepEqual(harness.ledger.members, ["group-a", "group-b", "other-x"]);
    if (cache !== undefined) await played(harness.timeline, cache.stop());
  }
});

test("a rollout waits for a zone that has joined from another group, and lists it again afterwards", async () => {
  const harness = await new Harness({ replicas: 2, maxUnavailable: 1 }).prepare();
  harness.world.addGroup({ namespace, group: "other", zones: ["x"], replicas: 2 });
  await harness.run();
  assert.deepEqual(harness.ledger.members, ["group-a", "group-b"]);
  harness.world.settle();
  await harness.run();
  await harness.goOn(40_000);
  move(harness, "other-x", "group");
  const cache = await harness.watch();
  harness.forget();
  await harness.run();
  assert.equal(harness.guard, "zone-joined");
  assert.match(harness.verdicts.at(-1)?.message ?? "", /^other-x has joined the group, .+ may still be acting$/);
  assert.deepEqual([harness.acts, harness.ledger.members], [[], ["group-a", "group-b"]]);
  await harness.goOn(10_000);
  harness.forget();
  await harness.run();
  assert.equal(harness.guard, "rolling");
  assert.equal(harness.count("list pods"), 3, "a consistent LIST of each zone");
  assert.deepEqual(harness.ledger.members, ["group-a", "group-b", "other-x"]);
  await harness.goOn(5_000);
  harness.forget();
  await harness.run();
  assert.deepEqual([harness.guard, harness.count("list pods")], ["rolling", 0]);
  await played(harness.timeline, cache.stop());
});

test("no eviction waits for a zone that was just created, and the zone is listed once", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  assert.deepEqual(harness.ledger.members, ["group-a", "group-b"]);
  harness.world.addGroup({ namespace, group: "group", zones: ["c"], replicas: 1 });
  harness.world.settle();
  assert.deepEqual(await replica.guards(replica.review("group-c-0")), ["allowed"]);
  assert.deepEqual(reserved(harness), ["group-c-0 by evaluate-eviction"]);
  assert.deepEqual(harness.ledger.members, ["group-a", "group-b", "group-c"]);
  assert.equal(harness.ledger.key.group, key.group);
});

const cluster = { monotonicMs: () => 50_000, serverTimeMs: () => nowMs };
const view = (...names: string[]): Pick<GroupView, "workloads" | "consistentAt"> => ({
  workloads: names.map((name) => statefulSet(name)),
  consistentAt: { pods: 1, statefulSets: 1 },
});
const find = (members: readonly string[] | undefined, seen: object, since = new Map<string, number>()) =>
  findJoining(cluster, since, { key, members } as unknown as Ledger, seen as GroupView);

test("a ledger that does not name its zones counts all of them, and a zone that has left no longer counts", () => {
  assert.deepEqual(find(undefined, view("b", "a")).members, ["a", "b"]);
  assert.equal(refuseJoining(find(undefined, view("a"))), undefined);
  assert.deepEqual(find(["a", "b", "gone"], view("b", "a")).members, ["a", "b"]);
  assert.equal(find(["a"], view("a")).needsList, false);
});

test("a zone that has joined counts after ten seconds and from a consistent LIST, and not before", () => {
  const since = new Map([
    ["b uid-of-b", 40_000],
    ["c uid-of-c", 40_001],
    ["d uid-of-a-former-d", 1],
    ["e uid-of-e", 1],
  ]);
  const joining = find(["a"], view("a", "b", "c", "d"), since);
  assert.deepEqual(
    [...joining.awaited],
    [
      ["c", 1],
      ["d", 10_000],
    ],
  );
  assert.deepEqual([joining.members, joining.needsList], [["a", "b"], false]);
  assert.deepEqual(
    [...since.keys()],
    ["b uid-of-b", "c uid-of-c", "d uid-of-d"],
    "a zone that is no longer new is forgotten",
  );
  assert.equal(refuseJoining(joining)?.requeueAfterMs, 1);
  const unlisted = find(["a"], { ...view("a", "b"), consistentAt: undefined }, since);
  assert.deepEqual([unlisted.needsList, unlisted.members], [true, ["a"]]);
});

test("a zone that a process has seen in another group does not count as just created, whatever the API servers' clocks say", () => {
  let passedMs = 0;
  const cluster = { monotonicMs: () => passedMs, serverTimeMs: () => nowMs };
  const made = { workloads: [statefulSet("b", { createdMs: nowMs - 1_000 })] } as unknown as GroupView;
  const since = new Map<string, number>();
  const ledgerOf = (group: string, members: readonly string[]) => [
    ...findJoining(cluster, since, { key: { namespace, group }, members }, made).awaited.values(),
  ];
  assert.deepEqual(ledgerOf("first", []), [], "every process sees it for the first time");
  assert.deepEqual(ledgerOf("first", ["b"]), []);
  assert.deepEqual(ledgerOf("second", []), [10_000]);
  passedMs = 9_999;
  assert.deepEqual(ledgerOf("second", []), [1]);
  passedMs = 10_000;
  assert.deepEqual(ledgerOf("second", []), []);
  assert.deepEqual(ledgerOf("second", ["b"]), []);
});

test("a process remembers a zone in the group that has counted it last, however that group came to count it", () => {
  for (const members of [undefined, ["b"], []]) {
    const cluster = { monotonicMs: () => 0, serverTimeMs: () => nowMs };
    const made = { workloads: [statefulSet("b", { createdMs: nowMs - 1_000 })] } as unknown as GroupView;
    const awaitedIn = (group: string, counted: readonly string[] | undefined) => {
      const ledger = { key: { namespace, group }, members: counted } as Ledger;
      return [...findJoining(cluster, new Map(), ledger, made).awaited.values()];
    };
    assert.deepEqual(awaitedIn("first", members), []);
    assert.deepEqual(awaitedIn("second", []), [10_000], `the first group names ${members}`);
    assert.deepEqual(awaitedIn("first", []), [], "it is known to be of the first group still");
  }
});

test("a process remembers the groups of ten thousand zones, and beyond that it forgets the first", () => {
  const cluster = { monotonicMs: () => 0, serverTimeMs: () => nowMs };
  const made = (names: readonly string[]) => ({
    workloads: names.map((name) => statefulSet(name, { createdMs: nowMs - 1_000 })),
  });
  const seeIn = (group: string, members: readonly string[] | undefined, names: readonly string[]) => {
    const ledger = { key: { namespace, group }, members } as Ledger;
    return findJoining(cluster, new Map(), ledger, made(names) as unknown as GroupView).awaited.size;
  };
  const names = Array.from({ length: 10_000 }, (_, index) => `zone-${index}`);
  seeIn("first", undefined, names);
  assert.equal(seeIn("second", [], ["zone-0"]), 1);
  seeIn("first", undefined, ["one-more"]);
  assert.equal(seeIn("second", [], ["zone-0"]), 0);
  assert.equal(seeIn("second", [], ["zone-9999"]), 1);
});

test("a zone that has left and joins once more is waited for as long as at first", () => {
  const since = new Map<string, number>();
  assert.deepEqual([...find(["a"], view("a", "b"), since).awaited.values()], [10_000]);
  assert.equal(since.size, 1);
  assert.deepEqual([...find(["a"], view("a"), since).awaited.values()], []);
  assert.equal(since.size, 0);
});

test("a zone counts as just created for 30 s, and not with a time in the far future or without one", () => {
  for (const [createdMs, awaited] of [
    [nowMs - 29_999, 0],
    [nowMs - 30_000, 1],
    [nowMs + 29_999, 0],
    [nowMs + 30_000, 1],
    [Number.NaN, 1],
  ] as const) {
    const made = { workloads: [statefulSet("b", { createdMs })], consistentAt: { pods: 1, statefulSets: 1 } };
    assert.equal(find([], made).awaited.size, awaited, `${createdMs}`);
  }
});

/** What a reconcile reads, asks, writes and reports for its verdict, and which of it a verdict that permits nothing is spared. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { actOn, eventPolicy } from "../../../../functions/advance-zone-rollout/act.ts";
import type { RolloutTarget } from "../../../../functions/advance-zone-rollout/decide-pods.ts";
import type { ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import { take, type Verdict, wait } from "../../../../functions/shared/contract/verdict.ts";
import { type GroupReconciler, reconcileGroup } from "../../../../functions/shared/reconcile/perform.ts";
import type { GroupObservation } from "../../../../functions/shared/transaction/observe-group.ts";
import { asStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { Harness, key, played } from "./harness.ts";

type Rollout = GroupReconciler<GroupObservation, RolloutTarget>;
type Action = RolloutTarget["action"];

/** Takes the first pod of the first zone, or writes the revision of its StatefulSet. */
function taking(...actions: readonly Action[]): Rollout["decide"] {
  return ({ zones: [zone] }): Verdict<RolloutTarget> => {
    const [pod] = zone?.pods ?? [];
    if (zone === undefined || pod === undefined) return assert.fail("no pod");
    const statefulSet = asStatefulSet(zone.workload);
    const targets = actions.map((action): RolloutTarget => {
      if (action === "record-revision") return { action, statefulSet };
      return action === "delete" ? { action, statefulSet, pod } : { action, statefulSet, pod, cause: "broken" };
    });
    return take(targets, "it goes");
  };
}

const waiting = () => wait("budget", "a pod is down");

async function reconcile(harness: Harness, changes: Partial<Rollout>, sweep = false) {
  const plain = { name: "advance-zone-rollout", eventPolicy, actOn, observe: (observed: GroupObservation) => observed };
  const reconciler: Rollout = { ...plain, decide: waiting, ...changes };
  const outcome = await played(harness.timeline, reconcileGroup(harness.context, reconciler, key, { sweep }));
  if (outcome.pendingActs !== undefined) await played(harness.timeline, outcome.pendingActs);
  return outcome;
}

test("pods are asked only for a verdict that takes something, and that the ledger lets take it (R22)", async () => {
  const asks = async (harness: Harness, decide: Rollout["decide"]) => {
    let asked = 0;
    const ask: NonNullable<Rollout["ask"]> = () => {
      asked++;
      return undefined;
    };
    await reconcile(harness, { decide, ask });
    return asked;
  };
  assert.equal(await asks(await new Harness().prepare(), taking("delete")), 1);
  assert.equal(await asks(await new Harness().prepare(), taking()), 0, "nothing is left to take");
  assert.equal(await asks(await new Harness().prepare(), waiting), 0);
  assert.equal(await asks(new Harness(), taking("delete")), 0, "the ledger is new");
});

/** Notes what is asked of the cache, whose views are those of watches: StatefulSets are read for a permit alone. */
function noting(harness: Harness): ViewNeed[] {
  const needs: ViewNeed[] = [];
  const { cache } = harness.context;
  harness.use({
    ...cache,
    read: async (group, need) => {
      needs.push(need);
      return { ...(await cache.read(group, need)), statefulSetsReadMs: undefined };
    },
  });
  return needs;
}

test("StatefulSets are read once more for a verdict that takes something, and for no other (R5)", async () => {
  for (const [decide, reads] of [
    [taking("delete"), 2],
    [taking(), 1],
    [waiting, 1],
  ] as const) {
    const harness = await new Harness().prepare();
    const needs = noting(harness);
    await reconcile(harness, { decide });
    assert.equal(needs.length, reads);
  }
});

test("what a function wants to see listed is listed consistently, and a sweep has done that already", async () => {
  const harness = await new Harness().prepare();
  const needs = noting(harness);
  const listed: number[] = [];
  const observe: Rollout["observe"] = (observed) => {
    listed.push(needs.length);
    return observed;
  };
  await reconcile(harness, { needsList: () => true, observe });
  assert.deepEqual(
    [needs.map(({ consistent }) => consistent), listed],
    [[false, true], [2]],
    "it decides by the list alone",
  );
  needs.length = 0;
  await reconcile(harness, { needsList: () => true }, true);
  await reconcile(harness, { needsList: () => false });
  assert.deepEqual(
    needs.map(({ consistent }) => consistent),
    [true, false],
  );
});

test("notes that are due are written with an act that reserves nothing, and never into a new ledger (R4)", async () => {
  const notesOn = () => ({ change: {}, isDue: true });
  const notes = { decide: taking("record-revision"), notesOn };
  const old = await new Harness().prepare();
  await reconcile(old, notes);
  assert.deepEqual([old.count("patch leases"), old.count("patch statefulsets")], [1, 1]);
  const free = await new Harness().prepare();
  await reconcile(free, { decide: taking("record-revision") });
  assert.deepEqual([free.count("patch leases"), free.count("patch statefulsets")], [0, 1]);
  const fresh = new Harness();
  const takesNothing: Rollout["actOn"] = (target) => ({ ...actOn(target), takesNothing: true });
  await reconcile(fresh, { ...notes, actOn: takesNothing });
  assert.deepEqual([fresh.count("patch leases"), fresh.count("patch statefulsets")], [0, 1]);
});

test("ledger-full: an act that reserves nothing is carried out beside one for which the ledger has no room (R2)", async () => {
  const harness = new Harness({ zones: ["a"], replicas: 2 }, (shipped) => ({ ...shipped, isSettled: () => false }));
  await harness.prepare();
  const stamp = harness.cluster.serverTimeMs();
  const full = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [100 + at, [`uid-${at}`, "other", stamp]]));
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-a": full }) });
  harness.restart();
  await harness.goOn(45_000);
  await reconcile(harness, { decide: taking("delete") });
  assert.equal(harness.guard, "ledger-full");
  await reconcile(harness, { decide: taking("delete", "record-revision") });
  assert.deepEqual(
    harness.acts.map(({ action }) => action),
    ["record-revision"],
  );
});

test("shadow mode reports what it would take, and nothing of that where it waits or is done (R16)", async () => {
  const reported = async (decide: Rollout["decide"]) => {
    const harness = await new Harness().prepare();
    harness.restart({ mode: "shadow" });
    await harness.goOn(45_000);
    await reconcile(harness, { decide });
    const [report] = harness.verdicts;
    return report !== undefined && "wouldTake" in report ? report.wouldTake : "nothing";
  };
  assert.deepEqual(await reported(taking("delete")), [{ action: "delete", object: "group-a-0" }]);
  assert.equal(await reported(taking()), "nothing");
  assert.equal(await reported(waiting), "nothing");
  const taken = await new Harness().prepare();
  await reconcile(taken, { decide: taking("delete") });
  assert.ok(taken.verdicts[0] !== undefined && !("wouldTake" in taken.verdicts[0]), "it takes it");
});

test("a reconcile has failed only for a guard that a user has to mend", async () => {
  const failure = async (guard: string) =>
    (await reconcile(await new Harness().prepare(), { decide: () => wait(guard, "no") })).failure;
  assert.deepEqual([await failure("budget"), await failure("invalid-budget")], [undefined, "no"]);
});

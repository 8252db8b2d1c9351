/**
 * One read of a group: what is read again before it counts, what is old enough to be dropped, and which refusals
 * still count.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupView, ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  dropAfterMs,
  knownForMs,
  type Refusal,
  type Reservation,
  type StoredLedger,
} from "../../../../functions/shared/ledger/reservation.ts";
import {
  type GroupObservation,
  observeGroup,
  retryRefusedAfterMs,
} from "../../../../functions/shared/transaction/observe-group.ts";
import { Harness, key, namespace, played } from "../reconcile/harness.ts";

const by = "evaluate-eviction";
type Need = Parameters<typeof observeGroup>[2];

/** A group with an old ledger, and what a process makes of invented ledgers. */
class Transactions {
  readonly harness: Harness;
  /** Differences of the API server's clock and the process's own from those of the fake cluster. */
  serverMs = 0;
  ownMs = 1_000_000;
  /** The pods that were read by GET. */
  readonly asked: Reservation[] = [];
  readonly context: Context;

  constructor(harness: Harness, changes: Partial<Context> = {}) {
    this.harness = harness;
    this.serverMs = harness.cluster.serverTimeMs();
    const cluster: Cluster = { ...harness.cluster, serverTimeMs: () => this.serverMs, monotonicMs: () => this.ownMs };
    const { protocol } = harness.context;
    harness.restart({
      cluster,
      protocol: {
        ...protocol,
        findAbandoned: (through, within, open) => {
          this.asked.push(...open);
          return protocol.findAbandoned(through, within, open);
        },
      },
      ...changes,
    });
    this.context = harness.context;
  }

  observe(changes: Partial<StoredLedger>, need: Partial<Need> = {}): Promise<GroupObservation> {
    const ledger = { ...this.harness.ledger, ...changes };
    const asked = { permitSinceMs: undefined, consistent: false, ...need };
    return played(this.harness.timeline, observeGroup(this.context, ledger, asked));
  }

  /** A reservation of an existing pod, of which only this much time has passed by the API server's clock. */
  reserve(pod: string, ageMs: number, changes: Partial<Reservation> = {}): Reservation {
    const { uid } = this.harness.world.store.get("pods", { namespace, name: pod }).metadata;
    const [statefulSet = "", ordinal = ""] = pod.split(/-(?=\d+$)/);
    return { statefulSet, ordinal: Number(ordinal), uid, by, stampMs: this.serverMs - ageMs, ...changes };
  }

  reconcile(ms: number): void {
    this.serverMs += ms;
    this.ownMs += ms;
  }
}

/** Views in which everything but consistent LISTs is from before some change. */
function lateViews(harness: Harness, before: (view: GroupView) => GroupView, needs: ViewNeed[] = []): Partial<Context> {
  const { cache } = harness.context;
  return {
    cache: {
      ...cache,
      read: async (group, need) => {
        needs.push(need);
        const view = await cache.read(group, need);
        return need.consistent ? view : before({ ...view, consistentAt: undefined });
      },
    },
  };
}

const without = (name: string) => (view: GroupView) => ({
  ...view,
  workloads: view.workloads.filter((one) => one.name !== name),
});

const names = (list: readonly { readonly statefulSet: string; readonly ordinal: number }[]) =>
  list.map(({ statefulSet, ordinal }) => `${statefulSet}-${ordinal}`);

async function threeZones(): Promise<Harness> {
  return new Harness({ zones: ["a", "b", "c"], replicas: 2 }).prepare();
}

/** A pod that is gone, and that the StatefulSet controller does not create again. */
function lose(harness: Harness, pod: string): void {
  harness.world.statefulSetController.stop();
  harness.world.store.delete("pods", { namespace, name: pod }, { gracePeriodSeconds: 0 });
}

/** A StatefulSet that belongs to another group from now on. */
function moveAway(harness: Harness, name: string): void {
  const labels = { "rollout-group": "other" };
  harness.world.store.patch("statefulsets", { namespace, name }, { metadata: { labels } });
}

test("a reservation of a member that the view does not know makes the process list the group again, and then both count (S1)", async () => {
  const harness = await threeZones();
  const transactions = new Transactions(harness, lateViews(harness, without("group-c")));
  const reserved = transactions.reserve("group-c-1", 1_000);
  lose(harness, "group-c-1");
  const { open, departed, zones } = await transactions.observe({ reservations: [reserved] });
  assert.deepEqual([names(open), names(departed)], [["group-c-1"], []]);
  assert.deepEqual(
    zones.map(({ workload, down }) => `${workload.name} ${[...down.values()].join()}`),
    ["group-a ", "group-b ", "group-c missing"],
  );
});

test("a reserved pod whose zone leaves the group between two lists is read in its new group, where it counts", async () => {
  for (const isSeen of [false, true]) {
    const harness = await threeZones();
    const needs: ViewNeed[] = [];
    const before = await played(harness.timeline, harness.context.cache.read(key, { ...none, consistent: true }));
    const late = isSeen ? before : without("group-c")(before);
    const transactions = new Transactions(
      harness,
      lateViews(harness, () => ({ ...late, consistentAt: undefined }), needs),
    );
    const moved = transactions.reserve("group-b-1", 1_000);
    const kept = transactions.reserve("group-c-1", 1_000);
    lose(harness, "group-b-1");
    moveAway(harness, "group-b");
    // Pods are listed again for a member that the view does not know, or that the ledger has not counted yet.
    const members = isSeen ? ["group-a", "group-b"] : ["group-a", "group-b", "group-c"];
    const observed = await transactions.observe({ reservations: [moved, kept], members }, { permitSinceMs: 0 });
    assert.deepEqual(
      needs.map(({ consistent }) => consistent),
      [false, true],
    );
    assert.deepEqual(names(observed.open), ["group-c-1"]);
  }
});

test("the zones come by name, in whatever order the view has them", async () => {
  const harness = await threeZones();
  const order = ["group-b", "group-c", "group-a"];
  const shuffled = (view: GroupView) => ({
    ...view,
    workloads: [...view.workloads].sort((one, other) => order.indexOf(one.name) - order.indexOf(other.name)),
  });
  const { zones, view } = await new Transactions(harness, lateViews(harness, shuffled)).observe({});
  assert.deepEqual(
    view.workloads.map(({ name }) => name),
    order,
  );
  assert.deepEqual(
    zones.map(({ workload }) => workload.name),
    ["group-a", "group-b", "group-c"],
  );
});

test("a zone that is gone with all its pods is worth a write, which forgets it", async () => {
  const transactions = new Transactions(await threeZones());
  const members = ["group-a", "group-b", "group-c"];
  assert.equal((await transactions.observe({ members })).isMended, false);
  const { isMended, joining } = await transactions.observe({ members: [...members, "group-gone"] });
  assert.deepEqual([isMended, joining.members], [true, members]);
});

const none = { settledThrough: undefined, permitSinceMs: undefined };

test("after a zone has joined, the group is listed again before a permit, and not for a wait", async () => {
  for (const permitSinceMs of [undefined, 0]) {
    const harness = await threeZones();
    const needs: ViewNeed[] = [];
    const transactions = new Transactions(
      harness,
      lateViews(harness, (view) => view, needs),
    );
    const { joining } = await transactions.observe({ members: ["group-a", "group-b"] }, { permitSinceMs });
    assert.equal(joining.needsList, permitSinceMs === undefined);
    assert.equal(needs.length, permitSinceMs === undefined ? 1 : 2);
  }
});

test("only a reservation that is 150 s old, with its pod in the view, costs a GET (R10)", async () => {
  const harness = await threeZones();
  const transactions = new Transactions(harness);
  const overdueSeenMs = transactions.serverMs - dropAfterMs;
  const old = transactions.reserve("group-a-0", dropAfterMs, { overdueSeenMs });
  const recent = transactions.reserve("group-a-1", dropAfterMs - 1, { overdueSeenMs });
  const another = transactions.reserve("group-b-0", dropAfterMs, { overdueSeenMs, uid: "of-the-pod-before" });
  const gone = transactions.reserve("group-b-1", dropAfterMs, { overdueSeenMs });
  const leaving = transactions.reserve("group-c-0", dropAfterMs, { overdueSeenMs });
  lose(harness, "group-b-1");
  harness.world.store.delete("pods", { namespace, name: "group-b-0" }, { gracePeriodSeconds: 30 });
  harness.world.store.delete("pods", { namespace, name: "group-c-0" }, { gracePeriodSeconds: 30 });
  const { open, abandoned } = await transactions.observe({ reservations: [old, recent, another, gone, leaving] });
  assert.deepEqual(names(transactions.asked), ["group-a-0"]);
  assert.equal(abandoned, 1);
  assert.deepEqual(names(open), ["group-a-1", "group-b-0", "group-b-1", "group-c-0"]);
});

/** A long-lived process, as its views show. */
async function lasting(): Promise<Transactions> {
  const harness = await threeZones();
  return new Transactions(harness, { cache: { ...harness.context.cache, isLasting: true } });
}

test("a long-lived process drops a reservation after two minutes by its own clock, to the millisecond (R10)", async () => {
  const transactions = await lasting();
  const old = transactions.reserve("group-a-0", 10 * dropAfterMs);
  assert.equal((await transactions.observe({ reservations: [old] })).abandoned, 0);
  transactions.reconcile(knownForMs - 1);
  assert.equal((await transactions.observe({ reservations: [old] })).abandoned, 0);
  transactions.reconcile(1);
  assert.equal((await transactions.observe({ reservations: [old] })).abandoned, 1);
});

test("a reservation that was removed and made again has been known only since then (R10)", async () => {
  const transactions = await lasting();
  const old = transactions.reserve("group-a-0", dropAfterMs);
  await transactions.observe({ reservations: [old] });
  transactions.reconcile(knownForMs - 1);
  await transactions.observe({ reservations: [] });
  transactions.reconcile(1);
  assert.equal((await transactions.observe({ reservations: [old] })).abandoned, 0);
  transactions.reconcile(knownForMs);
  assert.equal((await transactions.observe({ reservations: [old] })).abandoned, 1);
});

/** The ledger's reservations after the next write of this reconcile. */
const written = ({ open }: GroupObservation): Partial<StoredLedger> => ({ reservations: open });

test("a short-lived process does not drop a reservation by its stamp alone, because a clock may have been set (R10)", async () => {
  const harness = await threeZones();
  const transactions = new Transactions(harness);
  const reserved = transactions.reserve("group-a-0", 10_000);
  transactions.serverMs += 3_600_000;
  const first = await transactions.observe({ reservations: [reserved] });
  assert.deepEqual([first.abandoned, first.isMended, transactions.asked.length], [0, true, 0]);
  assert.deepEqual(first.open, [{ ...reserved, overdueSeenMs: transactions.serverMs }], "the ledger records it");
  assert.equal(first.reserved.get(first.open[0] as Reservation)?.pod?.uid, reserved.uid);
  transactions.reconcile(knownForMs - 1);
  const later = await transactions.observe(written(first));
  assert.deepEqual([later.abandoned, later.isMended, later.open], [0, false, first.open], "it records it once");
  transactions.reconcile(1);
  assert.equal(
    (await transactions.observe(written(first))).abandoned,
    1,
    "it has known it for two minutes by its own clock",
  );
});

test("a short-lived process that has known a reservation for two minutes records nothing of it, if its pod goes meanwhile (R10)", async () => {
  const harness = await threeZones();
  const transactions = new Transactions(harness);
  const old = transactions.reserve("group-a-0", dropAfterMs - 1);
  await transactions.observe({ reservations: [old] });
  transactions.reconcile(knownForMs);
  harness.interfere = ({ verb, resource }) => {
    if (verb !== "get" || resource !== "pods") return;
    harness.world.store.delete("pods", { namespace, name: "group-a-0" }, { gracePeriodSeconds: 30 });
  };
  const { abandoned, open, isMended } = await transactions.observe({ reservations: [old] });
  assert.deepEqual(names(transactions.asked), ["group-a-0"]);
  assert.deepEqual([abandoned, open, isMended], [0, [old], false]);
});

test("the next short-lived process drops a reservation 150 s after the record of being overdue; a long-lived one does not (R10)", async () => {
  for (const isLasting of [false, true]) {
    const harness = await threeZones();
    const fresh = () => new Transactions(harness, { cache: { ...harness.context.cache, isLasting } });
    const transactions = fresh();
    const overdue = transactions.reserve("group-a-0", 2 * dropAfterMs, {
      overdueSeenMs: transactions.serverMs - dropAfterMs + 1,
    });
    assert.equal((await transactions.observe({ reservations: [overdue] })).abandoned, 0);
    const next = fresh();
    next.reconcile(1);
    assert.equal((await next.observe({ reservations: [overdue] })).abandoned, isLasting ? 0 : 1);
  }
});

test("a long-lived process records no overdue reservation, because it has a clock of its own (R10)", async () => {
  const transactions = await lasting();
  const old = transactions.reserve("group-a-0", 10 * dropAfterMs);
  const { open, isMended } = await transactions.observe({ reservations: [old] });
  assert.deepEqual([open, isMended], [[old], false]);
});

test("only a reservation that was renewed until it lapsed is remembered as given up", async () => {
  const transactions = new Transactions(await threeZones());
  const overdueSeenMs = transactions.serverMs - dropAfterMs;
  const dropped = transactions.reserve("group-a-0", dropAfterMs, { overdueSeenMs });
  const lapsed = transactions.reserve("group-a-1", dropAfterMs, { overdueSeenMs, sinceMs: overdueSeenMs - 60_000 });
  const { abandoned, givenUp } = await transactions.observe({ reservations: [dropped, lapsed] });
  assert.equal(abandoned, 2);
  assert.deepEqual([...givenUp.keys()], [lapsed.uid]);
});

test("a refusal counts for ten minutes, and not a millisecond longer", async () => {
  const transactions = new Transactions(await threeZones());
  const refusal: Refusal = { uid: "u", pod: "group-a-0", message: "no", stampMs: transactions.serverMs };
  const refusals = [refusal, { ...refusal, by }];
  transactions.reconcile(retryRefusedAfterMs - 1);
  const before = await transactions.observe({ refusals });
  assert.deepEqual([before.refusals.size, before.givenUp.size], [1, 1]);
  transactions.reconcile(1);
  const after = await transactions.observe({ refusals });
  assert.deepEqual([after.refusals.size, after.givenUp.size], [0, 0]);
});

test("if two processes have refusals of the same pod, the newer one counts, and of two at one moment the ledger's", async () => {
  for (const [ownMs, expected] of [
    [-1, "the ledger's"],
    [0, "the ledger's"],
    [1, "our own"],
  ] as const) {
    const transactions = new Transactions(await threeZones());
    const stampMs = transactions.serverMs - 1_000;
    const written: Refusal = { uid: "u", pod: "group-a-0", message: "the ledger's", stampMs };
    const own = { ...written, message: "our own", stampMs: stampMs + ownMs };
    transactions.context.memoryOf(key).refusals.set("u", own);
    const { refusals } = await transactions.observe({ refusals: [written] });
    assert.equal(refusals.get("u")?.message, expected);
  }
});

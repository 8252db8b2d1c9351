/** Acts and messages of any function, and how `reconcileGroup` carries them out. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { take, type Verdict, wait } from "../../../../functions/shared/contract/verdict.ts";
import { LedgerUnreadable } from "../../../../functions/shared/ledger/errors.ts";
import { type Act, deletionOf } from "../../../../functions/shared/reconcile/act.ts";
import { type GroupReconciler, reconcileGroup } from "../../../../functions/shared/reconcile/perform.ts";
import type { EventPolicy } from "../../../../functions/shared/reconcile/record.ts";
import { Conflict } from "../../../../functions/shared/transaction/ledger-copy.ts";
import type { GroupObservation } from "../../../../functions/shared/transaction/observe-group.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import { asStatefulSet, type ZoneWorkload } from "../../../../functions/shared/workloads/statefulsets.ts";
import { claimOf } from "../../functions/advance-zone-rollout/given.ts";
import { Harness, key, played, refused } from "./harness.ts";

const name = "suspend-pods";
const eventPolicy: EventPolicy = {
  taking: "suspending",
  reasons: { begins: "SuspensionStarted", waits: "SuspensionWaiting", ends: "SuspensionCompleted" },
  quietGuards: new Set(["volume-busy"]),
};

interface Zone {
  readonly workload: ZoneWorkload;
  readonly pods: readonly Pod[];
}

/** A reconciler with these acts for every decision. */
function reconcilerOf(
  decide: (observed: GroupObservation) => Verdict<Zone>,
  actOn: (zone: Zone) => Act,
): GroupReconciler<GroupObservation, Zone> {
  return { name, eventPolicy, observe: (observed) => observed, decide, actOn };
}

const zoneOf = ({ zones: [zone] }: GroupObservation): Zone => zone ?? assert.fail("no zone");
const takeFirst = (observed: GroupObservation) => take([zoneOf(observed)], "the first zone goes", { zone: "group-a" });

/** The function labels both pods of a zone, and reserves them together or not at all. */
function labelling(carried: string[], carryOut: Act["carryOut"] = async () => undefined) {
  return ({ workload, pods }: Zone): Act => ({
    name: "label",
    object: workload.name,
    subjectUid: workload.uid,
    workload,
    claims: pods.map(({ ordinal, uid }) => ({ statefulSet: workload.name, ordinal, uid })),
    async carryOut(context, deadlineMs) {
      const leftMs = deadlineMs - context.cluster.monotonicMs();
      assert.ok(leftMs > 4_900 && leftMs <= 5_000, `${leftMs} ms are left (rule R9)`);
      carried.push(workload.name);
      await carryOut(context, deadlineMs);
    },
  });
}

async function reconcile<Target>(harness: Harness, reconciler: GroupReconciler<GroupObservation, Target>) {
  const outcome = await played(harness.timeline, reconcileGroup(harness.context, reconciler, key, { sweep: false }));
  if (outcome.pendingActs !== undefined) await played(harness.timeline, outcome.pendingActs);
  return outcome;
}

test("all pods of an act are reserved in the ledger by its function before the act, and no other function touches them", async () => {
  const harness = await new Harness().prepare();
  const carried: string[] = [];
  const reserved: string[] = [];
  const carryOut = async () => {
    for (const { statefulSet, ordinal, by } of harness.ledger.reservations)
      reserved.push(`${statefulSet}-${ordinal} ${by}`);
  };
  await reconcile(harness, reconcilerOf(takeFirst, labelling(carried, carryOut)));
  assert.deepEqual(carried, ["group-a"]);
  assert.deepEqual(reserved, [`group-a-0 ${name}`, `group-a-1 ${name}`]);
  assert.deepEqual(
    harness.acts.map(({ action, object, result }) => [action, object, result]),
    [["label", "group-a", "done"]],
  );
  assert.equal(harness.count("delete pods"), 0);
  assert.equal(harness.verdicts.at(-1)?.wouldTake, undefined, "it takes them, and would not only do so");
});

test("an act that meets an unreadable ledger, or a conflict, fails alone with a report", async () => {
  for (const error of [new LedgerUnreadable("sluice-group", "its reservations are no JSON object"), new Conflict()]) {
    const harness = await new Harness().prepare();
    const broken = labelling([], async () => {
      throw error;
    });
    await reconcile(harness, reconcilerOf(takeFirst, broken));
    const [{ result, reason } = assert.fail("no act is reported"), ...more] = harness.acts;
    assert.deepEqual([result, reason, more], ["failed", error.message, []]);
  }
});

test("an act that was refused at once withdraws all its reservations, and its refusal is remembered by its object", async () => {
  const harness = await new Harness().prepare();
  const reconciler = reconcilerOf(
    takeFirst,
    labelling([], async () => {
      throw refused(403);
    }),
  );
  await reconcile(harness, reconciler);
  const memory = harness.context.memoryOf(key);
  assert.equal(harness.ledger.reservations.length, 2);
  assert.equal(memory.refusedOnce.size, 2);
  const { uid } = harness.world.store.get("statefulsets", { namespace: key.namespace, name: "group-a" }).metadata;
  assert.deepEqual([...memory.refusals.keys()], [uid]);
  await reconcile(
    harness,
    reconcilerOf(() => wait("volume-busy", "later"), labelling([])),
  );
  await harness.goOn(6_000);
  await reconcile(
    harness,
    reconcilerOf(() => wait("volume-lost", "later"), labelling([])),
  );
  assert.deepEqual(harness.ledger.reservations, []);
});

test("a function's Events have reasons of its own, so that a suspension never reports a rollout", async () => {
  const harness = await new Harness().prepare();
  await reconcile(harness, reconcilerOf(takeFirst, labelling([])));
  assert.deepEqual(harness.ledger.verdicts[name]?.guard, "suspending");
  await harness.goOn(6_000);
  await reconcile(
    harness,
    reconcilerOf(() => wait("volume-lost", "it is gone"), labelling([])),
  );
  await harness.goOn(6_000);
  await reconcile(
    harness,
    reconcilerOf(() => take([], "all is suspended"), labelling([])),
  );
  assert.deepEqual(harness.events.toSorted(), [
    "SuspensionCompleted group-a: all is suspended",
    "SuspensionStarted group-a: the first zone goes",
    "SuspensionWaiting group-a: volume-lost: it is gone",
  ]);
});

test("a guard that a function meets in normal work has an Event after a minute, and any other at once", async () => {
  for (const [guard, events] of [
    ["volume-busy", 0],
    // A rollout does not report this guard; this function does.
    ["zone-settling", 1],
  ] as const) {
    const harness = await new Harness().prepare();
    const reconciler = reconcilerOf(() => wait(guard, "later"), labelling([]));
    await reconcile(harness, reconciler);
    assert.equal(harness.events.length, events, guard);
    await harness.goOn(61_000);
    await reconcile(harness, reconciler);
    assert.equal(harness.events.length, 1, guard);
  }
});

test("a function's observation may read further objects", async () => {
  const harness = await new Harness().prepare();
  const read: string[] = [];
  const reconciler: GroupReconciler<{ readonly phase: string; readonly observed: GroupObservation }, Zone> = {
    name,
    eventPolicy,
    async observe(observed, { cluster }: Context) {
      const { status } = await cluster.get("pods", { namespace: key.namespace, name: "group-a-0" });
      return { phase: status?.phase ?? "", observed };
    },
    decide({ phase, observed }) {
      read.push(phase);
      return takeFirst(observed);
    },
    actOn: ({ workload, pods: [pod] }) => deletionOf(asStatefulSet(workload), pod ?? assert.fail("no pod")),
  };
  const outcome = await played(harness.timeline, reconcileGroup(harness.context, reconciler, key, { sweep: false }));
  await played(harness.timeline, outcome.pendingActs ?? assert.fail("nothing was done"));
  assert.ok(read.length > 0 && read.every((phase) => phase === "Running"));
  assert.equal(harness.count("delete pods"), 1);
});

test("an act waits, with nothing reserved, if the ledger has no room for all its reservations", async () => {
  const harness = await new Harness().prepare();
  const carried: string[] = [];
  const many = (zone: Zone): Act => {
    const act = labelling(carried)(zone);
    const claim = act.claims[0] ?? assert.fail("no reservation");
    return { ...act, claims: Array.from({ length: 1_001 }, (_, ordinal) => ({ ...claim, ordinal })) };
  };
  await reconcile(harness, reconcilerOf(takeFirst, many));
  assert.deepEqual([harness.guard, carried, harness.ledger.reservations], ["ledger-full", [], []]);
});

test("an act's claim is written together with its reservations, renewed by its function, and refused to any other", async () => {
  const harness = await new Harness().prepare();
  const claim = { id: "down-1", kind: "scale-down", zone: "group-a", phase: "preparing", terms: "asked" } as const;
  const seen: (string | number | undefined)[] = [];
  const scaling = (zone: Zone): Act => ({
    ...labelling([])(zone),
    claims: [{ ...claim, members: [{ first: 1, last: 1 }] }],
    async carryOut() {
      for (const one of harness.ledger.claims) seen.push(one.id, one.isKnown ? one.by : undefined);
    },
  });
  await reconcile(harness, reconcilerOf(takeFirst, scaling));
  assert.deepEqual(seen, ["down-1", name]);
  assert.equal(harness.count("patch leases"), 1);
  const [made] = harness.ledger.claims;
  assert.ok(made?.isKnown);
  await harness.goOn(6_000);
  await reconcile(harness, reconcilerOf(takeFirst, scaling));
  const [renewed, ...others] = harness.ledger.claims;
  assert.ok(renewed?.isKnown);
  assert.deepEqual([renewed.sinceMs, others], [made.stampMs, []]);
  assert.ok(renewed.stampMs > made.stampMs);
  await harness.goOn(6_000);
  const foreign = '{ "id":"x", "kind":"later","zone":"group-b" }';
  harness.writeLedger({ "sluice.dev/claims": `${foreign}\n${renewed.line}` });
  await reconcile(harness, reconcilerOf(takeFirst, scaling));
  const [other, again] = harness.ledger.claims;
  assert.deepEqual([other?.line, again?.isKnown && again.sinceMs], [foreign, made.stampMs], "since it was first made");
  const thief = { ...reconcilerOf(takeFirst, scaling), name: "another-function" };
  const changed = (changes: object) =>
    reconcilerOf(takeFirst, (zone) => {
      const act = scaling(zone);
      return { ...act, claims: act.claims.map((one) => ({ ...one, ...changes })) };
    });
  for (const reconciler of [thief, changed({ kind: "process" }), changed({ zone: "group-b" }), changed({ id: "x" })]) {
    await assert.rejects(reconcile(harness, reconciler), /the claim (down-1|x) stands for something else/);
  }
  assert.equal(harness.ledger.claims[1]?.line, again?.line, "nothing of it was written");
});

test("an act whose ranges of claims do not fit into the ledger is skipped, and those that fit are carried out", async () => {
  const claim = { kind: "scale-down", phase: "preparing", terms: "asked" } as const;
  const ranges = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ first: 2 * index, last: 2 * index }));
  /** Which zones had their turn, if each claim has this many ranges and others have already made this many. */
  const done = async (sizes: readonly number[], before = 0) => {
    const harness = await new Harness().prepare();
    const stands = claimOf("group-b:0", "process", { members: ranges(before) });
    if (before > 0) harness.writeLedger({ "sluice.dev/claims": stands.line });
    const carried: string[] = [];
    const sized = (zone: Zone): Act => {
      const { name: at } = zone.workload;
      const members = ranges(sizes[at === "group-a" ? 0 : 1] ?? 0);
      return { ...labelling(carried)(zone), claims: [{ ...claim, id: at, zone: at, members }] };
    };
    await reconcile(
      harness,
      reconcilerOf(({ zones }) => take(zones, "both zones go", { zone: "group-a" }), sized),
    );
    return [harness.guard, ...carried];
  };
  assert.deepEqual(await done([500, 500]), ["suspending", "group-a", "group-b"]);
  assert.deepEqual(await done([500, 501]), ["suspending", "group-a"]);
  assert.deepEqual(await done([1_001, 1_000]), ["suspending", "group-b"]);
  assert.deepEqual(await done([600, 600], 400), ["suspending", "group-a"]);
  assert.deepEqual(await done([601, 700], 400), ["ledger-full"]);
});

test("a write of reservations alone leaves all claims as they are, and a refused act with a claim withdraws nothing", async () => {
  const harness = await new Harness().prepare();
  const text = `${claimOf("group-b:0", "process").line}\n\n`;
  harness.writeLedger({ "sluice.dev/claims": text });
  await reconcile(harness, reconcilerOf(takeFirst, labelling([])));
  const { annotations } = harness.world.store.get("leases", {
    namespace: key.namespace,
    name: "sluice-group",
  }).metadata;
  assert.equal(annotations?.["sluice.dev/claims"], text);
  const refusing = await new Harness().prepare();
  const other = { id: "x", kind: "scale-down", zone: "group-a", phase: "preparing", terms: "asked" } as const;
  const both = (zone: Zone): Act => {
    const act = labelling([], async () => {
      throw refused(403);
    })(zone);
    return { ...act, claims: [...act.claims, { ...other, members: [{ first: 0, last: 0 }] }] };
  };
  await reconcile(refusing, reconcilerOf(takeFirst, both));
  assert.deepEqual([refusing.acts[0]?.result, refusing.context.memoryOf(key).refusedOnce.size], ["refused", 0]);
});

test("the ledger is read again only before acts that require it, and a group that is gone is reported as gone", async () => {
  for (const [confirming, reads] of [
    [[], 0],
    [["group-a"], 1],
  ] as const) {
    const harness = await new Harness().prepare();
    const free = (zone: Zone): Act => {
      const isConfirming = confirming.some((name) => name === zone.workload.name);
      return { ...labelling([])(zone), claims: [], ...(isConfirming ? { confirmsLedger: true as const } : {}) };
    };
    await reconcile(
      harness,
      reconcilerOf(({ zones }) => take(zones, "both", { zone: "group-a" }), free),
    );
    assert.equal(harness.acts.length, 2);
    assert.equal(harness.count("get leases"), reads);
  }
  const empty = new Harness({ zones: [] });
  assert.equal((await reconcile(empty, reconcilerOf(takeFirst, labelling([])))).isGone, true);
});

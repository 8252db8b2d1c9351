/** Of what needs a person by the status, kubectl sluice wait ends with 3 only for what keeps the group from being done. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PersonReason, Status } from "../../../../functions/shared/contract/status.ts";
import { makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { Harness, namespace } from "../../shared/reconcile/harness.ts";
import { sluice } from "./terminal.ts";

const minute = 60_000;
const [first, second] = ["group-a", "group-b"];

async function atRest(): Promise<Harness> {
  const harness = new Harness({ volumes: ["data"] });
  await harness.run(true);
  return harness;
}

const rolling = () => new Harness({ volumes: ["data"] }).prepare();

function writeVerdict(harness: Harness, guard: string, zone: string): void {
  const at = harness.cluster.serverTimeMs();
  const verdict = { guard, zone, sentence: "it waits", since: at - 60 * minute, at };
  harness.writeLedger({ "sluice.dev/verdicts": JSON.stringify({ "advance-zone-rollout": verdict }) });
}

function needsStrategy(harness: Harness): void {
  harness.world.store.patch(
    "statefulsets",
    { namespace, name: second },
    { spec: { updateStrategy: { type: "RollingUpdate" } } },
  );
  writeVerdict(harness, "strategy-not-on-delete", second);
}

/** Has the kubelet say of a pod that its container cannot start, and that it never ran. */
function breakPod(harness: Harness, name: string): void {
  const at = new Date(harness.cluster.serverTimeMs()).toISOString();
  const waiting = { name: "app", ready: false, state: { waiting: { reason: "CrashLoopBackOff" } } };
  const conditions = [{ type: "Ready", status: "False", lastTransitionTime: at }];
  const status = { phase: "Running", startTime: at, conditions, containerStatuses: [waiting] };
  harness.world.store.patch("pods", { namespace, name }, { status }, "status");
}

/** Half an hour after its pods became ready the rollout has not gone on, because no process reconciles. */
async function standStill(harness: Harness): Promise<void> {
  for (let reconcile = 0; reconcile < 2; reconcile++) {
    await harness.run();
    await harness.goOn(31 * minute);
  }
}

function claimDownscale(harness: Harness): void {
  const stampMs = harness.cluster.serverTimeMs() - 30 * 24 * 60 * minute;
  const members = [{ first: 1, last: 1 }];
  const content = { id: "one", kind: "scale-down", zone: second, members, by: "prepare-downscale" } as const;
  const claim = makeClaim({ ...content, stampMs, phase: "preparing", terms: "asked" });
  harness.writeLedger({ "sluice.dev/claims": claim.line });
}

function refuseEviction(harness: Harness): void {
  const lastTimestamp = new Date(harness.cluster.serverTimeMs() - minute).toISOString();
  const involvedObject = { kind: "StatefulSet", name: first, namespace };
  const message = "never-possible: max unavailable = 0";
  harness.world.store.create("events", namespace, {
    metadata: { name: `${first}.0123456789abcdef` },
    ...{ reason: "EvictionRefused", message, involvedObject, lastTimestamp, source: { component: "sluice" } },
  });
}

function annotate(harness: Harness): void {
  const annotations = { "rollout-max-unavailable": "many" };
  harness.world.store.patch("statefulsets", { namespace, name: first }, { metadata: { annotations } });
}

/** A volume of a pod that is gone, whose time ended an hour ago. */
function keepVolume(harness: Harness): void {
  const { store } = harness.world;
  const annotations = { "sluice.dev/suspend-duration": "1h" };
  store.patch("statefulsets", { namespace, name: second }, { metadata: { annotations } });
  const at = new Date(harness.cluster.serverTimeMs() - 120 * minute).toISOString();
  store.create("persistentvolumeclaims", namespace, {
    metadata: {
      name: `data-${second}-7`,
      labels: { "sluice.dev/suspended": "true" },
      annotations: { "sluice.dev/suspend": "true", "sluice.dev/suspended-at": at, "sluice.dev/state": "Suspended" },
    },
  });
}

const unreadable = (harness: Harness) => harness.writeLedger({ "sluice.dev/reservations": "no JSON" });

interface Case {
  readonly start: () => Promise<Harness>;
  readonly make: (harness: Harness) => unknown;
  /** 0: the group is done. 1: it is not, for another cause. */
  readonly code: 0 | 1 | 3;
}

/**
 * For each reason a group that cannot become done because of it, if there is such a group, and one that it does not concern. The
 * certificate is that of a process: only the page shows it, and it concerns no rollout.
 */
const cases: Readonly<Record<Exclude<PersonReason, "certificate-ends">, readonly Case[]>> = {
  guard: [
    { start: rolling, make: needsStrategy, code: 3 },
    { start: atRest, make: needsStrategy, code: 0 },
  ],
  "no-progress": [{ start: rolling, make: standStill, code: 3 }],
  "pod-stuck": [
    {
      start: atRest,
      code: 3,
      async make(harness) {
        breakPod(harness, `${second}-0`);
        await harness.goOn(6 * minute);
      },
    },
    {
      start: rolling,
      // Sluice replaces it, because it is of another revision.
      code: 1,
      async make(harness) {
        breakPod(harness, `${first}-0`);
        await harness.goOn(6 * minute);
      },
    },
  ],
  "ledger-unreadable": [
    { start: rolling, make: unreadable, code: 3 },
    { start: atRest, make: unreadable, code: 0 },
  ],
  "malformed-annotation": [
    { start: rolling, make: annotate, code: 1 },
    { start: atRest, make: annotate, code: 0 },
  ],
  "claim-overdue": [{ start: atRest, make: claimDownscale, code: 0 }],
  "volume-removal-near": [
    { start: rolling, make: keepVolume, code: 1 },
    { start: atRest, make: keepVolume, code: 0 },
  ],
  "never-possible": [
    { start: rolling, make: refuseEviction, code: 1 },
    { start: atRest, make: refuseEviction, code: 0 },
  ],
};

for (const [reason, all] of Object.entries(cases)) {
  for (const { start, make, code } of all) {
    const what = start === atRest ? "a group at rest" : "a rollout";
    test(`while ${what} needs a person for ${reason}, wait ends with ${code}`, async () => {
      const harness = await start();
      await make(harness);
      const status: Status = JSON.parse((await sluice(harness, "status -o json")).out);
      const reasons: readonly string[] = status.needsPerson.map((entry) => entry.reason);
      assert.ok(reasons.includes(reason), reasons.join());
      const ended = await sluice(harness, "wait group --timeout 70s");
      assert.equal(ended.code, code, `${ended.out}${ended.err.join("\n")}`);
    });
  }
}

/** Page and status agree on what needs a person, and wait ends with 3 only for what keeps the group from being done. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PersonEntry, PersonReason, Status } from "../../../../functions/shared/contract/status.ts";
import { makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import { renderPage } from "../../../../triggers/status/page.ts";
import { missingIn } from "../../../support/page-compared.ts";
import { readElements } from "../../../support/page-elements.ts";
import { createLedgerOf, createLoneRestart, loneGroup, writePhase } from "../../../support/status-groups.ts";
import { Harness, namespace } from "../../shared/reconcile/harness.ts";
import { readServed } from "./served-status.ts";
import { sluice } from "./terminal.ts";

const minute = 60_000;
const day = 24 * 60 * minute;
const [first, second] = ["group-a", "group-b"];

async function atRest(): Promise<Harness> {
  const harness = new Harness({ volumes: ["data"] });
  await harness.run(true);
  return harness;
}

const rolling = () => new Harness({ volumes: ["data"] }).prepare();

function writeVerdict(harness: Harness, guard: string, zone: string, lastedMs: number): void {
  const at = harness.cluster.serverTimeMs();
  const verdict = { guard, zone, sentence: "it waits", since: at - lastedMs, at };
  harness.writeLedger({ "sluice.dev/verdicts": JSON.stringify({ "advance-zone-rollout": verdict }) });
}

const needsStrategy = (lastedMs: number) => (harness: Harness) => {
  const updateStrategy = { type: "RollingUpdate" };
  harness.world.store.patch("statefulsets", { namespace, name: second }, { spec: { updateStrategy } });
  writeVerdict(harness, "strategy-not-on-delete", second, lastedMs);
};

/** Has the kubelet say of a pod that its container cannot start, and that it never ran. */
const breakPod = (name: string, minutes: number) => async (harness: Harness) => {
  const at = new Date(harness.cluster.serverTimeMs()).toISOString();
  const waiting = { name: "app", ready: false, state: { waiting: { reason: "CrashLoopBackOff" } } };
  const conditions = [{ type: "Ready", status: "False", lastTransitionTime: at }];
  const status = { phase: "Running", startTime: at, conditions, containerStatuses: [waiting] };
  harness.world.store.patch("pods", { namespace, name }, { status }, "status");
  await harness.goOn(minutes * minute);
};

/** For so long after its pods became ready the rollout has not gone on, because no process reconciles. */
const standStill = (minutes: number) => async (harness: Harness) => {
  for (let reconcile = 0; reconcile < 2; reconcile++) {
    await harness.run();
    await harness.goOn(minutes * minute);
  }
};

const claimDownscale = (days: number) => (harness: Harness) => {
  const stampMs = harness.cluster.serverTimeMs() - days * day;
  const members = [{ first: 1, last: 1 }];
  const content = { id: "one", kind: "scale-down", zone: second, members, by: "prepare-downscale" } as const;
  const claim = makeClaim({ ...content, stampMs, phase: "preparing", terms: "asked" });
  harness.writeLedger({ "sluice.dev/claims": claim.line });
};

const refuseEviction = (minutes: number) => (harness: Harness) => {
  const lastTimestamp = new Date(harness.cluster.serverTimeMs() - minutes * minute).toISOString();
  const involvedObject = { kind: "StatefulSet", name: first, namespace };
  const message = "never-possible: max unavailable = 0";
  harness.world.store.create("events", namespace, {
    metadata: { name: `${first}.0123456789abcdef` },
    ...{ reason: "EvictionRefused", message, involvedObject, lastTimestamp, source: { component: "sluice" } },
  });
};

const annotate = (value: string) => (harness: Harness) => {
  const annotations = { "rollout-max-unavailable": value };
  harness.world.store.patch("statefulsets", { namespace, name: first }, { metadata: { annotations } });
};

/** A volume of a pod that is gone for two hours, and that is kept for so many. */
const keepVolume = (hours: number) => (harness: Harness) => {
  const { store } = harness.world;
  const annotations = { "sluice.dev/suspend-duration": `${hours}h` };
  store.patch("statefulsets", { namespace, name: second }, { metadata: { annotations } });
  const at = new Date(harness.cluster.serverTimeMs() - 120 * minute).toISOString();
  store.create("persistentvolumeclaims", namespace, {
    metadata: {
      name: `data-${second}-7`,
      labels: { "sluice.dev/suspended": "true" },
      annotations: { "sluice.dev/suspend": "true", "sluice.dev/suspended-at": at, "sluice.dev/state": "Suspended" },
    },
  });
};

const failRestart = (harness: Harness) => writePhase(harness.world, namespace, `${first}-0`, "failed");

/** A restart in a StatefulSet that is in no group. Undefined: none is asked for. */
const askAlone = (phase: string | undefined) => (harness: Harness) => {
  createLoneRestart(harness.world, namespace);
  createLedgerOf(harness.world, namespace, loneGroup);
  if (phase !== undefined) writePhase(harness.world, namespace, "alone-x-1", phase);
};

const writeLedger = (annotation: string) => (harness: Harness) => harness.writeLedger({ [annotation]: "no JSON" });
const untouched = () => {};

interface Case {
  readonly start: () => Promise<Harness>;
  readonly make: (harness: Harness) => unknown;
  /** How the wait ends. 0: the group is done. 1: it is not, for another cause. */
  readonly code: 0 | 1 | 3;
  /** In how many days the certificate of the process ends; absent: it presents none. */
  readonly certificateDays?: number;
}

/** What a reason needs: groups for which it holds, and one for which it nearly does. */
interface Cases {
  readonly so: readonly Case[];
  readonly nearly: Omit<Case, "code">;
}

/**
 * For each reason a group that cannot become done because of it, if there is such a group, and one that it does not concern. The
 * certificate is that of a process: only the page shows it, and it concerns no rollout.
 */
const cases: Readonly<Record<PersonReason, Cases>> = {
  guard: {
    so: [
      { start: rolling, make: needsStrategy(60 * minute), code: 3 },
      { start: atRest, make: needsStrategy(60 * minute), code: 0 },
    ],
    nearly: { start: rolling, make: needsStrategy(minute - 5_000) },
  },
  "no-progress": {
    so: [{ start: rolling, make: standStill(31), code: 3 }],
    nearly: { start: rolling, make: standStill(29) },
  },
  "pod-stuck": {
    so: [
      { start: atRest, make: breakPod(`${second}-0`, 6), code: 3 },
      // Sluice replaces it, because it is of another revision.
      { start: rolling, make: breakPod(`${first}-0`, 6), code: 1 },
    ],
    nearly: { start: atRest, make: breakPod(`${second}-0`, 4) },
  },
  "ledger-unreadable": {
    so: [
      { start: rolling, make: writeLedger("sluice.dev/reservations"), code: 3 },
      { start: atRest, make: writeLedger("sluice.dev/reservations"), code: 0 },
    ],
    // Nothing is permitted by a verdict.
    nearly: { start: rolling, make: writeLedger("sluice.dev/verdicts") },
  },
  "malformed-annotation": {
    so: [
      { start: rolling, make: annotate("many"), code: 1 },
      { start: atRest, make: annotate("many"), code: 0 },
    ],
    nearly: { start: rolling, make: annotate("50%") },
  },
  "claim-overdue": {
    so: [{ start: atRest, make: claimDownscale(30), code: 0 }],
    nearly: { start: atRest, make: claimDownscale(0) },
  },
  "restart-failed": {
    so: [
      { start: rolling, make: failRestart, code: 1 },
      { start: atRest, make: failRestart, code: 0 },
      { start: atRest, make: askAlone("failed"), code: 0 },
    ],
    nearly: { start: atRest, make: askAlone("cancel") },
  },
  "restart-unserved": {
    so: [{ start: atRest, make: askAlone("schedule"), code: 0 }],
    nearly: { start: atRest, make: askAlone(undefined) },
  },
  "volume-removal-near": {
    so: [
      { start: rolling, make: keepVolume(1), code: 1 },
      { start: atRest, make: keepVolume(25), code: 0 },
    ],
    nearly: { start: rolling, make: keepVolume(27) },
  },
  "never-possible": {
    so: [
      { start: rolling, make: refuseEviction(1), code: 1 },
      { start: atRest, make: refuseEviction(59), code: 0 },
    ],
    nearly: { start: rolling, make: refuseEviction(61) },
  },
  "certificate-ends": {
    so: [
      { start: rolling, make: untouched, certificateDays: 6, code: 1 },
      { start: atRest, make: untouched, certificateDays: 6, code: 0 },
    ],
    nearly: { start: rolling, make: untouched, certificateDays: 8 },
  },
};

/** What needs a person by the page, which has all of it, and by the command, which knows no certificate. */
async function needsIn(harness: Harness, { certificateDays }: Pick<Case, "certificateDays">) {
  const notAfterMs = harness.cluster.serverTimeMs() + (certificateDays ?? 0) * day;
  const certificate = () => ({ object: "sluice-tls", namespace, notBeforeMs: notAfterMs - 365 * day, notAfterMs });
  const served = await readServed(harness, certificateDays === undefined ? {} : { certificate });
  assert.ok(served !== undefined);
  const page = readElements(await renderPage(served));
  const command: Status = JSON.parse((await sluice(harness, "status -o json")).out);
  const ofProcess = ({ reason }: PersonEntry) => reason === "certificate-ends";
  assert.deepEqual(missingIn(page, served), []);
  assert.deepEqual(
    command.needsPerson,
    served.needsPerson.filter((entry) => !ofProcess(entry)),
  );
  return { reasons: served.needsPerson.map(({ reason }) => reason), page };
}

for (const [reason, { so, nearly }] of Object.entries(cases) as [PersonReason, Cases][]) {
  for (const one of so) {
    const what = one.start === atRest ? "a group at rest" : "a rollout";
    test(`while ${what} needs a person for ${reason}, page and status say so, and wait ends with ${one.code}`, async () => {
      const harness = await one.start();
      await one.make(harness);
      const { reasons, page } = await needsIn(harness, one);
      assert.ok(reasons.includes(reason), reasons.join());
      assert.ok(page.all("li.need").length > 0);
      const ended = await sluice(harness, "wait group --timeout 70s");
      assert.equal(ended.code, one.code, `${ended.out}${ended.err.join("\n")}`);
    });
  }

  test(`what is nearly ${reason} needs no person, neither by the page nor by status, and wait goes on`, async () => {
    const harness = await nearly.start();
    await nearly.make(harness);
    const { reasons, page } = await needsIn(harness, nearly);
    assert.deepEqual([reasons, page.all("li.need").length], [[], 0]);
    const ended = await sluice(harness, "wait group --timeout 0");
    assert.notEqual(ended.code, 3, ended.err.join("\n"));
  });
}

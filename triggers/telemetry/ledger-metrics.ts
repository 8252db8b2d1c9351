/**
 * The metrics of groups that alerts need. Long-lived processes make them from ledgers and watches, so that they exist while
 * every function that events trigger is scaled to zero.
 *
 * A process that reconciles knows guard and success better, so that these two come from its reconciles.
 */
import type { Registry } from "prom-client";
import { countDown } from "../../functions/shared/groups/zones.ts";
import type { Claim } from "../../functions/shared/ledger/claim.ts";
import { dueMs } from "../../functions/shared/ledger/claim-kinds.ts";
import { isStatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import { createEvictionMetrics } from "./eviction-metrics.ts";
import type { GroupStanding } from "./ledger-metrics-groups.ts";
import { liveGauges, type Series } from "./live-gauges.ts";

type ReadStandings = () => Promise<readonly GroupStanding[]>;

/** A user who edits a ledger may name any number of functions there; at most this many become series. */
const functionsOfALedger = 20;
/** Names of objects are no longer than this. A label is cut to it, because a user may write a longer text into a ledger. */
const longestLabel = 253;

/** Gauges that are empty until `showGroups` sets their source. */
export function createLedgerMetrics(registers: Registry[]) {
  let read: ReadStandings = async () => [];
  let hasReconciles = true;
  const define = liveGauges(registers);
  defineGroups((name, help, labelNames, seriesOf) =>
    define(name, help, [...groupLabels, ...labelNames], async () =>
      (await read()).flatMap((standing) => inGroup(standing, seriesOf(standing))),
    ),
  );
  const readUnlessReconciling = async () => (hasReconciles ? undefined : read());
  return {
    ...createEvictionMetrics(registers, async () => (await read()).map(({ key }) => key)),
    waitingSince: define(
      "sluice_waiting_since_timestamp_seconds",
      "Since when the guard named has held for a group that is not done, in seconds since the epoch.",
      [...groupLabels, "function", "guard", "zone"],
      async () => (await readUnlessReconciling())?.flatMap((standing) => inGroup(standing, waitingOf(standing))),
    ),
    lastSuccess: define(
      "rollout_operator_last_successful_group_reconcile_timestamp_seconds",
      "When the last reconcile of a rollout group succeeded, or it was seen to need none, in seconds since the epoch.",
      groupLabels,
      async () => (await readUnlessReconciling())?.flatMap((standing) => inGroup(standing, reconciledOf(standing))),
    ),
    /**
     * Shows the groups of `groups`, which never rejects. `reconciles`: this process reconciles, and knows guard and success
     * better.
     */
    showGroups(groups: ReadStandings, { reconciles }: { readonly reconciles: boolean }): void {
      read = groups;
      hasReconciles = reconciles;
    },
  };
}

const groupLabels = ["namespace", "rollout_group"] as const;

/** Defines a gauge with the labels of a group, and these. */
type Define = <Label extends string>(
  name: string,
  help: string,
  labelNames: readonly Label[],
  seriesOf: (standing: GroupStanding) => readonly Series<Label>[],
) => void;

function defineGroups(define: Define): void {
  const ofZones = (count: (zone: GroupStanding["zones"][number]) => number) => (standing: GroupStanding) =>
    standing.zones.map((zone) => ({ labels: { zone: zone.workload.name }, value: count(zone) }));
  define(
    "sluice_group_pods_not_ready",
    "Wanted pods of a zone that are missing, terminating or not ready.",
    ["zone"],
    ofZones(countDown),
  );
  define(
    "sluice_group_outdated_pods",
    "Pods of a zone that run another revision than the wanted one, paused zones included.",
    ["zone"],
    ofZones((zone) => zone.outdated.length),
  );
  define(
    "sluice_group_reservations",
    "Reservations in a group's ledger, by the function that made them.",
    ["function"],
    reservationsOf,
  );
  define(
    "sluice_group_claims",
    "Claims in a group's ledger on what is no pod that goes, by kind and by the function that made them.",
    ["kind", "function"],
    (standing) => claimsOf(standing, (some) => some.length),
  );
  define(
    "sluice_group_oldest_claim_timestamp_seconds",
    "Since when the oldest claim of a kind in a group's ledger has stood, in seconds since the epoch.",
    ["kind", "function"],
    (standing) =>
      claimsOf(standing, (some) => Math.min(...some.flatMap(sinceSeconds))).filter(({ value }) => value < Infinity),
  );
  define(
    "sluice_group_claim_due_timestamp_seconds",
    "From when on a claim of a kind in a group's ledger has stood for too long, in seconds since the epoch.",
    ["kind", "function"],
    (standing) =>
      claimsOf(standing, (some) => Math.min(...some.flatMap((claim) => dueSeconds(standing, claim)))).filter(
        ({ value }) => value < Infinity,
      ),
  );
  define(
    "sluice_group_ledger_unreadable",
    "1 while a group's ledger cannot be read, so that nothing is permitted; otherwise 0.",
    [],
    ({ isUnreadable }) => [{ labels: {}, value: isUnreadable ? 1 : 0 }],
  );
  define(
    "sluice_group_last_progress_timestamp_seconds",
    "When a pod of a group last became ready at the wanted revision, or none was left to be; in seconds since the epoch.",
    [],
    ({ rollout }) => (rollout === undefined ? [] : [{ labels: {}, value: rollout.progressMs / 1000 }]),
  );
}

function reservationsOf({ ledger }: GroupStanding) {
  const byMaker = Map.groupBy(ledger?.reservations ?? [], ({ by }) => by);
  const shown = [...byMaker].slice(0, functionsOfALedger);
  return shown.map(([by, some]) => ({ labels: { function: cut(by) }, value: some.length }));
}

function claimsOf({ ledger }: GroupStanding, measure: (some: readonly Claim[]) => number) {
  const byMaker = Map.groupBy(ledger?.claims ?? [], ({ kind, by }) => `${kind} ${by}`);
  const shown = [...byMaker.values()].slice(0, functionsOfALedger);
  return shown.map((some) => {
    const { kind = "", by = "" } = some[0] ?? {};
    return { labels: { kind: cut(kind), function: cut(by) }, value: measure(some) };
  });
}

/** Nothing for a claim of an unknown kind, because only a later version knows where it has its time. */
function sinceSeconds(claim: Claim): number[] {
  return claim.isKnown ? [(claim.sinceMs ?? claim.stampMs) / 1000] : [];
}

/** Nothing for a claim of an unknown kind, as above. */
function dueSeconds({ zones }: GroupStanding, claim: Claim): number[] {
  if (!claim.isKnown) return [];
  const zone = zones.map(({ workload }) => workload).find(({ name }) => name === claim.zone);
  return [dueMs(claim, zone !== undefined && isStatefulSet(zone) ? zone : undefined) / 1000];
}

function waitingOf({ ledger }: GroupStanding) {
  const verdicts = Object.entries(ledger?.verdicts ?? {}).slice(0, functionsOfALedger);
  return verdicts.flatMap(([by, { guard, zone, since }]) => {
    const labels = { function: cut(by), guard: cut(guard), zone: cut(zone) };
    return guard === "done" ? [] : [{ labels, value: since / 1000 }];
  });
}

function reconciledOf({ rollout }: GroupStanding) {
  return rollout === undefined ? [] : [{ labels: {}, value: rollout.reconciledMs / 1000 }];
}

/** The series of a group, with its labels. */
function inGroup<Label extends string>({ key }: GroupStanding, series: readonly Series<Label>[]) {
  const group = { namespace: key.namespace, rollout_group: key.group };
  return series.map(({ labels, value }) => ({ labels: { ...group, ...labels }, value }));
}

function cut(text: string): string {
  return text.slice(0, longestLabel);
}

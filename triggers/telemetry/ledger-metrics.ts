/**
 * The metrics of groups that alerts rest on. They come from ledgers and watches, by the processes that live; so they are there
 * and true while every function that events wake is at zero.
 *
 * What passes tell better, guard and last success, comes from the passes where this process makes them.
 */
import { Gauge, type Registry } from "prom-client";
import { escapeTexts } from "../../functions/shared/base/escape-control.ts";
import { countDown } from "../../functions/shared/groups/zones.ts";
import type { Claim } from "../../functions/shared/ledger/claim.ts";
import type { GroupStanding } from "./ledger-metrics-groups.ts";

interface Series<Label extends string> {
  readonly labels: Readonly<Record<Label, string>>;
  readonly value: number;
}

type ReadStandings = () => Promise<readonly GroupStanding[]>;

/** A user who edits a ledger may name any number of functions there: no more than these become series. */
const functionsOfALedger = 20;
/** Names of objects are no longer than this. A label holds no more, although a user may write a novel into a ledger. */
const longestLabel = 253;

export type LedgerMetrics = ReturnType<typeof createLedgerMetrics>;

/** Gauges that are empty until {@link LedgerMetrics.showGroups} says where groups can be seen. */
export function createLedgerMetrics(registers: Registry[]) {
  let look: ReadStandings = async () => [];
  let isPassed = true;
  const define = <Label extends string>(
    { name, help, labelNames }: { name: string; help: string; labelNames: readonly Label[] },
    seriesOf: (standings: readonly GroupStanding[]) => Iterable<Series<Label>>,
    isOfPasses = false,
  ) =>
    new Gauge<Label>({
      name,
      help,
      labelNames,
      registers,
      async collect() {
        if (isOfPasses && isPassed) return;
        const standings = await look();
        // Groups that have vanished vanish here.
        this.reset();
        // Pages and alerts show labels as they are.
        for (const { labels, value } of seriesOf(standings)) this.set(escapeTexts(labels), value);
      },
    });
  definePods(define);
  defineLedgers(define);
  return {
    ...defineTimes(define),
    /** Shows the groups that `groups` tells of, which never rejects. `passes`: this process makes passes, which tell more. */
    showGroups(groups: ReadStandings, { passes }: { readonly passes: boolean }): void {
      look = groups;
      isPassed = passes;
    },
  };
}

type Define = <Label extends string>(
  gauge: { name: string; help: string; labelNames: readonly Label[] },
  seriesOf: (standings: readonly GroupStanding[]) => Iterable<Series<Label>>,
  isOfPasses?: boolean,
) => Gauge<Label>;

const groupLabels = ["namespace", "rollout_group"] as const;
const zoneLabels = [...groupLabels, "zone"] as const;

function definePods(define: Define): void {
  const ofZones = (count: (zone: GroupStanding["zones"][number]) => number) => (standings: readonly GroupStanding[]) =>
    standings.flatMap((standing) =>
      standing.zones.map((zone) => ({
        labels: { ...labelsOf(standing), zone: zone.statefulSet.name },
        value: count(zone),
      })),
    );
  const notReady = {
    name: "sluice_group_pods_not_ready",
    help: "Wanted pods of a zone that are missing, terminating or not ready.",
    labelNames: zoneLabels,
  };
  define(notReady, ofZones(countDown));
  const outdated = {
    name: "sluice_group_outdated_pods",
    help: "Pods of a zone that run another revision than the wanted one, paused zones included.",
    labelNames: zoneLabels,
  };
  define(
    outdated,
    ofZones((zone) => zone.outdated.length),
  );
}

function defineLedgers(define: Define): void {
  const reservations = {
    name: "sluice_group_reservations",
    help: "Reservations in a group's ledger, by the function that made them.",
    labelNames: [...groupLabels, "function"] as const,
  };
  define(reservations, (standings) =>
    standings.flatMap((standing) => {
      const counts = new Map<string, number>();
      for (const { by } of standing.ledger?.reservations ?? []) counts.set(by, (counts.get(by) ?? 0) + 1);
      const shown = [...counts].slice(0, functionsOfALedger);
      return shown.map(([by, value]) => ({ labels: { ...labelsOf(standing), function: cut(by) }, value }));
    }),
  );
  defineClaims(define);
  const unreadable = {
    name: "sluice_group_ledger_unreadable",
    help: "1 while a group's ledger cannot be read, so that nothing is permitted; otherwise 0.",
    labelNames: groupLabels,
  };
  define(unreadable, (standings) =>
    standings.map((standing) => ({ labels: labelsOf(standing), value: standing.isUnreadable ? 1 : 0 })),
  );
}

function defineClaims(define: Define): void {
  const labelNames = [...groupLabels, "kind", "function"] as const;
  const claims = {
    name: "sluice_group_claims",
    help: "Claims in a group's ledger on what is no pod that goes, by kind and by the function that made them.",
    labelNames,
  };
  define(claims, (standings) => seriesOfClaims(standings, (some) => some.length));
  const oldest = {
    name: "sluice_group_oldest_claim_timestamp_seconds",
    help: "Since when the oldest claim of a kind in a group's ledger has stood, in seconds since the epoch.",
    labelNames,
  };
  define(oldest, (standings) =>
    seriesOfClaims(standings, (some) => Math.min(...some.flatMap(sinceSeconds))).filter(({ value }) =>
      Number.isFinite(value),
    ),
  );
}

/** Only a later version knows where a claim of its kind says so. */
function sinceSeconds(claim: Claim): number[] {
  return claim.isKnown ? [(claim.sinceMs ?? claim.stampMs) / 1000] : [];
}

function seriesOfClaims(standings: readonly GroupStanding[], measure: (some: readonly Claim[]) => number) {
  return standings.flatMap((standing) => {
    const byMaker = Map.groupBy(standing.ledger?.claims ?? [], ({ kind, by }) => `${kind} ${by}`);
    const shown = [...byMaker.values()].slice(0, functionsOfALedger);
    return shown.map((some) => {
      const { kind = "", by = "" } = some[0] ?? {};
      return { labels: { ...labelsOf(standing), kind: cut(kind), function: cut(by) }, value: measure(some) };
    });
  });
}

function defineTimes(define: Define) {
  const progress = {
    name: "sluice_group_last_progress_timestamp_seconds",
    help: "When a pod of a group last became ready at the wanted revision, or none was left to be; in seconds since the epoch.",
    labelNames: groupLabels,
  };
  define(progress, (standings) =>
    standings.flatMap((standing) => {
      const { rollout } = standing;
      return rollout === undefined ? [] : [{ labels: labelsOf(standing), value: rollout.progressMs / 1000 }];
    }),
  );
  const waitingSince = {
    name: "sluice_waiting_since_timestamp_seconds",
    help: "Since when the guard named has held for a group that is not done, in seconds since the epoch.",
    labelNames: [...groupLabels, "function", "guard", "zone"] as const,
  };
  const lastSuccess = {
    name: "rollout_operator_last_successful_group_reconcile_timestamp_seconds",
    help: "When the last pass over a rollout group succeeded, or it was seen to need none, in seconds since the epoch.",
    labelNames: ["rollout_group"] as const,
  };
  return {
    waitingSince: define(waitingSince, (standings) => standings.flatMap(waitingOf), true),
    lastSuccess: define(lastSuccess, reconciledOf, true),
  };
}

function waitingOf(standing: GroupStanding) {
  const verdicts = Object.entries(standing.ledger?.verdicts ?? {}).slice(0, functionsOfALedger);
  return verdicts.flatMap(([by, { guard, zone, since }]) => {
    const labels = { ...labelsOf(standing), function: cut(by), guard: cut(guard), zone: cut(zone) };
    return guard === "done" ? [] : [{ labels, value: since / 1000 }];
  });
}

/** Its label has no namespace: of groups with one name the one counts that has been left alone for longest. */
function reconciledOf(standings: readonly GroupStanding[]) {
  const oldest = new Map<string, number>();
  for (const { key, rollout } of standings) {
    if (rollout === undefined) continue;
    oldest.set(key.group, Math.min(rollout.reconciledMs, oldest.get(key.group) ?? rollout.reconciledMs));
  }
  return [...oldest].map(([group, ms]) => ({ labels: { rollout_group: group }, value: ms / 1000 }));
}

function labelsOf({ key }: GroupStanding) {
  return { namespace: key.namespace, rollout_group: key.group };
}

function cut(text: string): string {
  return text.slice(0, longestLabel);
}

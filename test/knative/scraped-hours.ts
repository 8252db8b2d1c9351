/** Hours of what the shipped metrics export of groups that stand as a test says, as Prometheus scrapes it. */
import { mock } from "node:test";
import { surveyZone } from "../../functions/shared/groups/zones.ts";
import { makeClaim } from "../../functions/shared/ledger/claim.ts";
import { parseLedger } from "../../functions/shared/ledger/contents.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import type { GroupStanding } from "../../triggers/telemetry/ledger-metrics-groups.ts";
import { createReporting } from "../../triggers/telemetry/logs-and-metrics.ts";
import type { Scrape } from "./alerting.ts";

export const minuteMs = 60_000;
const everyMs = 30_000;
/** When the hours of a test begin. */
export const startMs = Date.UTC(2026, 10, 27);

/** What a test says of a group at a moment. */
export interface Stand {
  /** As they stand in its ledger. */
  readonly claims?: readonly string[];
  readonly zone?: Partial<StatefulSet>;
  /** Whether its ledger has a reservation. */
  readonly reserved?: boolean;
  /** When a function last reconciled it; absent: now. */
  readonly reconciledMs?: number;
  /** When its last pod became ready; absent: it has nothing to do. */
  readonly progressMs?: number;
  /** Since when it has waited, where it waits. */
  readonly waitsSinceMs?: number;
  /** Whether its ledger cannot be read. */
  readonly isUnreadable?: boolean;
}

/** A scale-down that stands since that time, as a ledger has it; it was renewed at the time of its stamp. */
export function scaleDown(sinceMs: number, stampMs = sinceMs): string {
  const [members, by] = [[{ first: 1, last: 1 }], "another-function"];
  const times = { stampMs, sinceMs, phase: "begun", terms: "asked" } as const;
  return makeClaim({ id: "one", kind: "scale-down", zone: "a", members, by, ...times }).line;
}

export function standingOf(key: GroupKey, atMs: number, stand: Stand): GroupStanding {
  const { claims = [], zone = {}, reconciledMs = atMs, progressMs = atMs, waitsSinceMs, reserved = false } = stand;
  const { isUnreadable = false } = stand;
  const verdict = { guard: "zone-settling", zone: "a", sentence: "", since: waitsSinceMs, at: atMs };
  const annotations = {
    "sluice.dev/group": key.group,
    "sluice.dev/reservations": JSON.stringify(reserved ? { a: { 0: ["uid-of-a-0", "evaluate-eviction", atMs] } } : {}),
    "sluice.dev/claims": claims.join("\n"),
    "sluice.dev/verdicts": JSON.stringify(waitsSinceMs === undefined ? {} : { "advance-zone-rollout": verdict }),
  };
  const { namespace } = key;
  const lease = { metadata: { name: "sluice-db", namespace, uid: "lease", resourceVersion: "1", annotations } };
  const spec = { replicas: 3, podManagementPolicy: "Parallel", updateStrategy: { type: "OnDelete" } };
  const set = parseStatefulSet({ metadata: { name: "a", namespace, uid: "set", resourceVersion: "1" }, spec });
  return {
    key,
    zones: [surveyZone({ ...set, ...zone }, [], [], atMs)],
    ledger: isUnreadable ? undefined : parseLedger(key, lease),
    isUnreadable,
    rollout: { reconciledMs, progressMs },
  };
}

/** One replica that answers reviews, as Prometheus has it by the rendered ServiceMonitor. */
export class Replica {
  readonly reporting = createReporting({
    version: "0.1.0",
    serving: "all",
    level: "error",
    keys: () => 0,
    destination: { write: () => {} },
  });
  readonly metrics = this.reporting.metrics;
  readonly labels: Readonly<Record<string, string>>;
  isUp = true;
  standings: readonly GroupStanding[] = [];

  constructor(namespace: string, pod: string) {
    this.labels = { namespace, job: "rollout-operator", pod };
    this.metrics.showGroups(async () => this.standings, { reconciles: false });
  }

  /** A scrape that fails has no series: Prometheus marks those of before as stale. */
  async scrape(atMs: number): Promise<Scrape> {
    return { atMs, labels: this.labels, text: this.isUp ? await this.metrics.registry.metrics() : "" };
  }
}

type Step = (atMs: number, replicas: Replica[]) => void;

/** What two replicas in each of the namespaces answer for so many minutes. `step` comes before each scrape, at its time. */
export async function hours(minutes: number, namespaces: readonly string[], step: Step): Promise<Scrape[]> {
  mock.timers.enable({ apis: ["Date"], now: startMs });
  try {
    const replicas = namespaces.flatMap((namespace) => ["one", "two"].map((pod) => new Replica(namespace, pod)));
    const scrapes: Scrape[] = [];
    for (let atMs = startMs; atMs <= startMs + minutes * minuteMs; atMs += everyMs) {
      mock.timers.setTime(atMs);
      step(atMs, replicas);
      for (const replica of replicas) scrapes.push(await replica.scrape(atMs));
    }
    return scrapes;
  } finally {
    mock.timers.reset();
  }
}

export function minutesAt(atMs: number): number {
  return (atMs - startMs) / minuteMs;
}

export const db = (namespace: string) => ({ namespace, group: "db" });

/** All replicas show each group of their namespace so. */
export function show(
  replicas: readonly Replica[],
  atMs: number,
  standOf: (namespace: string) => Stand = () => ({}),
): void {
  for (const replica of replicas) {
    const { namespace = "" } = replica.labels;
    replica.standings = [standingOf(db(namespace), atMs, standOf(namespace))];
  }
}

/** A drain of some nodes retries its evictions, and reviews go to one replica and the other. */
export function drain(replicas: readonly Replica[], namespace: string, isAllowed: boolean): void {
  const own = replicas.filter(({ labels }) => labels.namespace === namespace);
  for (const [index, { metrics }] of own.entries()) {
    for (let retry = 0; retry < 5; retry++) metrics.countEviction(db(namespace), false);
    if (isAllowed && index === 0) metrics.countEviction(db(namespace), true);
  }
}

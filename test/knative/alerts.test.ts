/** The alerts by Prometheus's own code, over hours of what the shipped metrics export of groups that stand as a test says. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { surveyZone } from "../../functions/shared/groups/zones.ts";
import { makeClaim } from "../../functions/shared/ledger/claim.ts";
import { parseLedger } from "../../functions/shared/ledger/contents.ts";
import { type GroupKey, parseStatefulSet, type StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import type { GroupStanding } from "../../triggers/telemetry/ledger-metrics-groups.ts";
import { createReporting } from "../../triggers/telemetry/logs-and-metrics.ts";
import { activeAlerts, alertsAfter, answersTo, ensureAlerting, queriesOfDashboard, type Scrape } from "./alerting.ts";

const program = await ensureAlerting(console.error).catch((error: Error) => error);
if (program instanceof Error && process.env.CI === "true") throw program;
const skip = program instanceof Error ? `no alerting rules: ${program.message}` : false;

const minuteMs = 60_000;
const everyMs = 30_000;
/** When the hours of a test begin. */
const startMs = Date.UTC(2026, 10, 27);

/** What a test says of a group at a moment. */
interface Stand {
  /** As they stand in its ledger. */
  readonly claims?: readonly string[];
  readonly zone?: Partial<StatefulSet>;
  /** Whether its ledger has a reservation. */
  readonly reserved?: boolean;
  /** When its last pod became ready; absent: it has nothing to do. */
  readonly progressMs?: number;
  /** Since when it has waited, where it waits. */
  readonly waitsSinceMs?: number;
}

/** A scale-down that stands since that time, as a ledger has it; it was renewed at the time of its stamp. */
function scaleDown(sinceMs: number, stampMs = sinceMs): string {
  const [members, by] = [[{ first: 1, last: 1 }], "another-function"];
  const times = { stampMs, sinceMs, phase: "begun", terms: "asked" } as const;
  return makeClaim({ id: "one", kind: "scale-down", zone: "a", members, by, ...times }).line;
}

function standingOf(key: GroupKey, atMs: number, stand: Stand): GroupStanding {
  const { claims = [], zone = {}, progressMs = atMs, waitsSinceMs, reserved = false } = stand;
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
    ledger: parseLedger(key, lease),
    isUnreadable: false,
    rollout: { reconciledMs: atMs, progressMs },
  };
}

/** One replica that answers reviews, as Prometheus has it by the rendered ServiceMonitor. */
class Replica {
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

/** What two replicas in each of the namespaces answer for so many minutes. `step` comes before each scrape. */
async function hours(minutes: number, namespaces: readonly string[], step: Step): Promise<Scrape[]> {
  const replicas = namespaces.flatMap((namespace) => ["one", "two"].map((pod) => new Replica(namespace, pod)));
  const scrapes: Scrape[] = [];
  for (let atMs = startMs; atMs <= startMs + minutes * minuteMs; atMs += everyMs) {
    step(atMs, replicas);
    for (const replica of replicas) scrapes.push(await replica.scrape(atMs));
  }
  return scrapes;
}

function minutesAt(atMs: number): number {
  return (atMs - startMs) / minuteMs;
}

/** What has fired, as `NAME NAMESPACE/GROUP`, with the minute. */
async function firedIn(scrapes: readonly Scrape[], namespace: string): Promise<[what: string, minute: number][]> {
  assert.ok(!(program instanceof Error));
  const { fired } = await alertsAfter(program, scrapes, namespace);
  return fired.map(({ name, labels: { namespace: of, rollout_group: group }, atMs }) => [
    `${name} ${of}${group === undefined ? "" : `/${group}`}`,
    minutesAt(atMs),
  ]);
}

/** The one alert that fired, and when: within a minute of that, because scrapes and evaluations come twice in one. */
function assertFired(fired: readonly (readonly [string, number])[], what: string, minute: number): void {
  assert.equal(fired.length, 1, JSON.stringify(fired));
  assert.equal(fired[0]?.[0], what);
  const off = Math.abs((fired[0]?.[1] ?? 0) - minute);
  assert.ok(off <= 1, `${what} at minute ${fired[0]?.[1]}, and not at ${minute}`);
}

const db = (namespace: string) => ({ namespace, group: "db" });

/** All replicas show each group of their namespace so. */
function show(replicas: readonly Replica[], atMs: number, standOf: (namespace: string) => Stand = () => ({})): void {
  for (const replica of replicas) {
    const { namespace = "" } = replica.labels;
    replica.standings = [standingOf(db(namespace), atMs, standOf(namespace))];
  }
}

/** A drain of some nodes retries its evictions, and reviews go to one replica and the other. */
function drain(replicas: readonly Replica[], namespace: string, isAllowed: boolean): void {
  const own = replicas.filter(({ labels }) => labels.namespace === namespace);
  for (const [index, { metrics }] of own.entries()) {
    for (let retry = 0; retry < 5; retry++) metrics.countEviction(db(namespace), false);
    if (isAllowed && index === 0) metrics.countEviction(db(namespace), true);
  }
}

suite("alerts over hours", { skip }, () => {
  test("SluiceDown fires when no replica has answered for 5 minutes, and still after 3 hours; one replica is enough", async () => {
    const scrapes = await hours(250, ["mimir", "loki"], (atMs, replicas) => {
      show(replicas, atMs);
      const minute = minutesAt(atMs);
      for (const replica of replicas) {
        const { namespace, pod } = replica.labels;
        if (namespace === "mimir") replica.isUp = pod === "one" ? minute < 60 : minute < 30;
      }
    });
    assertFired(await firedIn(scrapes, "mimir"), "SluiceDown mimir", 65);
    assert.deepEqual(await firedIn(scrapes, "loki"), []);
    assert.ok(!(program instanceof Error));
    const active = await activeAlerts(program, scrapes, "mimir");
    assert.deepEqual(
      active.map(({ name, state, labels: { severity } }) => [name, state, severity]),
      [["SluiceDown", "firing", "critical"]],
    );
    assert.match(active[0]?.annotations.description ?? "", /First: kubectl -n mimir get deployments,pods /);
  });

  test("SluiceEvictionsRefused fires when a group's evictions have been refused for 30 minutes, whatever a group of the same name does", async () => {
    const scrapes = await hours(120, ["mimir", "loki"], (atMs, replicas) => {
      const minute = minutesAt(atMs);
      show(replicas, atMs);
      drain(replicas, "loki", minute % 8 === 0);
      // The drain made progress until its last pod at minute 20.
      if (minute >= 5) drain(replicas, "mimir", minute === 10 || minute === 20);
    });
    assertFired(await firedIn(scrapes, "mimir"), "SluiceEvictionsRefused mimir/db", 50);
    assert.ok(!(program instanceof Error));
    const [{ annotations = {} } = {}] = await activeAlerts(program, scrapes, "mimir");
    assert.match(annotations.description ?? "", /^No function has said why\. First: kubectl sluice why db -n mimir\. /);
  });

  test("a drain that is refused from its first eviction on fires after 30 minutes, though a replica is replaced meanwhile", async () => {
    const scrapes = await hours(70, ["mimir"], (atMs, replicas) => {
      const minute = minutesAt(atMs);
      const [first = assert.fail(), second = assert.fail()] = replicas;
      second.isUp = minute < 35;
      if (minute === 37) replicas.push(new Replica("mimir", "three"));
      show(replicas, atMs);
      if (minute >= 20) drain([first, replicas.at(-1) ?? first], "mimir", false);
    });
    assertFired(await firedIn(scrapes, "mimir"), "SluiceEvictionsRefused mimir/db", 50);
  });

  test("SluiceClaimStands fires when a claim has stood for an hour, though it was renewed; a delay that a user chose does not count", async () => {
    const madeMs = startMs + 10 * minuteMs;
    const at = (delayMinutes: number) =>
      hours(200, ["mimir"], (atMs, replicas) => {
        const claim = scaleDown(madeMs, Math.max(madeMs, atMs - minuteMs));
        const scaling = { delay: { delayMs: delayMinutes * minuteMs, endpoint: undefined } } as StatefulSet["scaling"];
        const zone = { graceMs: 0, scaling: delayMinutes === 0 ? undefined : scaling };
        show(replicas, atMs, () => ({ claims: atMs >= madeMs ? [claim] : [], zone }));
      });
    assertFired(await firedIn(await at(0), "mimir"), "SluiceClaimStands mimir/db", 70);
    assertFired(await firedIn(await at(45), "mimir"), "SluiceClaimStands mimir/db", 115);
    assert.deepEqual(await firedIn(await at(720), "mimir"), []);
  });

  test("a claim that only a later version knows may stand for an hour as well", async () => {
    const scrapes = await hours(120, ["mimir"], (atMs, replicas) =>
      show(replicas, atMs, () => ({
        claims: minutesAt(atMs) >= 10 ? [JSON.stringify({ id: "later", kind: "later", zone: "a" })] : [],
      })),
    );
    assertFired(await firedIn(scrapes, "mimir"), "SluiceClaimStands mimir/db", 70);
  });
});

suite("groups of one name in two namespaces", { skip }, () => {
  /** Makes a group have something to show in each graph of groups. */
  const report = (reporting: Replica["reporting"], key: GroupKey): void => {
    const by = { key, function: "advance-zone-rollout" };
    reporting.reconciled(key, 0.1, new Error("no"));
    reporting.reconciled(key, 0.1);
    reporting.metrics.countEviction(key, true);
    reporting.verdict({ ...by, guard: "budget", zone: "a", message: "", sinceMs: startMs, shadow: false });
    reporting.conflict(key, by.function);
    reporting.health({ ...by, product: "generic", state: "good" });
    reporting.parked({ function: by.function, parked: 1, ended: { outcome: "allowed", seconds: 1 } });
    reporting.metrics.neverPossible.note({ namespace: key.namespace, function: by.function, zone: "a" });
    reporting.metrics.certificateNotAfter.set({ source: "secret" }, startMs / 1000);
  };
  const stand = { claims: [scaleDown(startMs)], waitsSinceMs: startMs, reserved: true };
  /** Asserts that each of these queries of the dashboard has series of both namespaces. */
  const assertBoth = async (scrapes: readonly Scrape[], isAsked: (query: string) => boolean, least: number) => {
    assert.ok(!(program instanceof Error));
    const queries = queriesOfDashboard().filter(isAsked);
    assert.ok(queries.length >= least, `${queries.length} queries`);
    for (const [index, series] of (await answersTo(program, scrapes, queries)).entries()) {
      const namespaces = new Set(series.map(({ namespace }) => namespace));
      assert.deepEqual([...namespaces].sort(), ["loki", "mimir"], queries[index]);
    }
  };
  /** What comes of requests, of changes of budgets and of suspended volumes, which no group here has. */
  const isOfOthers = (query: string) => /request|zpdb|suspended|removal/.test(query);

  test("of two releases are two series in each graph of the dashboard", async () => {
    const scrapes = await hours(2, ["mimir", "loki"], (atMs, replicas) => {
      show(replicas, atMs, () => stand);
      for (const { reporting, labels } of replicas) report(reporting, db(labels.namespace ?? ""));
    });
    await assertBoth(scrapes, (query) => !isOfOthers(query), 20);
  });

  test("of one release that serves both are two series in each graph of groups", async () => {
    const scrapes = await hours(2, ["sluice"], (atMs, replicas) => {
      for (const replica of replicas) {
        const keys = ["mimir", "loki"].map(db);
        replica.standings = keys.map((key) => standingOf(key, atMs, stand));
        for (const key of keys) report(replica.reporting, key);
      }
    });
    await assertBoth(scrapes, (query) => query.includes("rollout_group"), 12);
  });
});

suite("when nothing fires", { skip }, () => {
  const namespaces = ["mimir", "loki"];

  test("at rest", async () => {
    assert.deepEqual(
      await firedIn(await hours(180, namespaces, (atMs, replicas) => show(replicas, atMs)), "mimir"),
      [],
    );
  });

  test("in a rollout of two hours whose pods take ten minutes each, with claims that come and go", async () => {
    const scrapes = await hours(120, namespaces, (atMs, replicas) => {
      const progressMs = startMs + Math.floor(minutesAt(atMs) / 10) * 10 * minuteMs;
      // The claim is another one each half hour, and there is none for its last minutes.
      const madeMs = startMs + Math.floor(minutesAt(atMs) / 30) * 30 * minuteMs;
      const claims = atMs - madeMs < 25 * minuteMs ? [scaleDown(madeMs)] : [];
      show(replicas, atMs, () => ({ progressMs, waitsSinceMs: progressMs, claims }));
    });
    assert.deepEqual(await firedIn(scrapes, "mimir"), []);
  });

  test("in a drain of an hour that makes progress, with a pod each eight minutes, and after it", async () => {
    const scrapes = await hours(100, namespaces, (atMs, replicas) => {
      const minute = minutesAt(atMs);
      show(replicas, atMs);
      if (minute >= 5 && minute <= 65) drain(replicas, "mimir", minute % 8 === 0);
    });
    assert.deepEqual(await firedIn(scrapes, "mimir"), []);
  });

  test("while a client is refused once, and asks no more", async () => {
    const scrapes = await hours(100, namespaces, (atMs, replicas) => {
      show(replicas, atMs);
      if (minutesAt(atMs) === 10) drain(replicas, "mimir", false);
    });
    assert.deepEqual(await firedIn(scrapes, "mimir"), []);
  });
});

suite("alerts by one metric", { skip }, () => {
  const namespace = "tempo";
  /** Of the replica's own namespace, which is another one than the group's. */
  const up = "sluice_build_info 1\n";
  const alertsOf = (scrapes: readonly Scrape[]) => {
    assert.ok(!(program instanceof Error));
    return activeAlerts(program, scrapes, "elsewhere");
  };
  /** The same answer every 30 s for so long. */
  const repeated = ([one = assert.fail()]: readonly Scrape[], minutes: number) =>
    Array.from({ length: 2 * minutes + 1 }, (_, index) => ({ ...one, atMs: one.atMs + index * everyMs }));

  test("a ledger that cannot be read is an alert", async () => {
    const series = `${up}sluice_group_ledger_unreadable{namespace="${namespace}",rollout_group="ingester"} 1\n`;
    const one = { atMs: Date.now(), labels: { namespace: "elsewhere", job: "rollout-operator" }, text: series };
    const alerts = await alertsOf(repeated([one], 6));
    assert.deepEqual(
      alerts.map(({ name, state, labels }) => [name, state, labels.namespace]),
      [["SluiceLedgerUnreadable", "firing", namespace]],
    );
  });

  test("what can never be is an alert at once, from the one drain that asked and gave up, and for a quarter of an hour", async () => {
    const atMs = Date.now();
    const labels = `namespace="${namespace}",function="evaluate-eviction",zone="ingester-a"`;
    const text = `${up}sluice_never_possible_timestamp_seconds{${labels}} ${atMs / 1000}\n`;
    const one = { atMs: atMs + 1_000, labels: { namespace: "elsewhere", job: "rollout-operator" }, text };
    const firing = (await alertsOf([one])).map(({ name, state, labels: { zone } }) => [name, state, zone]);
    assert.deepEqual(firing, [["SluiceNeverPossible", "firing", "ingester-a"]]);
    assert.deepEqual(await alertsOf(repeated([one], 16)), [], "no client has asked since");
  });

  test("a volume that is removed within the hour is an alert at once, and names the command that keeps it; one of tomorrow is none", async () => {
    const atMs = Date.now();
    const left = (hours: number) => {
      const seconds = atMs / 1000 + hours * 3_600;
      const text = `${up}sluice_volume_removal_timestamp_seconds{namespace="${namespace}",zone="db-zone-a"} ${seconds}\n`;
      return { atMs: atMs + 1_000, labels: { namespace: "elsewhere", job: "rollout-operator" }, text };
    };
    const alerts = await alertsOf([left(0.5)]);
    assert.deepEqual(
      alerts.map(({ name, state, labels: { zone } }) => [name, state, zone]),
      [["SluiceVolumeRemovalNears", "firing", "db-zone-a"]],
    );
    assert.match(alerts[0]?.annotations.description ?? "", /kubectl sluice recover/);
    assert.deepEqual(await alertsOf([left(24)]), []);
  });
});

/** The alerts of fencing by Prometheus's own code, over hours of what replicas and agents export; and where they are scraped. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { mock, suite, test } from "node:test";
import { Registry } from "prom-client";
import { formatMetrics } from "../../functions/fence-node/agent/metrics.ts";
import { agentSettings } from "../../functions/fence-node/agent/settings.ts";
import type { FencesReport } from "../../functions/shared/contract/reporter.ts";
import { fencingAlerts, fencingMonitors, fencingRule, whatToDo } from "../../knative/render/fencing/monitoring.ts";
import { fencingNamespace as namespace } from "../../knative/render/fencing/names.ts";
import { createFenceMetrics } from "../../triggers/telemetry/fence-metrics.ts";
import { createMetrics } from "../../triggers/telemetry/metrics.ts";
import { ensureAlerting, fencingAlertsAfter, groupingsOf, type Scrape, shippedFencingAlerts } from "./alerting.ts";

const root = join(import.meta.dirname, "../..");
const program = await ensureAlerting(console.error).catch((error: Error) => error);
if (program instanceof Error && process.env.CI === "true") throw program;
const skip = program instanceof Error ? `no alerting rules: ${program.message}` : false;

const minuteMs = 60_000;
const dayMinutes = 1_440;
const startMs = Date.UTC(2026, 10, 27);

/** What is true of the cluster in a minute; undefined: the replica, or what Prometheus scrapes of the agents, is missing. */
interface Minute {
  readonly waiting?: FencesReport["waiting"];
  readonly armed?: number;
  readonly notArmed?: number;
  /** The replicas list the nodes. */
  readonly isListing?: boolean;
  readonly areAgentsScraped?: boolean;
}

const agentPage = formatMetrics({
  ...{ nowMs: 10_000, permitMs: 9_000, renewals: 1, lostRenewals: 0, feeds: 1, isArmed: true, why: undefined },
  ...{ isFenced: false, drillsAnswered: 0, hasReset: false, residentBytes: 1 },
});

/** One replica of two in a process of its own. */
class Replica {
  readonly #registry = new Registry();
  readonly #metrics = createFenceMetrics([this.#registry]);
  readonly labels: Readonly<Record<string, string>>;

  constructor(pod: string) {
    this.labels = { namespace, pod };
  }

  list({ waiting = [], armed = 3, notArmed = 0 }: Minute): void {
    this.#metrics.fences({ phases: new Map([["armed", waiting.length]]), waiting });
    const modes = new Map([
      ["armed", armed],
      ["explicit-only", notArmed],
      ["silent", 0],
    ]);
    this.#metrics.agents({ modes, slots: 0 });
  }

  async scrape(atMs: number): Promise<Scrape> {
    return { atMs, labels: this.labels, text: await this.#registry.metrics() };
  }
}

/** What fired, with the minute, and what is active in the end. */
async function story(minutes: number, minuteOf: (minute: number) => Minute, everyMinutes = 1) {
  assert.ok(!(program instanceof Error));
  mock.timers.enable({ apis: ["Date"], now: startMs });
  const scrapes: Scrape[] = [];
  try {
    const replicas = ["one", "two"].map((pod) => new Replica(pod));
    for (let minute = 0; minute <= minutes; minute += everyMinutes) {
      const atMs = startMs + minute * minuteMs;
      mock.timers.setTime(atMs);
      const now = minuteOf(minute);
      for (const replica of replicas) {
        if (now.isListing !== false) replica.list(now);
        scrapes.push(await replica.scrape(atMs));
      }
      const text = now.areAgentsScraped === false ? "" : agentPage;
      scrapes.push({ atMs, labels: { namespace, pod: "agent", node: "n" }, text });
    }
  } finally {
    mock.timers.reset();
  }
  const { fired, alerts } = await fencingAlertsAfter(program, scrapes);
  return { fired: fired.map(({ name, atMs }) => [name, Math.round((atMs - startMs) / minuteMs)] as const), alerts };
}

function assertFired(fired: readonly (readonly [string, number])[], name: string, minute: number): void {
  assert.equal(fired.length, 1, JSON.stringify(fired));
  assert.equal(fired[0]?.[0], name);
  assert.ok(Math.abs((fired[0]?.[1] ?? 0) - minute) <= 1, `at minute ${fired[0]?.[1]}, and not at ${minute}`);
}

const waitsFor = (guard: string, sinceMinute: number): FencesReport["waiting"] => [
  { guard, fences: 1, sinceMs: startMs + sinceMinute * minuteMs },
];

suite("alerts of fencing over hours", { skip }, () => {
  test("none fires in a calm day, with fences that wait for a few minutes, nodes that are taken away, and one that reboots", async () => {
    const calm = await story(
      dayMinutes + 360,
      (minute) => ({
        waiting: minute % 60 < 8 ? waitsFor("budget", minute - (minute % 60)) : [],
        armed: minute > dayMinutes ? 2 : 3 - (minute % 300 < 10 ? 1 : 0),
        notArmed: minute <= dayMinutes && minute % 300 < 10 ? 1 : 0,
      }),
      4,
    );
    assert.deepEqual([calm.fired, calm.alerts], [[], []]);
  });

  test("SluiceFenceWaits fires when a fence has been blocked for 10 minutes, says what to do, and ends with the wait", async () => {
    const minuteOf = (until: number) => (minute: number) => ({
      waiting: minute >= 5 && minute < until ? waitsFor("quorum", 5) : [],
    });
    const { fired, alerts } = await story(30, minuteOf(60));
    assertFired(fired, "SluiceFenceWaits", 16);
    assert.deepEqual([alerts[0]?.labels.guard, alerts[0]?.labels.namespace], ["quorum", namespace]);
    const { description = "" } = alerts[0]?.annotations ?? {};
    assert.equal(description, `First: kubectl sluice fenced shows which node that is. ${whatToDo.quorum}`);
    assert.deepEqual((await story(30, minuteOf(20))).alerts, []);
  });

  test("SluiceFewerArmedNodes fires when a node is not armed any more that was a day before", async () => {
    const { fired, alerts } = await story(
      dayMinutes + 120,
      (minute) => (minute > dayMinutes + 60 ? { armed: 2, notArmed: 1 } : {}),
      4,
    );
    assertFired(fired, "SluiceFewerArmedNodes", dayMinutes + 64 + 15);
    assert.match(alerts[0]?.annotations.summary ?? "", /: 2 are left\.$/);
  });

  test("SluiceFencingDown fires when no replica lists while agents are there, by what agents or the last hour show", async () => {
    const down = (areAgentsScraped: boolean) => (minute: number) => ({ isListing: minute < 20, areAgentsScraped });
    const minute = 19 + 3 + 5;
    assertFired((await story(200, down(true))).fired, "SluiceFencingDown", minute);
    const { fired, alerts } = await story(60, down(false));
    assertFired(fired, "SluiceFencingDown", minute);
    assert.equal(alerts[0]?.labels.severity, "critical");
    const none = await story(60, () => ({ isListing: false, areAgentsScraped: false }));
    assert.deepEqual(none.fired, [], "there is no fencing");
  });

  test("the gauges of a replica that lists no more raise no alert about what is over", async () => {
    mock.timers.enable({ apis: ["Date"], now: startMs });
    const stale = new Replica("one");
    const fresh = new Replica("two");
    const scrapes: Scrape[] = [];
    stale.list({ waiting: waitsFor("quorum", -5) });
    for (let minute = 0; minute <= 30; minute++) {
      const atMs = startMs + minute * minuteMs;
      mock.timers.setTime(atMs);
      fresh.list({});
      scrapes.push(await stale.scrape(atMs), await fresh.scrape(atMs));
    }
    mock.timers.reset();
    assert.ok(!(program instanceof Error));
    assert.deepEqual((await fencingAlertsAfter(program, scrapes)).fired, []);
  });

  test("every alert that groups does it by namespace", async () => {
    assert.ok(!(program instanceof Error));
    const groupings = await groupingsOf(
      program,
      fencingAlerts.map(({ expression }) => expression),
    );
    assert.ok(groupings.flat().length > 8);
    for (const { labels, without } of groupings.flat()) assert.notEqual(without, labels.includes("namespace"));
  });
});

test("each alert of fencing that ships fires in a story here", () => {
  const text = readFileSync(import.meta.filename, "utf8");
  for (const name of shippedFencingAlerts) assert.ok(text.includes(`"${name}", `), name);
  assert.deepEqual(
    shippedFencingAlerts,
    fencingAlerts.map(({ name }) => name),
  );
});

test("the alerts ask for metrics that replicas or agents have, and each says what to do first", () => {
  const exported = createMetrics("0", () => 0).registry.getMetricsAsArray();
  const names = new Set(exported.map(({ name }) => name));
  for (const [, name = ""] of agentPage.matchAll(/^# TYPE (\S+)/gm)) names.add(name);
  const asked = JSON.stringify(fencingRule()).match(/\bsluice_[a-z_]+/g) ?? [];
  assert.ok(asked.length > 5);
  assert.deepEqual(
    asked.filter((one) => !names.has(one)),
    [],
  );
  for (const { first } of fencingAlerts) assert.match(first, /\bkubectl\b/);
});

test("the runbook of each alert of fencing is a section of a README that is there", () => {
  for (const { runbook } of fencingAlerts) {
    const [path = "", section = ""] = runbook.split("#");
    const headings = readFileSync(join(root, path), "utf8").match(/^#+ .+$/gm) ?? [];
    const anchors = headings.map((heading) => heading.replace(/^#+ /, "").toLowerCase().replaceAll(" ", "-"));
    assert.ok(anchors.includes(section), runbook);
  }
});

test("for each guard that blocks a fence the alert says what to do", () => {
  const files = globSync("functions/fence-node/decide*.ts", { cwd: root });
  const sources = files.map((path) => readFileSync(join(root, path), "utf8")).join("\n");
  const blocking = [
    ...sources.matchAll(/onRecord\(\s*wait\(\s*"([a-z-]+)"/g),
    ...sources.matchAll(/kind: "blocked", guard: "([a-z-]+)"/g),
    ...sources.matchAll(/return \{\s*guard: "(budget|storm|control-plane)",\s*message/g),
  ].map(([, guard = ""]) => guard);
  assert.ok(blocking.length > 12, blocking.join(", "));
  assert.deepEqual(
    [...new Set(blocking)].filter((guard) => whatToDo[guard] === undefined),
    [],
  );
});

test("agents are scraped at their port, which no container declares, over IPv4 and IPv6", () => {
  const [functions = assert.fail(), agents = assert.fail()] = fencingMonitors().map(
    ({ spec }) =>
      (spec as { podMetricsEndpoints: { port?: string; relabelings?: Record<string, unknown>[] }[] })
        .podMetricsEndpoints[0] ?? assert.fail(),
  );
  assert.equal(functions.port, "http-metrics");
  assert.equal(agents.port, undefined);
  const addresses = (agents.relabelings ?? []).filter(({ targetLabel }) => targetLabel === "__address__");
  /** As Prometheus does it: the whole address has to match. */
  const scraped = (address: string) =>
    addresses.reduce(
      (text, { regex, replacement }) => text.replace(new RegExp(`^(?:${regex})$`), String(replacement)),
      address,
    );
  const port = agentSettings.peerPort.fallback;
  assert.equal(scraped("10.0.0.7"), `10.0.0.7:${port}`);
  assert.equal(scraped("fd00::7"), `[fd00::7]:${port}`);
  assert.equal(scraped("::ffff:10.0.0.7"), `[::ffff:10.0.0.7]:${port}`);
});

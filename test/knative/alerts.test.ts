/** The alerts by Prometheus's own code, over hours of what the shipped metrics export of groups that stand as a test says. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { parseStoredBudget } from "../../functions/shared/groups/governing.ts";
import type { GroupKey, StatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import {
  activeAlerts,
  alertsAfter,
  answersTo,
  ensureAlerting,
  queriesOfDashboard,
  type Scrape,
  shippedAlerts,
} from "./alerting.ts";
import {
  db,
  drain,
  hours,
  minuteMs,
  minutesAt,
  Replica,
  type Stand,
  scaleDown,
  show,
  standingOf,
  startMs,
} from "./scraped-hours.ts";

const program = await ensureAlerting(console.error).catch((error: Error) => error);
if (program instanceof Error && process.env.CI === "true") throw program;
const skip = program instanceof Error ? `no alerting rules: ${program.message}` : false;

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
    const scrapes = await hours(60, ["mimir", "loki"], (atMs, replicas) => {
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
      hours(130, ["mimir"], (atMs, replicas) => {
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
    const scrapes = await hours(80, ["mimir"], (atMs, replicas) =>
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
      await firedIn(await hours(100, namespaces, (atMs, replicas) => show(replicas, atMs)), "mimir"),
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

/** How an alert comes and goes. What a row does not say is as at rest. */
interface Row {
  /** Has a replica show what is wrong, which began at `sinceMs`. */
  readonly wrong: (replica: Replica, atMs: number, sinceMs: number) => void;
  /** Has it show the opposite, before that and afterwards; absent: {@link show} is enough. */
  readonly right?: (replica: Replica, atMs: number) => void;
  /** Minutes until it fires. */
  readonly after: number;
  /** What its reader is told, besides what every alert tells. */
  readonly description?: RegExp;
}

const stands =
  (standOf: (sinceMs: number) => Stand): Row["wrong"] =>
  (replica, atMs, sinceMs) =>
    show([replica], atMs, () => standOf(sinceMs));
const setPolicy = ({ metrics, labels }: Replica, ofEvictions: "Ignore" | "Fail") => {
  const policies = { "pod-eviction": ofEvictions, "zpdb-validation": "Ignore" };
  for (const [webhook, set] of Object.entries(policies))
    for (const policy of ["Ignore", "Fail"])
      metrics.webhookFailurePolicy.set(
        { type: "validating", webhook: `${webhook}-${labels.namespace}`, policy },
        policy === set ? 1 : 0,
      );
};
const setExpiry = ({ metrics }: Replica, atMs: number, days: number) =>
  metrics.certificateNotAfter.set({ source: "secret" }, atMs / 1000 + days * 86_400);
const setRemoval = ({ metrics, labels: { namespace = "" } }: Replica, removableMs: number) =>
  metrics.showVolumes(async () => [
    {
      namespace,
      name: "data-db-zone-a-0",
      zone: "db-zone-a",
      state: "suspended",
      bytes: 1,
      suspendedMs: 0,
      removableMs,
    },
  ]);
const setKeyAsked = ({ metrics }: Replica, isAsked: boolean) =>
  metrics.showReviewKeyAsked(() => [
    ["/admission/no-downscale", true],
    ["/pods/eviction", isAsked],
  ]);

const noteBudget = ({ metrics, labels: { namespace = "" } }: Replica, maxUnavailable: number) => {
  const metadata = { namespace, name: "db", uid: "budget", resourceVersion: "1" };
  const spec = { maxUnavailable, selector: { matchLabels: { app: "db" } } };
  metrics.budgets.note(parseStoredBudget({ metadata, spec }), "updated");
};

/** Of each alert that ships. */
const rows: Readonly<Record<string, Row>> = {
  IncorrectWebhookConfigurationFailurePolicy: {
    wrong: (replica) => setPolicy(replica, "Ignore"),
    right: (replica) => setPolicy(replica, "Fail"),
    after: 5,
  },
  BadZoneAwarePodDisruptionBudgetConfiguration: {
    // The watch delivers it once.
    wrong: (replica, atMs, sinceMs) => {
      if (atMs === sinceMs) noteBudget(replica, -1);
    },
    right: (replica) => noteBudget(replica, 1),
    after: 5,
  },
  HighNumberInflightZpdbRequests: {
    // The mean of five minutes is above ten after half of them.
    wrong: ({ metrics, labels }) => metrics.inflightEvictions.set(labels.pod === "one" ? 20 : 0),
    right: ({ metrics }) => metrics.inflightEvictions.set(0),
    after: 8,
  },
  RolloutOperatorNotReconciling: { wrong: stands((reconciledMs) => ({ reconciledMs })), after: 15 },
  SluiceRolloutStuck: {
    wrong: stands((progressMs) => ({ progressMs, waitsSinceMs: progressMs })),
    after: 35,
    description:
      /^advance-zone-rollout has waited since 2026-11-27 .* UTC: guard zone-settling, zone a\. First: kubectl sluice why db /,
  },
  SluiceLedgerUnreadable: { wrong: stands(() => ({ isUnreadable: true })), after: 5 },
  SluiceNeverPossible: {
    // The one drain that asked gives up.
    wrong: ({ metrics, labels: { namespace = "" } }, atMs, sinceMs) => {
      if (atMs === sinceMs) metrics.neverPossible.note({ namespace, function: "evaluate-eviction", zone: "db-zone-a" });
    },
    after: 0,
  },
  SluiceVolumeRemovalNears: {
    wrong: (replica, atMs) => setRemoval(replica, atMs + 30 * minuteMs),
    right: (replica, atMs) => setRemoval(replica, atMs + 24 * 60 * minuteMs),
    after: 0,
    description: /kubectl sluice recover/,
  },
  SluiceReviewKeyNotAsked: {
    wrong: (replica) => setKeyAsked(replica, false),
    right: (replica) => setKeyAsked(replica, true),
    after: 15,
  },
  SluiceStandsBy: {
    wrong: ({ metrics, labels: { namespace = "" } }) =>
      metrics.showOtherOperator(() => [{ namespace, pod: "rollout-operator-0" }]),
    right: ({ metrics }) => metrics.showOtherOperator(() => []),
    after: 15,
    description: /^First: kubectl -n mimir get pod rollout-operator-0 --show-labels /,
  },
  SluiceCertificateExpiresSoon: {
    wrong: (replica, atMs) => setExpiry(replica, atMs, 3),
    right: (replica, atMs) => setExpiry(replica, atMs, 60),
    after: 5,
  },
  SluiceDown: {
    wrong: (replica) => {
      replica.isUp = false;
    },
    right: (replica) => {
      replica.isUp = true;
    },
    after: 5,
  },
  SluiceEvictionsRefused: { wrong: (replica) => drain([replica], replica.labels.namespace ?? "", false), after: 30 },
  SluiceClaimStands: {
    wrong: stands((sinceMs) => ({ claims: [scaleDown(sinceMs)], zone: { graceMs: 0 } })),
    after: 60,
  },
};

test("each alert that ships comes and goes in a test here", () => {
  assert.deepEqual(Object.keys(rows).toSorted(), shippedAlerts.toSorted());
});

suite("each alert that ships", { skip }, () => {
  const sinceMs = startMs + 10 * minuteMs;

  for (const [name, { wrong, right, after, description }] of Object.entries(rows))
    test(`${name} fires ${after} minutes after its cause, for that namespace alone, and is gone afterwards`, async () => {
      const untilMs = sinceMs + (after + 5) * minuteMs;
      const scrapes = await hours(10 + after + 20, ["mimir", "loki"], (atMs, replicas) => {
        for (const replica of replicas) {
          show([replica], atMs);
          const isWrong = replica.labels.namespace === "mimir" && atMs >= sinceMs && atMs < untilMs;
          if (isWrong) wrong(replica, atMs, sinceMs);
          else right?.(replica, atMs);
        }
      });
      assert.ok(!(program instanceof Error));
      const { fired, alerts: left } = await alertsAfter(program, scrapes, "mimir");
      assertFired(
        fired.map((one) => [`${one.name} ${one.labels.namespace}`, minutesAt(one.atMs)]),
        `${name} mimir`,
        10 + after,
      );
      assert.deepEqual(left, [], "all is well again");
      const before = scrapes.filter(({ atMs }) => atMs < untilMs);
      const [alert] = description === undefined ? [] : await activeAlerts(program, before, "mimir");
      if (description !== undefined) assert.match(alert?.annotations.description ?? "", description);
    });
});

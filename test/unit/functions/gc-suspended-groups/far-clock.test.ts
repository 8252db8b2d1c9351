/** If the clock of the API server or of the process is wrong, no duration is over by that clock alone, and no volume goes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { whyClocksUnsure } from "../../../../functions/shared/suspension/clocks.ts";
import { namespace } from "../../shared/reconcile/harness.ts";
import { top, Volumes, volumes } from "../../shared/suspension/volumes.ts";

const minuteMs = 60_000;
const dayMs = 86_400_000;

/** How far the two clocks are ahead of the true time, in milliseconds. */
interface Off {
  server: number;
  process: number;
}

/** A fake cluster in which a test sets both clocks. */
class Clocked extends Volumes {
  readonly off: Off = { server: 0, process: 0 };

  constructor(duration: string, policy: Readonly<Record<string, string>> = {}) {
    super(duration, policy);
    const good = this.context.cluster;
    const cluster: Cluster = wrapCluster(good, {
      serverTimeMs: () => good.serverTimeMs() + this.off.server,
      wallTimeMs: () => good.wallTimeMs() + this.off.process,
    });
    this.restart({ cluster });
  }

  set(off: Partial<Off>): void {
    Object.assign(this.off, off);
  }

  /** Runs both functions and the sweep, every ten seconds. */
  async reconcileFor(ms: number): Promise<void> {
    for (let leftMs = ms; leftMs > 0; leftMs -= 10_000) {
      await this.suspend();
      await this.collect();
      await this.sweepStrays();
      await this.goOn(10_000);
    }
  }

  assertKept(what?: string): void {
    assert.ok(this.isKept(top), what);
    assert.notEqual(this.recorded(top, "suspend-state"), "Removing", what);
  }

  /** True while our finalizer keeps it. */
  get isBlocked(): boolean {
    return this.claim(top)?.metadata.finalizers?.includes("sluice.dev/volume-hold") ?? false;
  }

  get isUnsure(): boolean {
    return this.verdicts.some(({ guard }) => guard === "clock-unsure");
  }
}

const clocks: readonly Partial<Off>[] = [
  { server: 8 * dayMs },
  { server: -8 * dayMs },
  { server: 9 * minuteMs },
  { process: 8 * dayMs },
  { process: -8 * dayMs },
  { process: 6 * minuteMs },
  { server: 3 * minuteMs, process: -3 * minuteMs },
];

for (const off of clocks)
  test(`clock-unsure: with the clocks off by ${JSON.stringify(off)} ms no volume goes, and the volume goes when they are right`, async () => {
    const on = new Clocked("600s");
    await on.suspended();
    await on.reconcileFor(5 * minuteMs);
    const since = on.recorded(top, "suspended-at");
    on.set(off);
    await on.reconcileFor(9 * minuteMs);
    on.assertKept();
    assert.ok(on.isUnsure);
    assert.equal(on.recorded(top, "suspended-at"), since, "its time stays as it was written");
    on.set({ server: 0, process: 0 });
    await on.until(
      () => on.claim(top) === undefined,
      () => on.collect(),
      700,
    );
  });

test("clock-unsure names both times and their difference, in a Warning Event, as long as the clocks differ", async () => {
  const on = new Clocked("7d");
  await on.suspended();
  on.set({ server: 8 * dayMs });
  await on.reconcileFor(minuteMs);
  const { guard, message = "" } = on.verdicts.findLast((one) => one.guard === "clock-unsure") ?? {};
  assert.equal(guard, "clock-unsure");
  const [, server = "", own = ""] =
    /it is (\S+Z) by the API server's .* and (\S+Z) by .*, (?:8d|7d 23h) apart/.exec(message) ?? [];
  assert.equal(Math.round((Date.parse(server) - Date.parse(own)) / dayMs), 8, message);
  const events = on.world.store.list("events").items as unknown as { type: string; message: string }[];
  const [event] = events.filter(({ message }) => message.includes("clock-unsure"));
  assert.equal(event?.type, "Warning", on.events.join("\n"));
});

test("an API server that is days ahead in one reconcile of three does not cause alternating writes of a volume claim", async () => {
  const on = new Clocked("7d");
  await on.suspended();
  await on.reconcileFor(minuteMs);
  on.forget();
  for (let round = 0; round < 60; round++) {
    on.set({ server: round % 3 === 1 ? 8 * dayMs : 0 });
    await on.reconcileFor(10_000);
  }
  on.assertKept();
  assert.ok(on.isUnsure && on.count(`patch ${volumes}`) <= 2, `${on.count(`patch ${volumes}`)} writes`);
});

const apart: readonly Partial<Off>[] = [
  { server: 4 * minuteMs },
  { process: 4 * minuteMs },
  { process: -4 * minuteMs },
  { server: -4 * minuteMs },
];
for (const off of apart)
  test(`with the clocks off by ${JSON.stringify(off)} ms the age is the smaller of the two`, async () => {
    const on = new Clocked("900s");
    await on.suspended();
    await on.reconcileFor(2 * minuteMs);
    on.set(off);
    const lateMs = Math.max(0, -(off.server ?? 0), -(off.process ?? 0));
    await on.reconcileFor(12 * minuteMs + lateMs);
    on.assertKept("for its time by the clock that is behind");
    await on.reconcileFor(2 * minuteMs);
    assert.equal(on.claim(top), undefined, "and no longer");
    assert.ok(!on.isUnsure);
  });

/** A user has deleted the claim while it was suspended, and no removal will come for it; or its StatefulSet is gone as well. */
async function deleted(isStray: boolean): Promise<Clocked> {
  const on = new Clocked("600s");
  await on.suspended();
  await on.suspend();
  on.world.store.delete(volumes, { namespace, name: top });
  if (isStray) on.world.store.delete("statefulsets", { namespace, name: "group-a" });
  else on.annotate(top, { suspend: null });
  return on;
}

for (const isStray of [false, true]) {
  const what = isStray ? "without a StatefulSet " : "";
  test(`clock-unsure: a volume claim ${what}that a user deleted is not released by clocks that are days off`, async () => {
    const wrong = [{ server: 8 * dayMs }, { process: 8 * dayMs }, { server: 9 * dayMs, process: 8 * dayMs }];
    for (const off of [...wrong, { server: -8 * dayMs }]) {
      const on = await deleted(isStray);
      on.set(off);
      await on.reconcileFor(minuteMs);
      assert.ok(on.isBlocked, JSON.stringify(off));
      if (isStray) assert.match(on.recorded(top, "suspend-message") ?? "", /^clock-unsure: /);
      // By a clock that is behind the duration is not over, which is reason enough.
      else assert.ok(on.isUnsure || off.server === -8 * dayMs);
      on.set({ server: 0, process: 0 });
      await on.reconcileFor(11 * minuteMs);
      assert.equal(on.claim(top), undefined, "it goes after its time");
    }
  });

  test(`a volume claim ${what}that a user deleted is kept for its duration by the clock that is behind`, async () => {
    const on = await deleted(isStray);
    on.set({ process: -4 * minuteMs });
    await on.reconcileFor(13 * minuteMs);
    assert.ok(on.isBlocked);
    await on.reconcileFor(2 * minuteMs);
    assert.equal(on.claim(top), undefined, "and no longer");
  });
}

test("clock-unsure: an earlier mark is taken back, its claim in the ledger ends, and the duration goes on", async () => {
  const on = new Clocked("60s");
  await on.suspended();
  const since = on.recorded(top, "suspended-at");
  await on.goOn(61_000);
  const { cluster } = on.context;
  on.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === volumes) throw new Error("the process has died");
  };
  await assert.rejects(
    on.until(
      () => false,
      () => on.collect(),
    ),
  );
  on.interfere = () => {};
  on.restart({ cluster });
  assert.equal(on.recorded(top, "suspend-state"), "Removing");
  on.forget();
  on.set({ server: 8 * dayMs });
  await on.reconcileFor(3 * minuteMs);
  on.assertKept();
  assert.ok(!on.acts.some(({ action }) => action === "remove"), "no removal is tried");
  assert.deepEqual([on.ledger.claims, on.recorded(top, "suspended-at")], [[], since]);
});

test("clock-unsure: if the clocks diverge between the mark and the deletion, nothing is deleted", async () => {
  const on = new Clocked("60s");
  await on.suspended();
  await on.goOn(61_000);
  on.interfere = ({ verb, resource, given }) => {
    if (verb === "patch" && resource === volumes && JSON.stringify(given).includes('"Removing"'))
      on.set({ process: dayMs });
  };
  await on.reconcileFor(2 * minuteMs);
  assert.equal(on.off.process, dayMs, "it was marked");
  on.assertKept();
});

test("work that depends on no duration is done while the clocks are unsure: a recover brings the pod back", async () => {
  const on = new Clocked("600s");
  await on.suspended();
  on.set({ server: 8 * dayMs });
  await on.reconcileFor(minuteMs);
  on.annotate(top, { recover: "true" });
  await on.reconcileFor(2 * minuteMs);
  assert.ok(on.pod("group-a-2") !== undefined);
  assert.equal(on.recorded(top, "recover"), undefined);
});

test("clock-unsure: no pod goes because a wait between two removals is over; the first removal needs no wait", async () => {
  const on = new Clocked("600s", { "wait-between-removals": "60s" });
  on.set({ server: 8 * dayMs });
  await on.suspended();
  on.set({ server: 0 });
  await on.reconcileFor(20_000);
  on.ask("data-group-b-2");
  on.set({ process: 8 * dayMs });
  await on.reconcileFor(3 * minuteMs);
  assert.ok(on.pod("group-b-2") !== undefined);
  assert.match(on.recorded("data-group-b-2", "suspend-message") ?? "", /^clock-unsure: group-b-2 waits: it is /);
  on.set({ process: 0 });
  await on.reconcileFor(3 * minuteMs);
  assert.equal(on.pod("group-b-2"), undefined);
});

test("no Event warns of a coming removal while the clocks are unsure, nor by the clock that is ahead", async () => {
  const on = new Clocked("600s");
  const isWarned = () => on.events.some((event) => event.startsWith("VolumeRemovalNears"));
  await on.suspended();
  on.set({ server: 4 * minuteMs });
  await on.reconcileFor(2 * minuteMs);
  assert.ok(!isWarned(), "half of it is over by one clock");
  on.set({ server: 9 * minuteMs });
  await on.reconcileFor(4 * minuteMs);
  assert.ok(!isWarned(), "and by two that are apart");
  on.set({ server: 0 });
  // A reconcile in the future does not count: the duration has begun anew.
  await on.reconcileFor(6 * minuteMs);
  assert.ok(isWarned());
});

test("clocks that differ by five minutes agree, and by a millisecond more they do not", () => {
  const nowMs = Date.UTC(2026, 5, 1);
  for (const sign of [1, -1]) {
    assert.equal(whyClocksUnsure({ nowMs, wallMs: nowMs + sign * 300_000 }), undefined);
    const { message = "" } = whyClocksUnsure({ nowMs, wallMs: nowMs + sign * 300_001 }) ?? {};
    assert.match(message, /^it is 2026-06-01T00:00:00Z by the API server's clock and \S+ by the clock .*, 5m apart/);
  }
});

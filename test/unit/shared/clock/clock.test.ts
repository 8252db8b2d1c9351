/** The clock of a process whose machine sleeps, or whose wall clock a user sets. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ServerTime } from "../../../../functions/shared/clock/server-time.ts";
import { SteadyClock } from "../../../../functions/shared/clock/steady-clock.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { findAbandoned } from "../../../../functions/shared/ledger/settling.ts";
import { noteLedger, refuseNewLedger } from "../../../../functions/shared/transaction/ledger-age.ts";
import type { GroupObservation } from "../../../../functions/shared/transaction/observe-group.ts";
import { rejection } from "../../../support/rejection.ts";
import { podObject, reservation } from "../../functions/advance-zone-rollout/given.ts";
import { withServer } from "../kubernetes/server.ts";
import { Harness } from "../reconcile/harness.ts";

/** A machine with two clocks that a test moves. */
class Machine {
  monotonicMs = 5_000;
  wallMs = Date.UTC(2026, 0, 1);
  readonly clock = new SteadyClock({ monotonicMs: () => this.monotonicMs, wallMs: () => this.wallMs });

  reconcile(ms: number): void {
    this.monotonicMs += ms;
    this.wallMs += ms;
  }

  sleep(ms: number): void {
    this.wallMs += ms;
  }

  setWallClock(byMs: number): void {
    this.wallMs += byMs;
  }
}

describe("clock", () => {
  test("the clock starts at the monotonic clock and goes on with it", () => {
    const machine = new Machine();
    assert.equal(machine.clock.nowMs(), 5_000);
    machine.reconcile(1_234.5);
    assert.deepEqual([machine.clock.nowMs(), machine.clock.skippedMs()], [6_234.5, 0]);
  });

  test("time during the machine's sleep counts once, at the next reading", () => {
    const machine = new Machine();
    machine.clock.nowMs();
    machine.sleep(3_600_000);
    machine.reconcile(10);
    const slept = 5_000 + 3_600_000 + 10;
    assert.ok(Math.abs(machine.clock.nowMs() - slept) < 1, `${machine.clock.nowMs()}`);
    machine.reconcile(10);
    assert.ok(Math.abs(machine.clock.nowMs() - slept - 10) < 1);
    assert.ok(Math.abs(machine.clock.skippedMs() - 3_600_000) < 1);
  });

  test("a wall clock that is set back changes nothing, and the time goes on", () => {
    const machine = new Machine();
    for (const byMs of [-1, -1_500, -3_600_000, -86_400_000]) {
      const before = machine.clock.nowMs();
      machine.setWallClock(byMs);
      machine.reconcile(100);
      assert.equal(machine.clock.nowMs(), before + 100);
    }
    machine.sleep(60_000);
    assert.ok(
      machine.clock.skippedMs() === 0 && machine.clock.nowMs() > 65_000,
      "a later sleep is seen from the new wall time",
    );
  });

  test("the clock never goes back, whatever the two clocks do", () => {
    const machine = new Machine();
    let lastMs = machine.clock.nowMs();
    for (let step = 0; step < 5_000; step++) {
      machine.reconcile((step * 7919) % 300);
      machine.setWallClock((((step * 104_729) % 8_000) - 4_000) * (step % 3));
      if (step % 11 === 0) machine.monotonicMs -= 1;
      const nowMs = machine.clock.nowMs();
      assert.ok(nowMs >= lastMs, `${nowMs} after ${lastMs}`);
      lastMs = nowMs;
    }
  });

  test("many short sleeps count like a long one: at most a second is lost", () => {
    const machine = new Machine();
    let trueMs = machine.clock.nowMs();
    for (let pause = 0; pause < 50; pause++) {
      machine.sleep(900);
      machine.reconcile(100);
      trueMs += 1_000;
      assert.ok(trueMs - machine.clock.nowMs() <= 1_001, `${trueMs - machine.clock.nowMs()}`);
    }
  });

  test("small corrections of the wall clock, and readings a moment apart, do not count as sleep", () => {
    const machine = new Machine();
    for (let ms = 0; ms < 86_400_000; ms += 10_000) {
      machine.reconcile(10_000);
      machine.setWallClock(5 + (ms % 20_000 === 0 ? 900 : -900));
      machine.clock.nowMs();
    }
    assert.equal(machine.clock.skippedMs(), 0);
  });
});

describe("after a sleep", () => {
  test("an act is late and is not sent (R9)", async () => {
    const machine = new Machine();
    await withServer({ clock: machine.clock }, async ({ cluster, server }) => {
      const notAfterMs = cluster.monotonicMs() + 5_000;
      const pod = { namespace: "ns", name: "web-0" };
      await cluster.delete("pods", pod, { uid: "u" }, { notAfterMs });
      machine.sleep(6_000);
      const error = await rejection(cluster.delete("pods", pod, { uid: "u" }, { notAfterMs }));
      assert.deepEqual([error.code, error.reason, server.requests.length], [0, "TooLate", 1]);
      assert.ok(cluster.monotonicMs() > notAfterMs);
    });
  });

  test("an act that waited for a connection is late when it gets one (R9)", async () => {
    const machine = new Machine();
    await withServer({ clock: machine.clock, connections: 1 }, async ({ cluster, server }) => {
      const arrived = Promise.withResolvers<() => void>();
      server.answer(({ response }) => arrived.resolve(() => response.end("{}")));
      const busy = cluster.get("pods", { namespace: "ns", name: "web-0" });
      const answer = await arrived.promise;
      const notAfterMs = cluster.monotonicMs() + 5_000;
      const act = rejection(cluster.delete("pods", { namespace: "ns", name: "web-1" }, { uid: "u" }, { notAfterMs }));
      // It was in time at first, and now waits for the only connection.
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
      machine.sleep(3_600_000);
      answer();
      await busy;
      assert.deepEqual([(await act).reason, server.requests.length], ["TooLate", 1]);
    });
  });

  test("a reconcile that slept between its reservation and its act deletes nothing, and reports late", async () => {
    const harness = new Harness();
    const { cluster } = harness.context;
    const machine = new Machine();
    const monotonicMs = () => cluster.monotonicMs() + machine.clock.nowMs();
    harness.restart({ cluster: { ...cluster, monotonicMs } });
    await harness.prepare();
    harness.interfere = ({ verb, resource }) => {
      if (verb === "patch" && resource === "leases") machine.sleep(60_000);
    };
    assert.equal(await harness.run(), 7_000);
    assert.deepEqual([harness.acts[0]?.result, harness.count("delete pods")], ["late", 0]);
  });

  test("the API server's time goes on during the sleep, and the next reply shows whether there was one", () => {
    const epochMs = Date.UTC(2026, 0, 1);
    const date = (ms: number) => new Date(Math.floor(ms / 1_000) * 1_000).toUTCString();
    for (const slept of [true, false]) {
      const time = new ServerTime();
      for (const ms of [1_000, 2_130, 3_260, 4_390, 5_520]) time.observe(date(epochMs + ms), ms - 2, ms + 2, 0);
      const before = time.uncertaintyMs();
      const jumpMs = 3_600_000;
      assert.equal(time.uncertaintyMs(jumpMs), before + jumpMs);
      const nowMs = 6_000 + jumpMs;
      assert.ok(Math.abs((time.at(nowMs) ?? 0) - epochMs - nowMs) < 600, "until then it counts as sleep");
      const trueMs = epochMs + (slept ? nowMs : 6_000);
      time.observe(date(trueMs), nowMs - 2, nowMs + 2, jumpMs);
      assert.ok(Math.abs((time.at(nowMs) ?? 0) - trueMs) <= 530 + jumpMs * 0.0002, `${slept}`);
      assert.ok(time.uncertaintyMs() < 2_000);
    }
  });

  test("a jump within the known bounds widens them for both cases, until a reply decides", () => {
    const time = new ServerTime();
    const wholeSecondMs = Date.UTC(2026, 0, 1);
    time.observe(new Date(wholeSecondMs).toUTCString(), 1_000, 1_000, 0);
    const oursMs = 3_000 + 1_005;
    time.observe(new Date(wholeSecondMs + 2_000).toUTCString(), oursMs, oursMs, 1_005);
    const errorMs = (time.at(oursMs) ?? 0) - (wholeSecondMs + 2_000);
    assert.ok(Math.abs(errorMs) <= time.uncertaintyMs() / 2, `${errorMs} of ${time.uncertaintyMs()}`);
  });

  test("the true time stays within the bounds if the wall clock is set forward a little", () => {
    const epochMs = Date.UTC(2026, 0, 1);
    const time = new ServerTime();
    for (let ms = 0; ms < 20_000; ms += 130) {
      const skippedMs = ms < 10_000 ? 0 : 1_100;
      const serverMs = epochMs + ms;
      const ours = ms + skippedMs;
      time.observe(new Date(Math.floor(serverMs / 1_000) * 1_000).toUTCString(), ours - 2, ours + 2, skippedMs);
      const errorMs = (time.at(ours) ?? 0) - serverMs;
      assert.ok(Math.abs(errorMs) <= time.uncertaintyMs() / 2 + 1, `${errorMs} of ${time.uncertaintyMs()} at ${ms}`);
    }
    assert.ok(time.uncertaintyMs() < 300, `${time.uncertaintyMs()}`);
  });
});

describe("after the wall clock was set forward", () => {
  test("the process has two times: its own, and the API server's from the next reply", async () => {
    const machine = new Machine();
    machine.setWallClock(Date.now() - machine.wallMs);
    await withServer({ clock: machine.clock }, async ({ cluster }) => {
      const apartMs = async () => {
        await cluster.get("pods", { namespace: "ns", name: "web-0" });
        return cluster.wallTimeMs() - cluster.serverTimeMs();
      };
      assert.ok(Math.abs(await apartMs()) < 60_000);
      for (const byMs of [8 * 86_400_000, -16 * 86_400_000]) {
        machine.setWallClock(byMs);
        const expectedMs = (8 * 86_400_000 * byMs) / Math.abs(byMs);
        assert.ok(Math.abs((await apartMs()) - expectedMs) < 300_000, `${await apartMs()}`);
      }
    });
  });

  test("a ledger does not become older: it permits nothing until ten seconds have passed (R4)", () => {
    let skippedMs = 0;
    let monotonicMs = 0;
    const cluster = { monotonicMs: () => monotonicMs + skippedMs, skippedMs: () => skippedMs } as Cluster;
    const ledger = { uid: "u", name: "sluice-group", createdMs: 0 } as GroupObservation["ledger"];
    const elsewhere = { ...ledger, isElsewhere: true };
    noteLedger(cluster, "u");
    assert.equal(refuseNewLedger({ cluster }, { ledger: elsewhere, nowMs: 1_000 })?.guard, "ledger-elsewhere");
    skippedMs = 3_600_000;
    assert.equal(refuseNewLedger({ cluster }, { ledger: elsewhere, nowMs: 1_000 })?.guard, "ledger-elsewhere");
    assert.equal(refuseNewLedger({ cluster }, { ledger, nowMs: 1_000 })?.guard, "ledger-new");
    monotonicMs = 9_999;
    assert.equal(refuseNewLedger({ cluster }, { ledger, nowMs: 1_000 })?.guard, "ledger-new");
    monotonicMs = 10_000;
    assert.equal(refuseNewLedger({ cluster }, { ledger, nowMs: 1_000 }), undefined);
  });

  test("a reservation is not dropped: the reply about its pod brings the API server's true time (R10)", async () => {
    const fresh = reservation("a-0");
    let serverMs = fresh.stampMs + 3_600_000;
    const cluster = {
      serverTimeMs: () => serverMs,
      async get() {
        serverMs = fresh.stampMs + 3_000;
        return podObject("a-0", { metadata: { uid: fresh.uid } });
      },
    } as unknown as Cluster;
    assert.deepEqual([...(await findAbandoned(cluster, "db", [fresh]))], []);
  });
});

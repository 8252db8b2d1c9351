/** The duration of a suspended volume: only what Sluice has seen counts, whichever of the two functions saw it (S1). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Volumes } from "../../shared/suspension/volumes.ts";

const claim = "data-group-a-2";
const pod = "group-a-2";
const set = "group-a";
const hourMs = 3_600_000;

const mistakes: Readonly<Record<string, readonly [(volumes: Volumes) => void, (volumes: Volumes) => void]>> = {
  "suspend-duration is taken away, and comes back": [
    (volumes) => volumes.policy(set, { "suspend-duration": null }),
    (volumes) => volumes.policy(set, { "suspend-duration": "1h" }),
  ],
  "suspend-duration is mistyped, and corrected": [
    (volumes) => volumes.policy(set, { "suspend-duration": "1hour" }),
    (volumes) => volumes.policy(set, { "suspend-duration": "1h" }),
  ],
  "the request is mistyped, and corrected": [
    (volumes) => volumes.annotate(claim, { suspend: "True" }),
    (volumes) => volumes.annotate(claim, { suspend: "true" }),
  ],
  "the state is mistyped, and corrected": [
    (volumes) => volumes.annotate(claim, { "suspend-state": "suspended" }),
    (volumes) => volumes.annotate(claim, { "suspend-state": "Suspended" }),
  ],
  "it is on hold, and let go": [
    (volumes) => volumes.annotate(claim, { hold: "true" }),
    (volumes) => volumes.annotate(claim, { hold: null }),
  ],
  "a wish to have it back is mistyped, and taken back": [
    (volumes) => volumes.annotate(claim, { recover: "yes" }),
    (volumes) => volumes.annotate(claim, { recover: null }),
  ],
};

for (const [what, [wrong, right]] of Object.entries(mistakes)) {
  for (const who of ["both functions", "suspend-group alone", "gc-suspended-groups alone"] as const) {
    test(`${who}: ${what}, and the pod works meanwhile: the volume stays for its whole duration after the pod has left again`, async () => {
      const volumes = new Volumes("1h");
      await volumes.suspended(claim);
      const read = async () => {
        if (who !== "gc-suspended-groups alone") await volumes.suspend();
        if (who !== "suspend-group alone") await volumes.collect();
      };
      wrong(volumes);
      await read();
      volumes.scale(set, 3);
      for (let n = 0; n < 2 * 12; n++) {
        await read();
        await volumes.goOn(300_000);
      }
      assert.ok(volumes.pod(pod), "the pod works");
      volumes.scale(set, 2);
      await volumes.goOn(60_000);
      assert.equal(volumes.pod(pod), undefined);
      const goneMs = volumes.timeline.nowMs();
      right(volumes);
      for (let n = 0; n < 11; n++) {
        await volumes.suspend();
        await volumes.collect();
        await volumes.goOn(300_000);
      }
      const afterMs = volumes.timeline.nowMs() - goneMs;
      assert.ok(volumes.isKept(claim), `deleted within ${afterMs / 60_000} minutes`);
    });
  }
}

test("only gc-suspended-groups sees the pod back for a week: its volume is not removed when the pod goes", async () => {
  const volumes = new Volumes("1h");
  await volumes.suspended(claim);
  volumes.scale(set, 3);
  for (let n = 0; n < 7 * 24 * 12; n++) {
    await volumes.collect();
    await volumes.goOn(300_000);
  }
  assert.equal(volumes.recorded(claim, "suspended-at"), undefined, "its time is taken away");
  assert.equal(volumes.recorded(claim, "drained-at"), undefined, "and so is the word on data that has changed since");
  volumes.scale(set, 2);
  await volumes.goOn(20_000);
  for (let n = 0; n < 30; n++) {
    await volumes.collect();
    await volumes.goOn(300_000);
  }
  assert.ok(volumes.isKept(claim));
});

test("the mark of a removal that was never sent counts only while its pod is away: if the pod comes back, the duration restarts", async () => {
  const volumes = new Volumes("1h");
  await volumes.suspended(claim);
  await volumes.elapse(hourMs);
  await volumes.marked(claim);
  volumes.scale(set, 3);
  await volumes.goOn(60_000);
  await volumes.collect();
  assert.equal(volumes.recorded(claim, "suspend-state"), "Suspending");
  volumes.scale(set, 2);
  await volumes.goOn(60_000);
  for (let n = 0; n < 11; n++) {
    await volumes.suspend();
    await volumes.collect();
    await volumes.goOn(300_000);
  }
  assert.ok(volumes.isKept(claim));
});

test("a gap of more than two sweeps does not count: a volume that no reconcile has read is kept for its whole duration after the next one", async () => {
  for (const gapMs of [11 * 60_000, 24 * hourMs]) {
    const volumes = new Volumes("1h");
    await volumes.suspended(claim);
    await volumes.elapse(hourMs / 2);
    // Sluice is uninstalled while the pod runs, and installed again when the pod has gone.
    volumes.scale(set, 3);
    await volumes.goOn(gapMs - 60_000);
    volumes.scale(set, 2);
    await volumes.goOn(60_000);
    volumes.restart();
    await volumes.elapse(hourMs - 60_000);
    assert.ok(volumes.isKept(claim), `${gapMs / 60_000} minutes`);
    await volumes.until(
      () => !volumes.isKept(claim),
      () => volumes.collect(),
    );
  }
});

test("reads by suspend-group count as well, and a duration that is shorter than a sweep is kept", async () => {
  const volumes = new Volumes("30s");
  await volumes.suspended(claim);
  const stampMs = Date.parse(volumes.recorded(claim, "suspended-at") ?? "");
  await volumes.until(
    () => !volumes.isKept(claim),
    () => volumes.collect(),
  );
  const afterMs = volumes.timeline.nowMs() - stampMs;
  assert.ok(afterMs >= 30_000 && afterMs <= 40_000, `${afterMs} ms`);
  const long = new Volumes("1h");
  await long.suspended(claim);
  await long.elapse(hourMs, () => long.suspend());
  await long.until(
    () => !long.isKept(claim),
    () => long.collect(),
  );
  assert.ok(long.timeline.nowMs() - Date.parse(long.recorded(claim, "suspended-at") ?? "") < hourMs + 60_000);
});

test("the ledger's record of reads counts as missing if it is unreadable, in the future, or gone", async () => {
  const nowMs = Date.parse("2026-01-01T00:00:00Z");
  for (const rounds of [
    "{}",
    "yesterday",
    null,
    JSON.stringify({ since: 0, until: nowMs * 2 }),
    '{"since":2,"until":1}',
  ]) {
    const volumes = new Volumes("1h");
    await volumes.suspended(claim);
    await volumes.elapse(hourMs - 120_000);
    volumes.writeLedger({ "sluice.dev/looks": rounds });
    volumes.restart();
    await volumes.elapse(hourMs - 60_000);
    assert.ok(volumes.isKept(claim), String(rounds));
  }
});

test("suspend-group, if it has nothing else to write, records its reads in the ledger once in four minutes, and not each time", async () => {
  const volumes = new Volumes("1h");
  await volumes.suspended(claim);
  volumes.forget();
  const fromMs = volumes.timeline.nowMs();
  while (volumes.timeline.nowMs() - fromMs < 1_200_000) {
    await volumes.suspend(false);
    await volumes.goOn(10_000);
  }
  assert.ok(volumes.count("patch leases") <= 6, `${volumes.count("patch leases")} writes in 20 minutes`);
  assert.equal(volumes.count("patch persistentvolumeclaims"), 0);
});

test("a later size change by another client restarts the duration, even if no reconcile saw the pod; one of ours does not", async () => {
  const back = new Volumes("1h");
  await back.suspended(claim);
  await back.elapse(hourMs - 290_000);
  // An autoscaler brings it back for four minutes, between two reconciles, and all events are lost.
  back.resize(set, 3);
  await back.goOn(240_000);
  assert.ok(back.pod(pod));
  back.resize(set, 2);
  const goneMs = back.timeline.nowMs();
  await back.goOn(45_000);
  await back.elapse(hourMs - 60_000);
  assert.ok(back.isKept(claim));
  // Ten minutes more: the first reconcile after the change may be that late, and no pod was seen absent before.
  await back.elapse(480_000);
  assert.ok(back.isKept(claim));
  await back.until(
    () => !back.isKept(claim),
    () => back.collect(),
  );
  assert.ok(back.timeline.nowMs() - goneMs < hourMs + 600_000 + 300_000);
  const ours = new Volumes("1h");
  await ours.suspended(claim);
  await ours.elapse(hourMs - 60_000);
  ours.resize(set, 2, "sluice");
  await ours.goOn(60_000);
  await ours.until(
    () => !ours.isKept(claim),
    () => ours.collect(),
    10,
  );
});

test("a size change by another client under the mark of a removal stops the removal", async () => {
  const volumes = new Volumes("1h");
  await volumes.suspended(claim);
  await volumes.elapse(hourMs);
  volumes.interfere = ({ verb, resource, given }) => {
    const body = JSON.stringify(given[2] ?? "");
    if (verb !== "patch" || resource !== "persistentvolumeclaims" || !body.includes("Removing")) return;
    volumes.interfere = () => {};
    volumes.resize(set, 2);
  };
  await volumes.elapse(hourMs / 2);
  assert.ok(volumes.isKept(claim));
  assert.notEqual(volumes.recorded(claim, "suspend-state"), "Removing");
});

test("VOLUME_HOLD=remove removes the stamps with our finalizers: after a new install within minutes the whole duration runs", async () => {
  const volumes = new Volumes("1h");
  await volumes.suspended(claim);
  await volumes.elapse(hourMs - 60_000);
  volumes.restart({ settings: { volumeHold: "remove" } });
  for (let n = 0; n < 5; n++) {
    await volumes.suspend();
    await volumes.collect();
    await volumes.goOn(2_000);
  }
  assert.equal(volumes.recorded(claim, "suspended-at"), undefined);
  assert.deepEqual(volumes.claim(claim)?.metadata.finalizers?.includes("sluice.dev/volume-hold"), false);
  volumes.forget();
  await volumes.suspend();
  await volumes.collect();
  assert.equal(volumes.count("patch persistentvolumeclaims"), 0, "neither function writes any more");
  volumes.restart({ settings: { volumeHold: "keep" } });
  await volumes.elapse(hourMs - 60_000, async () => {
    await volumes.suspend();
    await volumes.collect();
  });
  assert.ok(volumes.isKept(claim));
  await volumes.elapse(300_000);
  await volumes.until(
    () => !volumes.isKept(claim),
    () => volumes.collect(),
  );
});

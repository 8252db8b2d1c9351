/**
 * Functions with a cron schedule: events about objects of the types that they watch trigger them as well, and no
 * other events do.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { webhookNamespace } from "../../../../functions/shared/annotations/table.ts";
import type { CronDefinition } from "../../../../functions/shared/contract/definition.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { cronFunctions, groupFunctions } from "../../../../triggers/table.ts";
import { startCron } from "../../../../triggers/workqueue/cron.ts";
import { answerOf, watchedTypes } from "../../../../triggers/workqueue/enqueue.ts";
import { createTestApp } from "../../../support/app.ts";
import { settings } from "../../../support/certificate-world.ts";
import { createVirtualClock } from "../../shared/kubernetes/virtual-clock.ts";

const rest = { concern: "", guards: {}, needs: [], reads: [], writes: [] };

/**
 * Two functions after their first run. Events of webhook configurations trigger one of them. Each run is recorded
 * with its time.
 */
async function started() {
  const clock = createVirtualClock();
  const runs: string[] = [];
  const function_ = (name: string, watching: Pick<CronDefinition, "watches">): CronDefinition => ({
    ...{ name, ...rest, ...watching },
    open: () => async () => {
      runs.push(`${name} ${clock.monotonicMs()}`);
      return { guard: "done", message: "all is well", requeueAfterMs: 3_600_000 };
    },
  });
  const { reporting } = createTestApp();
  const resource = "validatingwebhookconfigurations";
  const receiving = function_("receiving", { watches: [{ resource, selector: webhookNamespace }] });
  const cron = startCron({
    cluster: clock as unknown as Cluster,
    definitions: [receiving, function_("deaf", {})],
    certificate: settings,
    mode: "act",
    reporting,
    atLeastEveryMs: 3_600_000,
  });
  await clock.goTo(1_000);
  assert.deepEqual(runs.splice(0), ["receiving 200", "deaf 200"]);
  return { clock, cron, runs };
}

test("an event triggers only the function that watches its type, and an event of any other type triggers none", async () => {
  const { clock, cron, runs } = await started();
  assert.equal(cron.changed("validatingwebhookconfigurations"), "queued");
  assert.equal(cron.changed("mutatingwebhookconfigurations"), "ignored");
  assert.equal(cron.changed("pods"), "ignored");
  await clock.goTo(100_000);
  assert.deepEqual(runs, ["receiving 1200"]);
});

test("a flood of events causes a run every five seconds after the first three, and the last event has its run", async () => {
  const { clock, cron, runs } = await started();
  for (let ms = 1_000; ms < 21_000; ms += 10) {
    assert.equal(cron.changed("validatingwebhookconfigurations"), "queued");
    await clock.goTo(ms + 10);
  }
  await clock.goTo(100_000);
  const times = runs.map((run) => Number(run.replace("receiving ", "")));
  assert.ok(times.length >= 4 && times.length <= 3 + 4, times.join());
  assert.ok((times.at(-1) ?? 0) >= 20_990, times.join());
});

test("while the process ends, an event is refused, so that its sender sends it again, unless it triggers no function", async () => {
  const { clock, cron, runs } = await started();
  assert.equal(await cron.stop(clock.monotonicMs() + 1_000), true);
  assert.equal(cron.changed("validatingwebhookconfigurations"), "refused");
  assert.equal(cron.changed("pods"), "ignored");
  await clock.goTo(100_000);
  assert.deepEqual(runs, []);
});

test("the answer to an event for several functions is a refusal if one of them refuses it, and otherwise that it was queued", () => {
  assert.equal(answerOf(["queued", "refused", "ignored"]), "refused");
  assert.equal(answerOf(["ignored", "queued"]), "queued");
  assert.equal(answerOf(["ignored", "deferred"]), "deferred");
  assert.equal(answerOf([]), "ignored");
});

test("webhook configurations trigger only the process that serves rotate-certificate", () => {
  const types = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] as const;
  assert.deepEqual([...watchedTypes(cronFunctions)], types);
  for (const type of types) assert.ok(!watchedTypes(groupFunctions).has(type));
});

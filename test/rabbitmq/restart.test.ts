/**
 * The stop gate alone protects a real RabbitMQ during a rolling restart by the real StatefulSet controller, and its marker
 * ends it.
 */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { after, before, suite, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { packagesForTests } from "../support/packages.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Broker, queue, seconds, size } from "./broker.ts";
import { underLoad } from "./under-load.ts";

const packages = await packagesForTests();
const skip = packages === undefined || (await skipWithoutControlPlane());

suite("the stop gate in pods of the real API server", { skip }, () => {
  let controlPlane: ControlPlane;
  let broker: Broker;

  before(async () => {
    if (packages === undefined) return;
    controlPlane = await startControlPlane();
    broker = await Broker.open(packages, controlPlane, { namespace: "broker" });
    // The controller updates one pod after another; only the gate delays the next one.
    await broker.createSet({ strategy: "RollingUpdate" });
  });

  after(async () => {
    await broker?.close();
    await controlPlane?.stop();
  });

  const remove = (ordinal: number, body: object = {}) => broker.api.delete(broker.podPath(ordinal), body);
  const label = (ordinal: number) =>
    broker.api.patch(broker.podPath(ordinal), { metadata: { labels: { skipPreStopChecks: "true" } } });

  test("rolls three nodes under load: no confirmed message is lost, and the queue never lacks its majority", async (context) => {
    const { pods } = broker;
    let tookMs = 0;
    const load = await underLoad(broker.nodes, async () => {
      const startedMs = performance.now();
      await broker.changeTemplate("2");
      await eventually("the last pod is replaced", 400_000, async () => {
        assert.deepEqual(pods.problems, []);
        return pods.endings.length >= size ? true : undefined;
      });
      await broker.allReady();
      tookMs = performance.now() - startedMs;
    });
    assert.deepEqual(
      pods.endings.map(({ pod, gate, isOrderly }) => [pod, gate?.code, gate?.outcome, isOrderly]),
      [2, 1, 0].map((ordinal) => [`rabbitmq-${ordinal}`, 0, "passed", true]),
    );
    context.diagnostic(
      `rolled in ${seconds(tookMs)}, hooks ${pods.endings.map(({ hookMs }) => seconds(hookMs)).join(", ")}; ${load}`,
    );
  });

  test("with one node down a gate waits, names the queue, and ends only by its marker or with its grace period", async (context) => {
    const { nodes, pods, byPerson } = broker;
    await nodes.stop(0, 0);
    const isCritical = async (ordinal: number) => {
      const gate = await eventually(`a gate in rabbitmq-${ordinal}`, 30_000, async () =>
        pods.gateOf(`rabbitmq-${ordinal}`),
      );
      const line = await gate.reported(/^waits \(quorum-critical\)/, 60_000);
      assert.match(
        line,
        new RegExp(`queue '${queue}' in vhost '/' would lose quorum if node ${nodes.nameOf(ordinal)}`),
      );
      return gate;
    };

    // Without a marker, and with a grace period of 12 s instead of a week.
    const hung = await broker.nextEnding(2, async () => {
      await remove(2, { gracePeriodSeconds: 12 });
      await isCritical(2);
    });
    assert.equal(hung.gate, undefined, "its grace period ended it");
    assert.ok(hung.hookMs >= 11_900, seconds(hung.hookMs));
    await broker.allReady();

    // The pod gets the label before it is deleted, as mark-skip-label ensures.
    await label(2);
    const { marker } = await pods.filesOf("rabbitmq-2");
    await eventually("the volume has the label", 30_000, async () =>
      (await readFile(marker, "utf8")) === "true" ? true : undefined,
    );
    const released = await broker.nextEnding(2, () => remove(2));
    assert.deepEqual([released.gate?.code, released.gate?.outcome], [0, "skip-marker"]);
    assert.ok(released.hookMs < 10_000, seconds(released.hookMs));
    await broker.allReady();

    // A label that comes too late has no effect, because the volume of a terminating pod is not refreshed. A file that a user
    // writes ends the gate.
    let waitedMs = 0;
    const byHand = await broker.nextEnding(1, async () => {
      await remove(1);
      const gate = await isCritical(1);
      const file = (await pods.filesOf("rabbitmq-1")).marker;
      await label(1);
      const labelledMs = performance.now();
      await delay(3_000);
      assert.ok(gate.isRunning(), "a label that came too late has let it go");
      assert.equal(await readFile(file, "utf8"), "");
      waitedMs = performance.now() - labelledMs;
      await writeFile(byPerson, "true");
    });
    assert.deepEqual([byHand.gate?.code, byHand.gate?.outcome], [0, "skip-marker"]);
    context.diagnostic(
      `from the delete to the end of the hook: ${seconds(released.hookMs)} with the marker, ` +
        `${seconds(hung.hookMs)} without it (all of a grace period of 12 s); ` +
        `with a label that came too late not in ${seconds(waitedMs)}, until a person wrote the file`,
    );
  });
});

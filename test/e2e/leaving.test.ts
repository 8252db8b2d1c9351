/** Sluice itself is updated while nodes are drained: a replica that ends answers until no Service leads to it. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../controlplane/api.ts";
import { waitForGroupReady } from "../controlplane/fixtures.ts";
import { addNodes, drainNodes } from "../support/drain.ts";
import { TcpProxy } from "../support/drain-proxy.ts";
import { evict, registerWebhook } from "../support/drain-webhook.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";

/** Time for which a Service still leads to a replica after its probe has failed, because proxies of nodes learn of it late. */
const forgottenAfterMs = 1_500;
const settings = { SHUTDOWN_DELAY: "4s" };

/** Two replicas behind a Service. */
class Replicas {
  readonly #scene: Scene;
  readonly #certificate: Readonly<Record<string, string>>;
  readonly #service: TcpProxy;
  readonly #servers: Server[] = [];
  readonly ends: string[] = [];

  constructor(scene: Scene, certificate: Readonly<Record<string, string>>, service: TcpProxy) {
    this.#scene = scene;
    this.#certificate = certificate;
    this.#service = service;
  }

  async start(): Promise<void> {
    const server = await this.#scene.serve({ ...this.#certificate, ...settings });
    await server.ready();
    this.#service.add(server.tlsPort);
    this.#servers.push(server);
  }

  /** As a Deployment does: a new one is ready before the oldest gets its signal; the Service learns of that by its readiness. */
  async replaceOldest(): Promise<void> {
    await this.start();
    const oldest = this.#servers.shift();
    if (oldest === undefined) return;
    const { tlsPort, url } = oldest;
    const ended = oldest.stop(20_000);
    await eventually("the replica unready", 10_000, async () =>
      (await fetch(`${url}/readyz`)).status === 503 ? true : undefined,
    ).catch(() => undefined);
    await delay(forgottenAfterMs);
    this.#service.remove(tlsPort);
    this.ends.push((await ended).summary);
  }
}

describe("an update of Sluice under a drain", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  test("while both replicas are replaced twice, 60 pods are drained and no eviction fails", async (context) => {
    const name = "updated";
    const options = { pods: 20, maxUnavailable: 2, nodesPerZone: 2, zoneBudget: { maxUnavailable: 2 } };
    await play(stage.controlPlane, name, options, async (scene) => {
      const service = await TcpProxy.start();
      scene.afterwards(() => service.close());
      const replicas = new Replicas(scene, stage.certificate.settings, service);
      await Promise.all([replicas.start(), replicas.start()]);
      await registerWebhook(scene.api, name, "Mutating", { port: service.port, ca: stage.certificate.ca });
      await eventually("an eviction allowed", 90_000, async () =>
        (await evict(scene.api, name, `${name}-zone-a-0`, "in the body")).code === 201 ? true : undefined,
      );
      const zones = ["zone-a", "zone-b", "zone-c"];
      const leaving = await scene.nodesOf(...zones);
      for (const zone of zones) await addNodes(scene.api, scene.group, zone, 1, leaving.length + 1);
      const answers = new Map<number, number>();
      const over = new AbortController();
      const asking = Array.from({ length: 4 }, async () => {
        while (!over.signal.aborted) {
          const { code, message } = await evict(scene.api, name, `${name}-zone-b-0`, "in the body");
          if (code >= 500) context.diagnostic(message);
          answers.set(code, (answers.get(code) ?? 0) + 1);
        }
      });
      const draining = drainNodes(stage.controlPlane, scene.api, leaving, 150_000);
      for (let turn = 0; turn < 4; turn++) await replicas.replaceOldest();
      over.abort();
      await Promise.all(asking);
      const drained = await draining;
      await waitForGroupReady(stage.controlPlane, scene.group);
      context.diagnostic(`answers to rehearsals: ${JSON.stringify([...answers])}; ${drained.attempts} drains`);
      assert.deepEqual(
        replicas.ends,
        Array.from({ length: 4 }, () => "exit code 0"),
      );
      assert.equal(drained.gaveUp, 0, drained.stderr.slice(-3_000));
      // 409: the pod was replaced during the decision. Only an interrupted webhook is a 500.
      const failed = [...answers].filter(([code]) => code >= 500);
      assert.deepEqual(failed, []);
      const { takings } = await scene.observer.verdict();
      assert.equal(new Set(takings.map(({ pod }) => pod)).size, 60);
    });
  });
});

/** A downscale with a delay on a real control plane, over real ingesters, while the processes of Sluice are killed in turn. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, type FixtureGroup, type StatefulSet, waitForGroupReady } from "../controlplane/fixtures.ts";
import { follow } from "../controlplane/follow.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { Ingesters } from "../support/ingester.ts";
import { killInTurn } from "../support/kill-in-turn.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

const [from, to] = [10, 4];
const delayMs = 20_000;
const name = "delayed";

/** A size that has dropped, as a watch reported it. */
interface Drop {
  readonly atMs: number;
  readonly zone: string;
  readonly from: number;
  readonly to: number;
}

describe("a delayed downscale on a real control plane", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;

  before(async () => {
    controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
  });

  after(() => controlPlane?.stop());

  test("three zones go from ten to four: no pod leaves before its delay is over, and no pod that stays is left prepared", async (context) => {
    const scene = await Scene.set(controlPlane);
    try {
      await scene.serve();
      // A process that lives for four seconds takes a ledger for old 41 s after its creation (rule R4).
      await scene.waitForOldLedger();
      await scene.want(to);
      const wantedMs = Date.now();
      const killing = scene.killInTurn(100_000);
      await delay(6_000);
      await scene.want(to - 1);
      await delay(5_000);
      await scene.want(to);
      // It comes back with the previous pod's disk, and its delay begins again.
      await scene.replace(`${name}-zone-b-9`);
      await eventually(
        "every zone at its size",
        400_000,
        async () => ((await scene.areAll(to)) ? true : undefined),
        500,
      );
      const tookMs = Date.now() - wantedMs;
      const kills = await killing.end();
      await scene.waitForQuiet();
      context.diagnostic(`${(tookMs / 1000).toFixed(1)} s, ${kills} kills, ${scene.ingesters.calls.length} calls`);
      for (const drop of scene.drops) context.diagnostic(JSON.stringify({ ...drop, atMs: drop.atMs - wantedMs }));
      scene.assertPromises(context);
    } catch (error) {
      console.error(await scene.describe());
      throw error;
    } finally {
      await scene.close();
    }
  });
});

class Scene {
  readonly ingesters: Ingesters;
  readonly drops: Drop[] = [];
  readonly #controlPlane: ControlPlane;
  readonly #api: Api;
  readonly #group: FixtureGroup;
  readonly #ending = new AbortController();
  #servers: Server[] = [];

  private constructor(controlPlane: ControlPlane, api: Api, group: FixtureGroup, ingesters: Ingesters) {
    this.#controlPlane = controlPlane;
    this.#api = api;
    this.#group = group;
    this.ingesters = ingesters;
  }

  static async set(controlPlane: ControlPlane): Promise<Scene> {
    const ingesters = await Ingesters.open({ keepsDisks: true });
    const prefix = "grafana.com/rollout-mirror-replicas-from-resource";
    const annotations = {
      "grafana.com/rollout-delayed-downscale": `${delayMs / 1000}s`,
      "grafana.com/rollout-prepare-delayed-downscale-url": ingesters.url,
      [`${prefix}-name`]: name,
      [`${prefix}-kind`]: "ReplicaTemplate",
      [`${prefix}-api-version`]: "rollout-operator.grafana.com/v1",
    };
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "200" };
    const group = await createGroup(controlPlane, { name, namespace: name, pods: from, annotations, podAnnotations });
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-delayed" });
    const scene = new Scene(controlPlane, api, group, ingesters);
    const apiVersion = "rollout-operator.grafana.com/v1";
    const template = { apiVersion, kind: "ReplicaTemplate", metadata: { name }, spec: { replicas: from } };
    await api.post(`/apis/${apiVersion}/namespaces/${name}/replicatemplates`, template);
    await ingesters.followPods(api, name, scene.#ending.signal);
    await scene.#followSizes();
    await waitForGroupReady(controlPlane, group);
    return scene;
  }

  async #followSizes(): Promise<void> {
    const known = new Map<string, number>();
    const follower = {
      path: `/apis/apps/v1/namespaces/${name}/statefulsets`,
      known,
      seen: ({ metadata, spec: { replicas } }: StatefulSet & { metadata: { uid: string } }) => {
        const before = known.get(metadata.uid) ?? replicas;
        if (replicas < before) this.drops.push({ atMs: Date.now(), zone: metadata.name, from: before, to: replicas });
        known.set(metadata.uid, replicas);
      },
      gone: () => {},
    };
    await follow(this.#api, follower, this.#ending.signal);
  }

  /** Two processes. */
  async serve(): Promise<void> {
    this.#servers = await Promise.all([this.#start(), this.#start()]);
  }

  #start(): Promise<Server> {
    const settings = { NODE_OPTIONS: this.ingesters.nodeOptions };
    return Server.start({ kubeconfig: this.#controlPlane.kubeconfig, namespace: name, settings });
  }

  /** One of them is killed every two seconds. */
  killInTurn(forMs: number): { end(): Promise<number> } {
    return killInTurn(this.#servers, { start: () => this.#start(), everyMs: 2_000, forMs });
  }

  async want(replicas: number): Promise<void> {
    const path = `/apis/rollout-operator.grafana.com/v1/namespaces/${name}/replicatemplates/${name}`;
    await this.#api.request("PATCH", path, { spec: { replicas } }, "application/merge-patch+json");
  }

  /** Deletes a pod; its StatefulSet makes another one. */
  async replace(pod: string): Promise<void> {
    await this.#api.delete(`/api/v1/namespaces/${name}/pods/${pod}`);
  }

  async waitForOldLedger(): Promise<void> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${name}/leases/sluice-${name}`;
    await eventually("the ledger old enough for every function", 60_000, async () => {
      const { metadata } = await this.#api.get<{ metadata: { creationTimestamp: string } }>(path);
      return Date.now() - Date.parse(metadata.creationTimestamp) > 42_000 ? true : undefined;
    });
  }

  async areAll(replicas: number): Promise<boolean> {
    return (await this.#sets()).every(({ spec }) => spec.replicas === replicas);
  }

  async #sets(): Promise<StatefulSet[]> {
    const path = `/apis/apps/v1/namespaces/${name}/statefulsets`;
    return (await this.#api.get<{ items: StatefulSet[] }>(path)).items;
  }

  /** Resolves when the pods that left are gone, and the ones that stay have been told so. */
  async waitForQuiet(): Promise<void> {
    const isLeft = ({ endMs, pod }: Ingesters["lives"][number]) => endMs === undefined && ordinalOf(pod) >= to;
    await eventually("the pods that left gone, and no other prepared", 60_000, async () =>
      this.ingesters.lives.some(isLeft) || this.ingesters.preparedPods().length > 0 ? undefined : true,
    );
  }

  assertPromises(context: { diagnostic(text: string): void }): void {
    for (const zone of this.#group.statefulSets) {
      const sizes = this.drops.filter((drop) => drop.zone === zone);
      assert.equal(sizes.at(-1)?.to, to, `${zone} ended with ${sizes.at(-1)?.to}`);
    }
    const knew: number[] = [];
    for (const { atMs, zone, from: before, to: after } of this.drops) {
      for (let ordinal = after; ordinal < before; ordinal++) knew.push(this.#knewFor(`${zone}-${ordinal}`, atMs));
    }
    assert.equal(knew.length, 3 * (from - to), "each pod leaves once");
    context.diagnostic(`pods had known for ${Math.min(...knew) / 1000} s to ${Math.max(...knew) / 1000} s`);
    assert.ok(Math.min(...knew) >= delayMs, `a pod left after ${Math.min(...knew)} ms`);
    assert.deepEqual(this.ingesters.preparedPods(), []);
    const others = this.ingesters.calls.filter(({ headers }) => headers["x-cluster"] !== name);
    assert.equal(others.length, 0);
  }

  /** By the pod's own log: how long it had been prepared without a break when its StatefulSet was made smaller. */
  #knewFor(pod: string, atMs: number): number {
    const life = this.ingesters.lives.findLast((one) => one.pod === pod && one.startMs <= atMs);
    assert.ok(life !== undefined && (life.endMs ?? atMs) >= atMs, `${pod} existed when it was to leave`);
    let sinceMs = Number.POSITIVE_INFINITY;
    let uid = "";
    for (const call of this.ingesters.calls.filter((one) => one.pod === pod && one.atMs <= atMs)) {
      // Another pod of the name has the previous pod's disk, and its delay begins again.
      if (call.uid !== uid && call.isPrepared) sinceMs = Math.min(call.atMs, this.#startOf(call.uid));
      uid = call.uid;
      if (!call.isPrepared) sinceMs = Number.POSITIVE_INFINITY;
      else sinceMs = Math.min(sinceMs, call.atMs);
    }
    assert.equal(uid, life.uid, `${pod} was asked before it left`);
    return atMs - sinceMs;
  }

  #startOf(uid: string): number {
    return this.ingesters.lives.find((life) => life.uid === uid)?.startMs ?? Number.POSITIVE_INFINITY;
  }

  /** Ledger, sizes, prepared pods and last lines of the logs, which show why a test failed. */
  async describe(): Promise<string> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${name}/leases/sluice-${name}`;
    const ledger = await this.#api.get<unknown>(path).catch((error: Error) => error.message);
    const sets = await this.#sets().catch(() => []);
    const logs = this.#servers.flatMap(({ log }) => log.slice(-25).map((line) => JSON.stringify(line)));
    const sizes = sets.map(
      ({ metadata, spec, status }) => `${metadata.name}: ${spec.replicas} ${JSON.stringify(status)}`,
    );
    return [JSON.stringify(ledger), ...sizes, `prepared: ${this.ingesters.preparedPods()}`, ...logs].join("\n");
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#servers.map((server) => server.kill()));
    await this.#api.close();
    await this.ingesters.close();
  }
}

function ordinalOf(pod: string): number {
  return Number(pod.slice(pod.lastIndexOf("-") + 1));
}

/** Pods of an operator that uses no StatefulSet are suspended on a real control plane, with their volumes, zone by zone. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Metadata, PodObject } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { Plugin } from "../support/plugin.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { SuspensionWitness } from "./suspension-witness.ts";

interface Seen {
  readonly metadata: Metadata;
}

const namespace = "orders";
const core = `/api/v1/namespaces/${namespace}`;
const zones = ["zone-a", "zone-b", "zone-c"];
const members = zones.flatMap((zone) => [0, 1, 2].map((number) => `orders-${zone}-${number}`));
const leaving = members.filter((name) => !name.endsWith("-0"));
const durationMs = 8_000;
/** A stamp and the age of it are by the API server's clock, as its `Date` header reports it. */
const clockMs = 1_500;

describe("suspension for an operator's own pods on a real control plane", {
  skip: await skipWithoutControlPlane(),
}, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let server: Server;
  let witness: SuspensionWitness;
  let operator: Operator;
  let plugin: Plugin;

  before(async () => {
    controlPlane = await startControlPlane();
    plugin = await Plugin.build(controlPlane);
    await applyCrds(controlPlane);
    api = await Api.open(controlPlane, { userAgent: "sluice-test-owned" });
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    operator = await Operator.start(api);
    await operator.allReady();
    witness = await SuspensionWitness.start(controlPlane, namespace);
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace });
  });

  after(async () => {
    await operator?.stop();
    await plugin?.remove();
    await witness?.stop();
    await server?.kill();
    await api?.close();
    await controlPlane?.stop();
  });

  const claimPath = (member: string) => `${core}/persistentvolumeclaims/data-${member}`;
  const annotate = (member: string, annotations: Readonly<Record<string, string>>) =>
    api.patch(claimPath(member), { metadata: { annotations } });
  const read = (member: string) => api.get<Seen>(claimPath(member)).catch(() => undefined);
  const waiting = (member: string, guard: string) =>
    eventually(`${member} saying ${guard}`, 90_000, async () => {
      const message = (await read(member))?.metadata.annotations?.["sluice.dev/suspend-message"];
      return message?.startsWith(`${guard}: `) ? message : undefined;
    });

  const sluice = (line: string) => plugin.sluice(`${line} -n ${namespace}`);

  test("no pod goes while a pod of another zone is not ready, and a pod that the operator brings back ends its suspension", async () => {
    const drained = { "sluice.dev/suspend": "true", "sluice.dev/drained-at": new Date().toISOString() };
    const sick = "orders-zone-c-0";
    await operator.setReady(sick, false);
    await annotate("orders-zone-a-2", drained);
    assert.match(await waiting("orders-zone-a-2", "zones-down"), /zone-c: 1 of 3 down \(1 not ready\)$/);
    assert.deepEqual(
      witness.pods.filter(({ takenMs }) => takenMs !== undefined),
      [],
    );
    await operator.setReady(sick, true);
    // The operator does not know of the suspension.
    await eventually("it has its pod back, and forgets the suspension", 90_000, async () => {
      const { annotations = {}, finalizers = [] } = (await read("orders-zone-a-2"))?.metadata ?? {};
      const isOver = annotations["sluice.dev/suspend"] === undefined && !finalizers.includes("sluice.dev/volume-hold");
      return isOver ? true : undefined;
    });
    assert.equal(witness.pods.filter(({ name }) => name === "orders-zone-a-2").length, 2);
    await operator.allReady();
  });

  test("the pods of one zone go at a time, each volume is kept for its time, and a recovered one is back with its volume claim", async (context) => {
    const drained = { "sluice.dev/suspend": "true", "sluice.dev/drained-at": new Date().toISOString() };
    const back = "orders-zone-b-1";
    for (const name of leaving) operator.give(name);
    // On a busy machine two commands may take longer than the volumes are kept: the one that comes back is kept for longer.
    for (const name of leaving)
      await annotate(name, name === back ? { ...drained, "sluice.dev/suspend-duration": "10m" } : drained);
    const suspended = await eventually(`${back} suspended`, 120_000, async () => {
      const claim = await read(back);
      return claim?.metadata.annotations?.["sluice.dev/suspend-state"] === "Suspended" ? claim : undefined;
    });
    const shown = await sluice("suspended owner:ConfigMap/orders");
    assert.match(shown.stdout, new RegExp(`^data-${back} +zone-b +Suspended `, "m"), shown.stderr);
    const wanted = await sluice(`recover data-${back}`);
    assert.equal(wanted.code, 0, wanted.stderr);
    assert.match(await waiting(back, "recovering"), /ConfigMap\/orders is to bring it back$/);
    operator.want(back);
    await eventually(`nothing of ours on the volume claim of ${back}`, 60_000, async () => {
      const { annotations = {}, uid } = (await read(back))?.metadata ?? {};
      const isOver = ["suspend", "suspend-state", "recover"].every(
        (key) => annotations[`sluice.dev/${key}`] === undefined,
      );
      return isOver && uid === suspended.metadata.uid ? true : undefined;
    });
    await eventually("all others gone", 180_000, async () => {
      const { items } = await api.get<{ items: Seen[] }>(`${core}/persistentvolumeclaims`);
      return items.length === members.length - leaving.length + 1 ? true : undefined;
    });
    assert.deepEqual(witness.together, [], "one zone goes at a time");
    const ages = [...witness.ages.values()];
    assert.equal(ages.length, leaving.length - 1);
    const least = Math.min(...ages);
    assert.ok(least >= durationMs - clockMs, `a volume claim was deleted ${least} ms after its pod was gone`);
    context.diagnostic(`the first volume claim was deleted ${(least / 1000).toFixed(1)} s after its pod was gone`);
  });

  test("the ledger is named after the owner, has no claim in the end, and kubectl sluice why shows it", async () => {
    const { items } = await api.get<{ items: Seen[] }>(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`);
    const [ledger] = items.filter(
      ({ metadata }) => metadata.annotations?.["sluice.dev/group"] === "owner:ConfigMap/orders",
    );
    assert.ok(ledger, "it has a ledger");
    await eventually("no claim left", 60_000, async () => {
      const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${ledger.metadata.name}`;
      const { metadata } = await api.get<Seen>(path);
      return (metadata.annotations?.["sluice.dev/claims"] ?? "") === "" ? true : undefined;
    });
    const why = await sluice("why owner:ConfigMap/orders");
    assert.equal(why.code, 0, why.stderr);
    for (const zone of zones) assert.match(why.stdout, new RegExp(`\\b${zone}\\b`));
  });
});

/** Creates a pod for each member that it was not told to give up, as an operator without StatefulSets does. */
class Operator {
  readonly #api: Api;
  readonly #given = new Set<string>();
  readonly #ending = new AbortController();
  readonly #uid: string;
  #working: Promise<void> = Promise.resolve();

  private constructor(api: Api, uid: string) {
    this.#api = api;
    this.#uid = uid;
  }

  static async start(api: Api): Promise<Operator> {
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "orders" } };
    const { metadata } = await api.post<Seen>(`${core}/configmaps`, object);
    const operator = new Operator(api, metadata.uid);
    for (const name of members) await operator.#makeClaim(name);
    operator.#working = operator.#work();
    return operator;
  }

  give(name: string): void {
    this.#given.add(name);
  }

  want(name: string): void {
    this.#given.delete(name);
  }

  /** The kubelet plays it as the annotation says, until it is recreated. */
  async setReady(name: string, isReady: boolean): Promise<void> {
    const status = { conditions: [{ type: "Ready", status: isReady ? "True" : "False" }] };
    await this.#api.patch(`${core}/pods/${name}/status`, { status });
  }

  async allReady(): Promise<void> {
    await eventually("all pods ready", 60_000, async () => {
      const { items } = await this.#api.get<{ items: PodObject[] }>(`${core}/pods`);
      const ready = items.filter(({ status }) =>
        status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True"),
      );
      return ready.length === members.length - this.#given.size ? true : undefined;
    });
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#working;
  }

  async #work(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const { items } = await this.#api.get<{ items: PodObject[] }>(`${core}/pods`);
      const there = new Set(items.map(({ metadata }) => metadata.name));
      for (const name of members)
        if (!there.has(name) && !this.#given.has(name)) await this.#makePod(name).catch(() => {});
      await delay(200, undefined, { signal }).catch(() => {});
    }
  }

  async #makeClaim(name: string): Promise<void> {
    const annotations = {
      "sluice.dev/owner": "ConfigMap/orders",
      "sluice.dev/zone-label": "example.com/zone",
      "sluice.dev/suspend-duration": `${durationMs / 1000}s`,
      "sluice.dev/wait-between-removals": "1s",
    };
    await this.#api.post(`${core}/persistentvolumeclaims`, {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: `data-${name}`, annotations },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    });
  }

  async #makePod(name: string): Promise<void> {
    const owner = { apiVersion: "v1", kind: "ConfigMap", name: "orders", uid: this.#uid, controller: true };
    await this.#api.post(`${core}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name,
        labels: { "example.com/zone": /zone-[a-c]/.exec(name)?.[0] ?? "" },
        annotations: { [ANNOTATIONS.readyAfterMs]: "200", [ANNOTATIONS.goneAfterMs]: "300" },
        ownerReferences: [owner],
      },
      spec: {
        containers: [{ name: "db", image: "db:1" }],
        volumes: [{ name: "data", persistentVolumeClaim: { claimName: `data-${name}` } }],
      },
    });
  }
}

/** A FoundationDBCluster's own labels, removalMode and waitBetweenRemovalsSeconds, on a real control plane. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { runKubectl } from "../support/drain.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { FoundationOperator } from "./foundationdb-operator.ts";
import { SuspensionWitness } from "./suspension-witness.ts";

const apiVersion = "apps.foundationdb.org/v1beta2";
const namespace = "foundation";
const core = `/api/v1/namespaces/${namespace}`;
const clusters = `/apis/apps.foundationdb.org/v1beta2/namespaces/${namespace}/foundationdbclusters`;
const name = "orders";
const ids = new Map(
  ["zone-a", "zone-b", "zone-c"].flatMap((zone) => [1, 2].map((n) => [`${zone}-${n}`, zone] as const)),
);
const leaving = ["zone-a-2", "zone-b-2", "zone-c-2"];
const durationMs = 8_000;
/** Many reconciles of every function, and several sweeps' worth of timers. */
const frozenMs = 30_000;
const waitSeconds = 20;
/** The longest delay of a watch. */
const eventMs = 1_000;

describe("a FoundationDBCluster's own settings on a real control plane", {
  skip: await skipWithoutControlPlane(),
}, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let server: Server;
  let witness: SuspensionWitness;
  let operator: FoundationOperator;

  before(async () => {
    controlPlane = await startControlPlane();
    for (const folder of ["../../knative/base/crds", "../fixtures/crds"])
      await runKubectl(controlPlane, "apply", "-k", join(import.meta.dirname, folder));
    await runKubectl(controlPlane, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
    api = await Api.open(controlPlane, { userAgent: "sluice-test-foundationdb" });
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    await eventually("the kind served", 30_000, () => api.get<object>(clusters).catch(() => undefined));
    operator = await FoundationOperator.start(api, {
      namespace,
      name,
      ids,
      annotations: { "sluice.dev/suspend-duration": `${durationMs / 1000}s` },
      spec: { automationOptions: { removalMode: "None", waitBetweenRemovalsSeconds: waitSeconds } },
    });
    witness = await SuspensionWitness.start(controlPlane, namespace);
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace });
  });

  after(async () => {
    await operator?.stop();
    await witness?.stop();
    await server?.kill();
    await api?.close();
    await controlPlane?.stop();
  });

  const setMode = (removalMode: string) => operator.change({ spec: { automationOptions: { removalMode } } });
  const read = (id: string) =>
    api.get<{ metadata: Metadata }>(`${core}/persistentvolumeclaims/${name}-${id}-data`).catch(() => undefined);
  const waitFor = (id: string, pattern: RegExp) =>
    eventually(`${id} says ${pattern}`, 60_000, async () => {
      const { annotations = {} } = (await read(id))?.metadata ?? {};
      return pattern.test(annotations["sluice.dev/suspend-message"] ?? "") ? true : undefined;
    });
  const taken = () =>
    [...witness.pods, ...witness.claims]
      .filter((story) => story.takenMs !== undefined && story.name.startsWith(`${name}-`))
      .map((story) => story.name);
  const takenMs = (called: string) =>
    [...witness.pods, ...witness.claims].find((story) => story.name === called)?.takenMs;

  test("a volume of a cluster with labels of its own is kept for its time, and a volume that is not found does not count as gone", async () => {
    const [of, id, label] = ["payments", "storage-1", "example.com/instance"] as const;
    const marks = { app: "payments-db", [label]: id };
    const path = `${clusters}/${of}`;
    const claim = `${core}/persistentvolumeclaims/${of}-${id}-data`;
    const { metadata } = await api.post<{ metadata: Metadata }>(clusters, {
      apiVersion,
      kind: "FoundationDBCluster",
      metadata: { name: of, annotations: { "sluice.dev/suspend-duration": "7d" } },
      spec: {
        labels: { matchLabels: { app: "payments-db" }, processGroupIDLabels: [label] },
        automationOptions: { waitBetweenRemovalsSeconds: 0 },
      },
    });
    const owner = { apiVersion, kind: "FoundationDBCluster", name: of, uid: metadata.uid, controller: true };
    const made = (called: string) => ({ name: called, labels: marks, ownerReferences: [owner] });
    await api.post(`${core}/persistentvolumeclaims`, {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: made(`${of}-${id}-data`),
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    });
    await api.post(`${core}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: made(`${of}-${id}`),
      spec: {
        containers: [{ name: "foundationdb", image: "foundationdb:7.3" }],
        volumes: [{ name: "data", persistentVolumeClaim: { claimName: `${of}-${id}-data` } }],
      },
    });
    await api.patch(path, { spec: { processGroupsToRemove: [id] } });
    const blocked = async () => {
      const { spec } = await api.get<{ spec: { buggify?: { blockRemoval?: string[] } } }>(path);
      return spec.buggify?.blockRemoval?.includes(id) ? true : undefined;
    };
    await eventually("its removal held back", 60_000, blocked);
    await delay(1_500);
    const now = new Date().toISOString();
    const excluded = { processGroupID: id, faultDomain: "zone-a", removalTimestamp: now, exclusionTimestamp: now };
    await api.patch(`${path}/status`, { status: { processGroups: [excluded] } });
    const state = async () =>
      (await api.get<{ metadata: Metadata }>(claim)).metadata.annotations?.["sluice.dev/suspend-state"];
    await eventually("it suspended", 90_000, async () => ((await state()) === "Suspended" ? true : undefined));
    await api.patch(claim, { metadata: { labels: { [label]: null } } });
    await eventually("an Event that says so", 60_000, async () => {
      const { items } = await api.get<{ items: { message: string }[] }>(`${core}/events`);
      const text = /^volume-unfound: storage-1 stays: .*payments-storage-1-data.*give each the label example.com/;
      return items.some(({ message }) => text.test(message)) ? true : undefined;
    });
    assert.deepEqual([await blocked(), await state()], [true, "Suspended"]);
  });

  test("removalMode None: no pod and no volume is deleted, and each volume claim gives the reason", async () => {
    await operator.change({ spec: { processGroupsToRemove: leaving } });
    for (const id of leaving)
      await waitFor(id, /^mode-none: .*spec\.automationOptions\.removalMode of orders is None$/);
    await delay(frozenMs);
    assert.deepEqual(taken(), []);
  });

  test("None in the middle of a suspension, or an unknown mode, keeps the other pod, and the volume although its time is over", async () => {
    await setMode("Zone");
    await eventually("the first pod taken", 60_000, async () => (taken().length > 0 ? true : undefined));
    await setMode("Rack");
    const first = leaving.find((id) => takenMs(`${name}-${id}`) !== undefined) ?? "";
    await waitFor(first, /^mode-none: .*removalMode of orders is "Rack", and none of All, Zone, ProcessGroup and None/);
    const { items } = await api.get<{ items: { message: string }[] }>(`${core}/events`);
    assert.ok(items.some(({ message }) => /^removal-mode-unknown: .*"Rack"/.test(message)));
    await setMode("None");
    await delay(frozenMs);
    assert.deepEqual(taken(), [`${name}-${first}`], "one pod, and no volume");
  });

  test("waitBetweenRemovalsSeconds counts without an annotation", async (context) => {
    await setMode("Zone");
    await eventually("all removed whole", 200_000, async () =>
      operator.included.length === leaving.length ? true : undefined,
    );
    for (const [what, suffix] of Object.entries({ pods: "", volumes: "-data" })) {
      const times = leaving.map((id) => takenMs(`${name}-${id}${suffix}`) ?? Number.NaN).sort((one, two) => one - two);
      const gaps = times.slice(1).map((ms, index) => ms - (times[index] ?? Number.NaN));
      context.diagnostic(`${what} went ${gaps.map((ms) => (ms / 1000).toFixed(1)).join(" s and ")} s apart`);
      for (const ms of gaps) assert.ok(ms >= waitSeconds * 1000 - eventMs, `${what}: ${ms} ms apart`);
    }
    assert.deepEqual(operator.deletedClaims, [], "the operator finds no volume that it could delete");
  });
});

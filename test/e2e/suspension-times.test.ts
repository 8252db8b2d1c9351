/** How long suspended volumes stay, and how far apart pods and volumes go, by the audit log of a real API server. */
import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, ApiError, eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { ANNOTATIONS } from "../controlplane/kubelet.ts";
import { applyCrds } from "../support/drain.ts";
import { killInTurn } from "../support/kill-in-turn.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { SuspensionWitness } from "./suspension-witness.ts";

const name = "db";
const zones = ["zone-a", "zone-b", "zone-c"];
const waitMs = 20_000;
/** A stamp and its age are by the API server's clock in whole seconds, and a watch reports a little late. */
const clockMs = 1_500;

describe("times of suspension on a real control plane", {
  skip: await skipWithoutControlPlane(),
  concurrency: 4,
}, () => {
  let controlPlane: ControlPlane;
  let api: Api;

  before(async () => {
    controlPlane = await startControlPlane();
    await applyCrds(controlPlane);
    // The API server takes the name of a size's writer from this.
    api = await Api.open(controlPlane, { userAgent: "autoscaler-test" });
  });

  after(async () => {
    await api?.close();
    await controlPlane?.stop();
  });

  /** A group whose highest pods may go, with these settings on its StatefulSets. */
  async function group(namespace: string, annotations: Readonly<Record<string, string>>): Promise<void> {
    const podAnnotations = { [ANNOTATIONS.readyAfterMs]: "200", [ANNOTATIONS.goneAfterMs]: "300" };
    const options = { name, namespace, pods: 2, annotations, podAnnotations, volumes: ["data"] };
    await waitForGroupReady(controlPlane, await createGroup(controlPlane, options));
  }

  const claimPath = (namespace: string, zone: string) =>
    `/api/v1/namespaces/${namespace}/persistentvolumeclaims/data-${name}-${zone}-1`;

  async function annotate(namespace: string, zone: string, texts: Readonly<Record<string, string | null>>) {
    const annotations = Object.fromEntries(Object.entries(texts).map(([key, text]) => [`sluice.dev/${key}`, text]));
    await api.patch(claimPath(namespace, zone), { metadata: { annotations } });
  }

  /** Waits for the second after the pods' creation, because a drained-at of the same second is not newer than they are. */
  async function ask(namespace: string, asked: readonly string[]): Promise<void> {
    await delay(1_100);
    const now = new Date().toISOString();
    for (const zone of asked) await annotate(namespace, zone, { suspend: "true", "drained-at": now });
  }

  const serve = (namespace: string, settings: Readonly<Record<string, string>> = {}) =>
    Server.start({ kubeconfig: controlPlane.kubeconfig, namespace, settings });

  async function suspended(namespace: string, zone: string): Promise<void> {
    await eventually(`${zone} suspended`, 90_000, async () => {
      const { metadata } = await api.get<{ metadata: Metadata }>(claimPath(namespace, zone));
      return metadata.annotations?.["sluice.dev/suspend-state"] === "Suspended" ? true : undefined;
    });
  }

  test("in three zones with a wait of 20 s pods go 20 s apart, and so do volumes, none of them before its time", async (context) => {
    const namespace = "apart";
    const durationMs = 30_000;
    await group(namespace, {
      "sluice.dev/suspend-duration": `${durationMs / 1_000}s`,
      "sluice.dev/wait-between-removals": `${waitMs / 1_000}s`,
    });
    const witness = await SuspensionWitness.start(controlPlane, namespace);
    const server = await serve(namespace);
    try {
      const from = await auditPosition(controlPlane.auditLog);
      await ask(namespace, zones);
      await eventually("the three volumes gone", 300_000, async () => {
        const gone = witness.claims.filter(({ goneMs }) => goneMs !== undefined);
        return gone.length === zones.length ? true : undefined;
      });
      const pods = witness.pods.flatMap(({ takenMs }) => takenMs ?? []);
      assertApart(context, "pods", pods, zones.length);
      const deleted: number[] = [];
      for await (const entry of readAudit(controlPlane.auditLog, { from })) {
        const { verb, resource, code, at } = entry;
        if (entry.namespace !== namespace || verb !== "delete" || resource !== "persistentvolumeclaims") continue;
        assert.equal(code, 200, entry.name);
        deleted.push(at);
        const pod = witness.pods.find((one) => entry.name?.endsWith(one.name));
        assert.ok(
          at - (pod?.goneMs ?? Number.POSITIVE_INFINITY) >= durationMs - clockMs,
          `${entry.name} went too early`,
        );
      }
      assertApart(context, "volumes", deleted, zones.length);
    } finally {
      await server.kill();
      await witness.stop();
    }
  });

  /** `takeTurns`: both functions run, and one of the two processes is killed every second. */
  for (const takeTurns of [false, true]) {
    const who = takeTurns ? "two processes that are killed in turn every second" : "gc-suspended-groups alone";
    test(`a pod that an autoscaler brings back for 3 s, unseen by ${who}: its volume stays 60 s after it left for the last time`, async (context) => {
      const namespace = takeTurns ? "turns" : "alone";
      const durationMs = 60_000;
      await group(namespace, {
        "sluice.dev/suspend-duration": `${durationMs / 1_000}s`,
        "sluice.dev/wait-between-removals": "0s",
      });
      const witness = await SuspensionWitness.start(controlPlane, namespace);
      // Nothing is watched and no event comes: there are only sweeps, and the requeues of reconciles.
      const settings = { VIEWS: "list", SWEEP_INTERVAL: "10s" };
      const start = () => serve(namespace, settings);
      const servers = [await start()];
      let killing: { end(): Promise<number> } | undefined;
      try {
        await ask(namespace, ["zone-a"]);
        await suspended(namespace, "zone-a");
        await servers.pop()?.kill();
        // No sweep comes between its first reconcile and the one for which it asks: the end of the first time.
        const alone = { ...settings, SWEEP_INTERVAL: "5m", FUNCTION: "gc-suspended-groups" };
        servers.push(...(takeTurns ? [await start(), await start()] : [await serve(namespace, alone)]));
        if (takeTurns) killing = killInTurn(servers, { start, everyMs: 1_000 });
        await delay(durationMs / 2);
        await haveBackFor(namespace, 3_000);
        const pod = `${name}-zone-a-1`;
        const goneMs = await eventually("its pod gone for the last time", 30_000, async () => {
          const stories = witness.pods.filter((one) => one.name === pod);
          return stories.length === 2 ? stories[1]?.goneMs : undefined;
        });
        // Somewhat longer than the first time would have run, and as long as the new one must.
        await delay(Math.max(0, goneMs + durationMs - clockMs - Date.now()));
        const claim = witness.claims.find((one) => one.name.endsWith(pod));
        assert.deepEqual([claim?.takenMs, claim?.goneMs], [undefined, undefined], "its volume stays");
      } finally {
        const kills = await killing?.end();
        if (kills !== undefined) context.diagnostic(`${kills} kills`);
        await Promise.all(servers.map((server) => server.kill()));
        await witness.stop();
      }
    });
  }

  async function haveBackFor(namespace: string, ms: number): Promise<void> {
    const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}-zone-a`;
    const pod = `/api/v1/namespaces/${namespace}/pods/${name}-zone-a-1`;
    await api.patch(path, { spec: { replicas: 2 } });
    await eventually("its pod back", 30_000, () => api.get<object>(pod).catch(absent), 20);
    await delay(ms);
    await api.patch(path, { spec: { replicas: 1 } });
  }

  test("a volume on hold whose StatefulSet loses its duration is written at most twice a minute", async (context) => {
    const namespace = "held";
    await group(namespace, { "sluice.dev/suspend-duration": "1h" });
    const server = await serve(namespace);
    try {
      await ask(namespace, ["zone-a"]);
      await suspended(namespace, "zone-a");
      await annotate(namespace, "zone-a", { hold: "true" });
      const lost = { metadata: { annotations: { "sluice.dev/suspend-duration": null } } };
      await api.patch(`/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}-zone-a`, lost);
      const from = await auditPosition(controlPlane.auditLog);
      await delay(60_000);
      let patches = 0;
      for await (const { verb, resource, ...entry } of readAudit(controlPlane.auditLog, { from }))
        if (verb === "patch" && resource === "persistentvolumeclaims" && entry.namespace === namespace) patches++;
      context.diagnostic(`${patches} PATCHes of volume claims in a minute`);
      assert.ok(patches <= 2, `${patches} PATCHes`);
    } finally {
      await server.kill();
    }
  });
});

function assertApart(context: TestContext, what: string, times: readonly number[], count: number): void {
  const sorted = [...times].sort((one, other) => one - other);
  assert.equal(sorted.length, count);
  const gaps = sorted.slice(1).map((ms, index) => ms - (sorted[index] ?? 0));
  context.diagnostic(`${what} ${gaps.map((ms) => (ms / 1_000).toFixed(1)).join(" and ")} s apart`);
  for (const gapMs of gaps) assert.ok(gapMs >= waitMs - clockMs, `two ${what} went ${gapMs} ms apart`);
}

function absent(error: unknown): undefined {
  if (error instanceof ApiError && error.status === 404) return undefined;
  throw error;
}

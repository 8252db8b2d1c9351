/** Every pod in the cluster can post events: what forged ones and floods of them cost, counted by the real API server. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { servesForMs } from "../../triggers/telemetry/metrics-page.ts";
import { eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate } from "../controlplane/fixtures.ts";
import { isWebhook, isWorkload, kubeconfigOf, workloadOf } from "../support/installed.ts";
import { type Built, Kubectl } from "../support/kubectl.ts";
import { changed, flood, post, tick } from "../support/posted.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";
import { forgeries } from "./forgeries.ts";

/** Of each flood. `FLOOD=100000 node --test test/knative/forged.test.ts` posts as many as it takes to see a leak. */
const events = Number(process.env.FLOOD ?? 10_000);
/** Of `lookUpsTogether` and `listingReconciles`: so many at once, and then in a second. */
const lookUps = { atOnce: 100, aSecond: 20 };
const reconcileLimit = { atOnce: 100, aSecond: 10 };
/** Those that a function opens in one namespace. */
const mostWatches = 3;
/** In MB, as `knative/base` limits it. */
const memoryLimit = (512 * 2 ** 20) / 1e6;

interface Asked {
  readonly verb: string;
  readonly resource: string;
  readonly name: string | undefined;
}

suite("forged events and the real API server", { skip: await skipWithoutControlPlane(), concurrency: 3 }, () => {
  let controlPlane: ControlPlane;
  before(async () => {
    controlPlane = await startControlPlane();
  });
  after(() => controlPlane?.stop());

  /** advance-zone-rollout as the overlay `direct` has it, after its first sweep and with a ledger that permits. */
  async function serve(scene: Scene): Promise<Server> {
    const { namespace } = scene.group;
    const kubectl = await Kubectl.open(controlPlane);
    scene.afterwards(() => kubectl.close());
    const objects = await kubectl.buildIn(namespace, "direct");
    const isOurs = ({ apiVersion }: Built) => !apiVersion.includes("knative.dev/");
    await kubectl.apply(objects.filter((object) => isOurs(object) && !isWebhook(object) && !isWorkload(object)));
    // A watch of what has no definition asks for it again every 20 s, whatever events come.
    await kubectl.waitForDefinitions();
    const { account, settings } = workloadOf(objects, "advance-zone-rollout");
    const kubeconfig = await kubeconfigOf(controlPlane, scene.api, namespace, account);
    const server = await scene.serve(settings, { kubeconfig });
    await server.ready();
    await scene.waitForOldLedger(server);
    assert.equal(await post(server, tick), 204);
    await quiet(server);
    return server;
  }

  /** What the scene's function asked the API server for since then, wherever; complete, because the log is in order. */
  async function askedSince({ api, group: { namespace } }: Scene, from: number): Promise<Asked[]> {
    const mark = `mark-${crypto.randomUUID()}`;
    await api.send("GET", `/api/v1/namespaces/${namespace}/configmaps/${mark}`);
    const us = `system:serviceaccount:${namespace}:advance-zone-rollout`;
    return eventually("the audit log read", 60_000, async () => {
      const asked: Asked[] = [];
      for await (const entry of readAudit(controlPlane.auditLog, { from }, () => {})) {
        if (entry.name === mark) return asked;
        if (entry.user === us && !entry.resource.startsWith("/")) asked.push(entry);
      }
      return undefined;
    });
  }

  test("a forged event costs a read at most, and changes nothing whatever it claims", async () => {
    await play(controlPlane, "forged", { zones: 2, pods: 2 }, async (scene) => {
      const server = await serve(scene);
      const { namespace, statefulSets } = scene.group;
      const before = await revisionsOf(scene);
      for (const { description, status, headers, body, asks } of forgeries(namespace, statefulSets[0] ?? "")) {
        const from = await auditPosition(controlPlane.auditLog);
        assert.equal(await post(server, headers, body), status, description);
        await quiet(server);
        const asked = await askedSince(scene, from);
        const reads = asked.filter(({ verb }) => verb === "get" || verb === "list");
        const watches = asked.filter(({ verb }) => verb === "watch");
        // A reconcile may find the watches let go, and opens them once.
        assert.ok(watches.length <= mostWatches, `${description}: ${watches.length} watches`);
        assert.equal(reads.length + watches.length, asked.length, description);
        assert.ok(
          reads.length <= asks,
          `${description}: ${reads.map(({ verb, resource }) => `${verb} ${resource}`).join()}`,
        );
      }
      assert.deepEqual(await revisionsOf(scene), before);
    });
  });

  /** Runs a flood, and resolves to what it cost. */
  async function measure(scene: Scene, server: Server, run: () => Promise<Record<number, number>>): Promise<Cost> {
    const from = await auditPosition(controlPlane.auditLog);
    const samples = [await residentMb(server)];
    const ended = new AbortController();
    const sampling = (async () => {
      for (; !ended.signal.aborted; await delay(500)) samples.push(await residentMb(server));
    })();
    const startedMs = performance.now();
    const statuses = await run();
    const seconds = (performance.now() - startedMs) / 1000;
    ended.abort();
    await sampling;
    return { statuses, seconds, asked: await askedSince(scene, from), samples };
  }

  test("a flood of events about StatefulSets that are none costs 20 reads a second and little memory, and holds up no rollout", async (context) => {
    await play(controlPlane, "flooded", { zones: 3, pods: 3 }, async (scene) => {
      const server = await serve(scene);
      const { namespace } = scene.group;
      const honest: Promise<number>[] = [];
      scene.observer.listen((kind, _type, name) => honest.push(post(server, changed(kind, namespace, name))));
      let rolledMs = 0;
      const cost = await measure(scene, server, async () => {
        const forged = (event: number) => changed("StatefulSet", namespace, `forged-${event}`);
        const flooding = flood(server, (posted) => posted < events || rolledMs === 0, forged);
        const startedMs = performance.now();
        await changeTemplate(controlPlane, scene.group, "app:2");
        await scene.waitForRollout("app:2");
        rolledMs = performance.now() - startedMs;
        return flooding;
      });
      context.diagnostic(`${describe(cost)}; in its midst a rollout of ${(rolledMs / 1000).toFixed(1)} s`);
      assert.deepEqual(Object.keys(cost.statuses), ["204"]);
      assert.ok((await Promise.all(honest)).every((status) => status === 204));
      const reads = cost.asked.filter(({ name }) => name?.startsWith("forged-")).length;
      const most = lookUps.atOnce + (cost.seconds + 1) * lookUps.aSecond;
      assert.ok(reads > 0 && reads <= most, `${reads} reads`);
      assert.ok((await server.metric("sluice_events_total", { result: "deferred" })) > 0);
      assert.ok(Math.max(...cost.samples) < memoryLimit, describe(cost));
    });
  });

  test("a flood of events about one StatefulSet of a group costs ten passes a second, and the group rolls after it", async (context) => {
    await play(controlPlane, "repeated", { zones: 3, pods: 2 }, async (scene) => {
      const server = await serve(scene);
      const { namespace, statefulSets } = scene.group;
      const repeated = () => changed("StatefulSet", namespace, statefulSets[0] ?? "");
      const cost = await measure(scene, server, () => flood(server, (posted) => posted < events, repeated));
      context.diagnostic(describe(cost));
      assert.deepEqual(Object.keys(cost.statuses), ["204"]);
      const listed = cost.asked.filter(({ resource }) => resource === "statefulsets").length;
      const most = reconcileLimit.atOnce + (cost.seconds + 1) * reconcileLimit.aSecond;
      assert.ok(listed > 0 && listed <= most, `${listed} passes`);
      assert.ok(cost.asked.every(({ verb }) => verb === "get" || verb === "list"));
      assert.ok(Math.max(...cost.samples) < memoryLimit, describe(cost));
      scene.observer.listen((kind, _type, name) => void post(server, changed(kind, namespace, name)));
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
    });
  });
});

interface Cost {
  /** How often each status was answered. */
  readonly statuses: Readonly<Record<number, number>>;
  readonly seconds: number;
  readonly asked: readonly Asked[];
  /** Resident memory of the server from before it on, in MB. */
  readonly samples: readonly number[];
}

function describe({ statuses, seconds, asked, samples }: Cost): string {
  const counts = new Map<string, number>();
  for (const { verb, resource } of asked) {
    counts.set(`${verb} ${resource}`, (counts.get(`${verb} ${resource}`) ?? 0) + 1);
  }
  const requests = [...counts].map(([what, count]) => `${count} ${what}`).join(", ");
  const answered = JSON.stringify(statuses);
  const memory = [samples[0], samples[samples.length >> 1], samples.at(-1)].map((mb) => mb?.toFixed(0)).join(", ");
  return `answers ${answered} in ${seconds.toFixed(1)} s; ${requests}; MB before, in the middle, at the end: ${memory}`;
}

/** Resolves when all that was queued has been done. */
async function quiet(server: Server): Promise<void> {
  // One rendering of the metrics serves for so long: that of before the event says nothing of it.
  await delay(servesForMs);
  await eventually("nothing queued", 30_000, async () =>
    (await gauge(server, "sluice_queue_keys")) === 0 ? true : undefined,
  );
}

async function residentMb(server: Server): Promise<number> {
  return (await gauge(server, "process_resident_memory_bytes")) / 1e6;
}

async function gauge(server: Server, name: string): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}

interface Named {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
}

/** Of all that Sluice may write in the scene's namespace. */
async function revisionsOf({ api, group: { namespace } }: Scene): Promise<Record<string, string>> {
  const paths = [
    ...["pods", "secrets", "events"].map((type) => `/api/v1/namespaces/${namespace}/${type}`),
    `/apis/apps/v1/namespaces/${namespace}/statefulsets`,
    `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`,
  ];
  const lists = await Promise.all(paths.map((path) => api.get<{ items: Named[] }>(path)));
  const entries = lists.flatMap(({ items }, index) =>
    items.map(({ metadata }) => [`${paths[index]}/${metadata.name}`, metadata.resourceVersion] as const),
  );
  return Object.fromEntries(entries);
}

/** Rollouts that Knative's own programs drive: the overlays as they are rendered, functions behind queue-proxy and from zero. */
import assert from "node:assert/strict";
import { after, before, suite, type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { changeTemplate } from "../controlplane/fixtures.ts";
import { childrenOf } from "../controlplane/processes.ts";
import { runKubectl } from "../support/drain.ts";
import { Ingesters } from "../support/ingester.ts";
import { waitForNoClaim } from "../support/notified-scene.ts";
import { refuseScaling } from "../support/refused-scaling.ts";
import { type Asked, play, type Scene } from "../support/scene.ts";
import { doubleAndShuffle, evictAtRandom, killAtRandom, loseAThird } from "./cluster/faults.ts";
import { type ApiServerSource, lists, pathOf } from "./cluster/objects.ts";
import {
  type Act,
  type Stage,
  skipWithoutKnative,
  startStage,
  waitForOldLedger,
  waitForZero,
} from "./cluster/stage.ts";

const zones = 3;
const pods = 20;
const budget = 5;
const readyAfterMs = 1_000;
const limitMs = zones * Math.ceil(pods / budget) * readyAfterMs;
/** Knative's is a minute. */
const stableWindowMs = 3_000;
/** As patches of a user's kustomization have it. */
const change = (kind: string, ...operations: readonly object[]) => ({
  target: { kind },
  patch: JSON.stringify(operations),
});
const everyTwoSeconds = "*/2 * * * * *";
const onLeapDays = "0 0 29 2 *";
/** Where a pod is told that it leaves. */
const shutdownPath = "/ingester/prepare-shutdown";

suite("on Knative's data plane and the real API server", { skip: await skipWithoutKnative() }, () => {
  let stage: Stage;
  let direct: Act;
  let brokered: Act;
  let ingesters: Ingesters;
  const group = { zones, pods, maxUnavailable: budget, readyAfterMs };
  // Both at once: their ledgers have to grow old. What later tests need is installed while others run: each installed
  // overlay has schedules of seconds, which start functions all the time.
  before(async () => {
    ingesters = await Ingesters.open({ shutdownPath });
    stage = await startStage(stableWindowMs, ingesters.nodeOptions);
    [direct, brokered] = await Promise.all([
      stage.set("direct", "direct", { ...group, admission: false }),
      stage.set("broker", "brokered", { ...group, admission: false }),
    ]);
  });
  after(async () => {
    await stage?.close();
    await ingesters?.close();
  });

  const notify = once(async () => {
    // Only what the test is about may look at a claim that is overdue.
    const withoutSweep = {
      ...change("PingSource", { op: "replace", path: "/spec/schedule", value: onLeapDays }),
      target: { kind: "PingSource", name: "release-prepared" },
    };
    const labels = { "grafana.com/prepare-downscale": "true" };
    const annotations = {
      "grafana.com/prepare-downscale-http-path": shutdownPath,
      "grafana.com/prepare-downscale-http-port": String(ingesters.port),
    };
    const act = await stage.set("direct", "told", { zones: 2, pods: 3, labels, annotations, patches: [withoutSweep] });
    const { scene, namespace } = act;
    const ending = new AbortController();
    scene.afterwards(async () => ending.abort());
    await ingesters.followPods(scene.api, namespace, ending.signal);
    return act;
  });
  const stormy = once(() => {
    const sweeping = change("PingSource", { op: "replace", path: "/spec/schedule", value: everyTwoSeconds });
    return stage.set("broker", "stormy", { ...group, patches: [sweeping], zoneBudget: { maxUnavailable: budget } });
  });
  const odd = once(() => {
    const resources = change("ApiServerSource", { op: "replace", path: "/spec/mode", value: "Resource" });
    const unfiltered = change("Trigger", { op: "remove", path: "/spec/filters" });
    const patches = [resources, unfiltered];
    return stage.set("broker", "odd", { pods: 4, maxUnavailable: 2, patches, admission: false });
  });

  async function rollFromZero(context: TestContext, { activator, play, uninstall }: Act): Promise<void> {
    const { takings } = await play(async (scene) => {
      await waitForOldLedger(scene);
      await waitForZero(activator);
      const { starts } = activator;
      const from = await auditPosition(stage.controlPlane.auditLog);
      const startedMs = performance.now();
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      await scene.waitForTakings(1);
      const firstMs = performance.now() - startedMs;
      await scene.waitForRollout("app:2");
      const tookMs = performance.now() - startedMs;
      context.diagnostic(`time / limit: ${(tookMs / limitMs).toFixed(2)} (${(tookMs / 1_000).toFixed(1)} s)`);
      context.diagnostic(`from the change to the first pod, a cold start in between: ${firstMs.toFixed(0)} ms`);
      assert.ok(activator.starts > starts, "it was at zero");
      await waitForZero(activator);
      const asked = Map.groupBy(await reportRequests(context, scene, from), functionOf);
      const listed = asked.get("advance-zone-rollout")?.filter(({ verb }) => verb === "list") ?? [];
      assert.ok(listed.length < pods, `it listed ${listed.length} times, and did not decide from memory`);
    });
    assert.equal(takings.length, zones * pods, "every pod goes once");
    await uninstall();
  }

  /** Prints how many requests there were, of whom and of what kind; watches stand beside them. Resolves to all of them. */
  async function reportRequests(context: TestContext, scene: Scene, from: number): Promise<readonly Asked[]> {
    const [requests, watches] = await Promise.all([scene.requests(from), scene.watches(from)]);
    context.diagnostic(`API requests per pod: ${(requests.length / (zones * pods)).toFixed(2)}`);
    const all = [...requests, ...watches];
    for (const [by, asked] of Map.groupBy(all, functionOf))
      context.diagnostic(`${by}: ${asked.length}: ${tallyOf(asked)}`);
    return all;
  }

  test("for comparison a server that lives and watches rolls as many pods on the same machine", async (context) => {
    await play(stage.controlPlane, "living", group, async (scene) => {
      await scene.waitForOldLedger(await scene.serve());
      const from = await auditPosition(stage.controlPlane.auditLog);
      const startedMs = performance.now();
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      const tookMs = performance.now() - startedMs;
      context.diagnostic(`time / limit: ${(tookMs / limitMs).toFixed(2)} (${(tookMs / 1_000).toFixed(1)} s)`);
      await reportRequests(context, scene, from);
    });
  });

  test("events alone drive a rollout from the sources to the function, which starts from zero and ends there", async (context) => {
    await rollFromZero(context, direct);
  });

  test("the same through a Broker: ingress, channel, the filter of the Trigger", async (context) => {
    beginNow(notify);
    await rollFromZero(context, brokered);
  });

  test("a policy refuses behind the review, and no event comes after that: the first tick after 90 s has the pod told to stay", async (context) => {
    const { scene, namespace } = await notify();
    const [, zone = ""] = scene.group.statefulSets;
    const pod = `${zone}-2`;
    await waitForOldLedger(scene);
    await refuseScaling(scene.api, namespace, zone);
    const came: { readonly atMs: number; readonly source: string }[] = [];
    const releaser = stage.cluster.service(namespace, "release-prepared");
    assert.ok(releaser);
    releaser.interfere((deliver, headers) => {
      came.push({ atMs: Date.now(), source: String(headers["ce-source"]) });
      return deliver();
    });
    await eventually("a tick", 30_000, async () => (came.length > 0 ? true : undefined));
    const size = `/apis/apps/v1/namespaces/${namespace}/statefulsets/${zone}/scale`;
    await assert.rejects(scene.api.patch(size, { spec: { replicas: 2 } }), /it keeps its size/);
    assert.deepEqual(callsOf(zone), [`POST ${pod} 204`]);
    // They are there before the 90 s end: how fast the machine is then is what the bound is about.
    beginNow(stormy, odd);
    const timeOf = (method: string) => ingesters.calls.find((call) => call.pod === pod && call.method === method)?.atMs;
    const notifiedMs = timeOf("POST") ?? Number.NaN;
    const undoneMs = await eventually("the pod told to stay", 120_000, async () => timeOf("DELETE"));
    const seconds = (undoneMs - notifiedMs) / 1_000;
    context.diagnostic(`told to stay after ${seconds.toFixed(1)} s`);
    const between = came.filter(({ atMs }) => atMs > notifiedMs && atMs < undoneMs);
    const gaps = between.slice(1).map(({ atMs }, index) => (atMs - (between[index]?.atMs ?? 0)) / 1_000);
    context.diagnostic(`ticks ${Math.min(...gaps).toFixed(1)} to ${Math.max(...gaps).toFixed(1)} s apart`);
    const schedule = `/apis/v1/namespaces/${namespace}/pingsources/release-prepared-due`;
    assert.deepEqual([...new Set(between.map(({ source }) => source))], [schedule]);
    // A tick that comes while the 90 s end may find them over or not.
    const due = came.find(({ atMs }) => atMs >= notifiedMs + 91_000);
    const waitedMs = due === undefined ? 0 : undoneMs - due.atMs;
    assert.ok(seconds > 85 && waitedMs < 10_000, `${seconds} s, ${waitedMs} ms after the tick`);
    await waitForNoClaim(scene);
  });

  test("kubectl makes a zone smaller: its pods are told by a review, and a function that starts from zero ends the claim", async (context) => {
    const { play, uninstall } = await notify();
    await play(async (scene) => {
      const { group } = scene;
      const [first = ""] = group.statefulSets;
      await waitForOldLedger(scene);
      const { code, stderr } = await scaleTo(group.namespace, first, 1);
      assert.equal(code, 0, stderr);
      assert.deepEqual(callsOf(first).sort(), [`POST ${first}-1 204`, `POST ${first}-2 204`]);
      const startedMs = performance.now();
      await waitForNoClaim(scene);
      context.diagnostic(`the claim ended ${((performance.now() - startedMs) / 1000).toFixed(1)} s after the change`);
      assert.equal((await scene.statefulSet(first)).spec.replicas, 1);
      assert.deepEqual(
        callsOf(first).filter((call) => call.startsWith("DELETE")),
        [],
      );
    });
    await uninstall();
  });

  const callsOf = (zone: string) =>
    ingesters.calls
      .filter(({ pod }) => pod.startsWith(zone))
      .map(({ method, pod, status }) => `${method} ${pod} ${status}`);

  function scaleTo(namespace: string, name: string, replicas: number) {
    return runKubectl(stage.controlPlane, "-n", namespace, "scale", "statefulset", name, `--replicas=${replicas}`);
  }

  suite("when things go wrong", { concurrency: 2 }, () => {
    test("adapters and functions are killed, a third of the events is lost, pods are evicted: sweeps end it, no promise is broken", async (context) => {
      const act = await stormy();
      const { activator, play } = act;
      await play(async (scene) => {
        await waitForOldLedger(scene);
        activator.interfere(loseAThird);
        const rolled = new AbortController();
        const startedMs = performance.now();
        await changeTemplate(stage.controlPlane, scene.group, "app:2");
        const faulty = AbortSignal.any([rolled.signal, AbortSignal.timeout(25_000)]);
        const rolling = scene.waitForRollout("app:2").finally(() => rolled.abort());
        const [kills, answers] = await Promise.all([
          killAtRandom(stage.cluster, act, faulty),
          evictAtRandom(scene, faulty),
          rolling,
        ]);
        const tookMs = performance.now() - startedMs;
        context.diagnostic(`time / limit: ${(tookMs / limitMs).toFixed(2)} (${(tookMs / 1_000).toFixed(1)} s)`);
        context.diagnostic(`killed: ${JSON.stringify(kills)}; evictions: ${JSON.stringify([...answers])}`);
        assert.ok(kills.adapters > 0 && kills.functions > 0 && kills.replicas > 0);
        const { items } = await scene.api.get<{ items: { reason: string }[] }>(
          `/api/v1/namespaces/${scene.group.namespace}/events`,
        );
        const waited = items.some(({ reason }) => reason === "EvictionWaits");
        assert.ok((answers.get(201) ?? 0) > 0, "some may go");
        assert.ok(waited || (answers.get(429) ?? 0) > 0, "and some may not, or not yet");
      });
      await act.uninstall();
    });

    suite("with a source in Resource mode and a Trigger without a filter", { concurrency: false }, () => {
      test("a broker that delivers twice and out of order has every pod go once", async () => {
        const { activator, scene } = await odd();
        await waitForOldLedger(scene);
        activator.interfere(doubleAndShuffle);
        await changeTemplate(stage.controlPlane, scene.group, "app:2");
        await scene.waitForRollout("app:2");
        assert.equal(scene.observer.takings.length, 12);
        activator.interfere((deliver) => deliver());
        await waitForZero(activator);
      });

      test("no adapter tells what changes while the adapters are away, and the next sweep finds it", async (context) => {
        const { activator, namespace, scene } = await odd();
        const { cluster, controlPlane } = stage;
        const back = Promise.withResolvers<void>();
        const adapters = cluster.adapters(namespace);
        await Promise.all(adapters.map((adapter) => adapter.kill(back.promise)));
        await changeTemplate(controlPlane, scene.group, "app:3");
        back.resolve();
        await eventually("the adapters back", 30_000, async () =>
          cluster.adapters(namespace).length === adapters.length ? true : undefined,
        );
        await delay(1_000);
        context.diagnostic(
          `before the sweep ${activator.scale} instances ran, and ${scene.observer.takings.length - 12} pods went`,
        );
        const source = pathOf(lists.pingSources, { namespace, name: "advance-zone-rollout" });
        await scene.api.patch(source, { spec: { schedule: everyTwoSeconds } });
        await scene.waitForRollout("app:3");
      });

      test("who sends an event to a function that is killed in the middle learns of it, and its retry is taken", async () => {
        const { activator, scene, play } = await odd();
        const send = () => fetch(activator.url, eventOf(scene.group.namespace, scene.group.statefulSets[0] ?? ""));
        assert.equal((await send()).status, 204);
        const [instance] = activator.instances;
        instance?.signal("SIGSTOP");
        const unanswered = send();
        await eventually("the event under way", 10_000, async () => (activator.inFlight > 0 ? true : undefined));
        await delay(500);
        instance?.signal("SIGKILL");
        assert.equal((await unanswered).status, 502, "sources and brokers send again after this");
        await eventually("the event sent again and taken", 10_000, async () =>
          (await send()).status === 204 ? true : undefined,
        );
        await play(async () => {});
      });
    });
  });

  test("a cluster that is closed while it does what was just asked leaves none of its programs behind", async () => {
    const { cluster, controlPlane } = stage;
    const { namespace } = await odd();
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-user", connections: 1 });
    const { items } = await api.get<{ items: ApiServerSource[] }>(lists.apiServerSources);
    const [source] = items.filter(({ metadata }) => metadata.namespace === namespace);
    assert.ok(source);
    const { length } = cluster.adapters(namespace);
    await api.patch(pathOf(lists.apiServerSources, source.metadata), { spec: { mode: "Reference" } });
    await eventually("its adapter ended, to be started anew", 10_000, async () =>
      cluster.adapters(namespace).length < length ? true : undefined,
    );
    await api.close();
    await stage.close();
    assert.deepEqual(childrenOf(process.pid), []);
  });
});

/** What a test sets once, when it is first asked for. */
function once<T>(set: () => Promise<T>): () => Promise<T> {
  let known: Promise<T> | undefined;
  return () => {
    known ??= set();
    return known;
  };
}

/** Whatever fails is the failure of the tests that need it. */
function beginNow(...needed: readonly (() => Promise<unknown>)[]): void {
  for (const need of needed) need().catch(() => {});
}

/** Whose request it is, as its user agent says. */
function functionOf({ userAgent }: Asked): string {
  return /\((.*)\)/.exec(userAgent)?.[1] ?? userAgent;
}

/** How many of each kind, the most frequent first. */
function tallyOf(requests: readonly Asked[]): string {
  const kinds = Map.groupBy(requests, ({ verb, resource }) => `${verb} ${resource}`);
  const sorted = [...kinds].sort(([, one], [, other]) => other.length - one.length);
  return sorted.map(([kind, { length }]) => `${kind} ${length}`).join(", ");
}

/** As a source sends it, in Reference mode. */
function eventOf(namespace: string, name: string): RequestInit {
  const object = { apiVersion: "apps/v1", kind: "StatefulSet", namespace, name };
  const event = { specversion: "1.0", id: "1", source: "/test", type: "dev.knative.apiserver.ref.update" };
  const headers = Object.entries(event).map(([attribute, value]): [string, string] => [`ce-${attribute}`, value]);
  return { method: "POST", headers: [["content-type", "application/json"], ...headers], body: JSON.stringify(object) };
}

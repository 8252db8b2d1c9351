import assert from "node:assert/strict";
import { test } from "node:test";
import type { PodAddress, PodHttp } from "../../functions/shared/http/pod-http.ts";
import { get, post, rejection } from "../support/played-pods.ts";
import { createWorldPodHttp, type PodLeg, type WorldPodHttpOptions } from "./pod-http.ts";
import { VirtualTimeline } from "./timeline.ts";
import { createWorld, type World, type WorldGroup } from "./world.ts";
import { createWorldCluster } from "./world-cluster.ts";

const namespace = "ns";
const address: PodAddress = { scheme: "http", pod: "web-a-0", service: "web", namespace, group: "web", port: 80 };

interface Stage {
  readonly world: World;
  readonly timeline: VirtualTimeline;
  readonly group: WorldGroup;
  readonly http: PodHttp;
  /** Uids of the pods that were asked, in order. */
  readonly asked: string[];
}

function stage(options: Partial<WorldPodHttpOptions> = {}): Stage {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const group = world.addGroup({ namespace, group: "web", zones: ["a"], replicas: 2 });
  world.settle();
  const asked: string[] = [];
  const http = createWorldPodHttp({
    world,
    clock: createWorldCluster(world),
    answer: ({ metadata }) => {
      asked.push(metadata.uid);
      return { status: 200, body: metadata.name };
    },
    ...options,
  });
  return { world, timeline, group, http, asked };
}

/** Runs the world until the promise has settled, and returns the promise. */
async function played<T>({ timeline }: Stage, promise: Promise<T>): Promise<T> {
  let isSettled = false;
  const settle = () => {
    isSettled = true;
  };
  promise.then(settle, settle);
  await timeline.run(() => isSettled);
  return await promise;
}

test("a call takes the time of its three messages, or its whole time limit if a message is lost, in virtual time", async () => {
  const lost = new Set<PodLeg>();
  const on = stage({ way: (leg) => (lost.has(leg) ? "lost" : 7) });
  const startMs = on.timeline.nowMs();
  assert.equal((await played(on, on.http.send(address, get))).body, "web-a-0");
  assert.equal(on.timeline.nowMs() - startMs, 21);
  for (const [leg, sent, arrived] of [
    ["connect", false, 0],
    ["request", true, 0],
    ["reply", true, 1],
  ] as const) {
    lost.add(leg);
    const [beforeMs, before] = [on.timeline.nowMs(), on.asked.length];
    const error = await played(on, rejection(on.http.send(address, post)));
    assert.deepEqual([error.failed, error.sent, on.asked.length - before], ["time", sent, arrived], leg);
    assert.equal(on.timeline.nowMs() - beforeMs, 5_000);
    lost.delete(leg);
  }
});

test("a pod is found while its containers run, Ready or not, and only by its own Service", async () => {
  const on = stage();
  const key = { namespace, name: address.pod };
  const first = on.world.store.get("pods", key).metadata.uid;
  on.world.kubelet.breakPod(key, "Unready");
  assert.equal((await played(on, on.http.send(address, get))).status, 200);
  const elsewhere = await played(on, rejection(on.http.send({ ...address, service: "other" }, get)));
  assert.deepEqual([elsewhere.failed, elsewhere.sent], ["connection", false]);
  on.world.store.delete("pods", key, { gracePeriodSeconds: 0 });
  assert.equal((await played(on, rejection(on.http.send(address, get)))).failed, "connection");
  on.world.settle();
  await played(on, on.http.send(address, get));
  assert.equal(on.asked.length, 2);
  assert.equal(on.asked[0], first);
  assert.notEqual(on.asked[1], first);
});

test("a request that is under way when its pod is replaced reaches neither the old nor the new pod", async () => {
  const on = stage({ way: (leg) => (leg === "request" ? 4_000 : 1) });
  const call = rejection(on.http.send(address, post));
  on.timeline.after(10, () =>
    on.world.store.delete("pods", { namespace, name: address.pod }, { gracePeriodSeconds: 0 }),
  );
  const error = await played(on, call);
  assert.deepEqual([error.failed, error.sent, on.asked.length], ["connection", true, 0]);
});

test("a silent node neither answers nor refuses, and gets no request that was under way", async () => {
  const on = stage({ way: (leg) => (leg === "request" ? 1_000 : 1) });
  const { nodeName = "" } = on.world.store.get("pods", { namespace, name: address.pod }).spec;
  on.timeline.after(500, () => on.world.kubelet.loseNode(nodeName));
  const underWay = await played(on, rejection(on.http.send(address, get)));
  assert.deepEqual([underWay.failed, underWay.sent, on.asked.length], ["time", true, 0]);
  const error = await played(on, rejection(on.http.send(address, get)));
  assert.deepEqual([error.failed, error.sent, on.asked.length], ["time", false, 0]);
});

test("code of an ended process does not go on: a call that it had only begun is never sent", async () => {
  let isAlive = true;
  const on = stage({ resume: (go) => isAlive && go() });
  let settled = false;
  void on.http.send(address, post).finally(() => {
    settled = true;
  });
  isAlive = false;
  on.timeline.after(1_000, () => {});
  await on.timeline.run(() => on.timeline.pending === 0 || settled);
  assert.deepEqual([settled, on.asked.length], [false, 0]);
});

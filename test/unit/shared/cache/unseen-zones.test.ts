/** What a process has not learnt yet: a zone that joined, pods of a newer template, pods that have no owner for a while. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { advanceZoneRollout } from "../../../../functions/advance-zone-rollout/function.ts";
import { createWatchCache, type WatchCache } from "../../../../functions/shared/cache/watching.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import type { Cluster, Resource } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { createWorldCluster } from "../../../fake-cluster/world-cluster.ts";
import { addBudget, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import { Harness, key, namespace, played } from "../reconcile/harness.ts";

/** A process whose watches of one type deliver everything late, as a half-open connection or a slow watch cache does. */
class LateProcess {
  lateMs = 0;
  readonly harness: Harness;
  readonly deleted: string[] = [];
  readonly cluster: Cluster;
  #context: Context | undefined;
  #cache: WatchCache | undefined;

  constructor(harness: Harness, late: Resource) {
    this.harness = harness;
    const inner = createWorldCluster(harness.world);
    const watch: Cluster["watch"] = (resource, query, options) => {
      const lateMs = () => (resource === late ? this.lateMs : 0);
      return (async function* () {
        for await (const event of inner.watch(resource, query, options)) {
          if (lateMs() > 0) await inner.sleep(lateMs());
          yield event;
        }
      })();
    };
    this.cluster = wrapCluster(inner, {
      delete: (...given) => {
        const pod = harness.world.store.find("pods", given[1]);
        this.deleted.push(`${given[1].name} ${pod?.spec.containers[0]?.image}`);
        return inner.delete(...given);
      },
      watch,
    });
  }

  async start(): Promise<this> {
    const cache = createWatchCache({
      cluster: this.cluster,
      namespaces: undefined,
      onChange: () => {},
      onTrouble: () => {},
    });
    await played(this.harness.timeline, cache.ready);
    this.#cache = cache;
    this.#context = { ...this.harness.context, cluster: this.cluster, cache, memoryOf: createMemory() };
    await this.run();
    return this;
  }

  async run(): Promise<void> {
    const context = this.#context as Context;
    const outcome = await played(this.harness.timeline, advanceZoneRollout.reconcile(context, key, { sweep: false }));
    if (outcome.pendingActs !== undefined) await played(this.harness.timeline, outcome.pendingActs);
  }

  async stop(): Promise<void> {
    await played(this.harness.timeline, this.#cache?.stop() ?? Promise.resolve());
  }
}

test("a zone that the watch has not reported keeps its reservation, and the other zones wait for it (S1)", async () => {
  const harness = new Harness({ replicas: 2, maxUnavailable: 1 });
  addBudget(harness);
  await harness.run(true);
  await harness.goOn(60_000);
  await harness.run();
  await harness.goOn(6_000);
  const late = await new LateProcess(harness, "statefulsets").start();
  harness.changeImage("app:2");
  await harness.goOn(1_000);
  late.lateMs = 60_000;
  harness.world.addGroup({ namespace, group: "group", zones: ["c"], replicas: 2, maxUnavailable: 1 });
  harness.world.settle();
  await harness.goOn(5_000);
  // The StatefulSet controller takes long to create group-c-0 again.
  harness.world.statefulSetController.stop();
  const webhook = new Replica(harness);
  assert.deepEqual(await webhook.guards(webhook.review("group-c-0")), ["allowed"]);
  const uid = webhook.uidOf("group-c-0");
  const at = { namespace, name: "group-c-0" };
  harness.world.store.delete("pods", at, { gracePeriodSeconds: 0, preconditions: { uid } });
  harness.forget();
  await late.run();
  assert.deepEqual(late.deleted, []);
  assert.deepEqual(reserved(harness), ["group-c-0 by evaluate-eviction"]);
  await late.stop();
});

test("a process reads a reserved StatefulSet that it does not know, even without members-through in the ledger (S1)", async () => {
  const harness = await new Harness({ replicas: 2, maxUnavailable: 1 }).prepare("app:1");
  const late = await new LateProcess(harness, "statefulsets").start();
  harness.changeImage("app:2");
  await harness.goOn(1_000);
  late.lateMs = 60_000;
  harness.world.addGroup({ namespace, group: "group", zones: ["c"], replicas: 2, maxUnavailable: 1 });
  harness.world.settle();
  harness.world.statefulSetController.stop();
  const pod = harness.world.store.get("pods", { namespace, name: "group-c-0" });
  harness.world.store.delete("pods", pod.metadata, { gracePeriodSeconds: 0 });
  harness.writeLedger({
    "sluice.dev/members-through": null,
    "sluice.dev/reservations": JSON.stringify({
      "group-c": { 0: [pod.metadata.uid, "evaluate-eviction", harness.cluster.serverTimeMs()] },
    }),
  });
  await late.run();
  assert.deepEqual(late.deleted, []);
  assert.deepEqual(reserved(harness), ["group-c-0 by evaluate-eviction"]);
  await late.stop();
});

test("no pod of the newest template is taken, however late the watch reports the template's change (D1)", async () => {
  for (const lateMs of [0, 200, 1_000, 20_000]) {
    const harness = await new Harness({ replicas: 3, maxUnavailable: 2 }).prepare();
    const late = await new LateProcess(harness, "statefulsets").start();
    await harness.goOn(12_000);
    await late.run();
    await harness.goOn(400);
    late.lateMs = lateMs;
    late.deleted.length = 0;
    harness.changeImage("app:3");
    const endMs = harness.cluster.monotonicMs() + 6_000;
    while (harness.cluster.monotonicMs() < endMs) {
      await late.run();
      await harness.goOn(20);
    }
    assert.deepEqual(
      late.deleted.filter((one) => one.endsWith("app:3")),
      [],
      `${lateMs} ms late`,
    );
    assert.ok(late.deleted.length > 0);
    await late.stop();
  }
});

test("with VIEWS=list a StatefulSet is read again if pods appeared after it was listed, so that none of them is taken (D1)", async () => {
  const harness = await new Harness({ replicas: 3, maxUnavailable: 3 }).prepare();
  const taken: string[] = [];
  harness.interfere = ({ verb, resource, given }) => {
    if (verb === "delete" && resource === "pods")
      taken.push(harness.imageOf((given[1] as { name: string }).name) ?? "");
    if (verb !== "list" || resource !== "pods" || taken.length > 0) return;
    // Between the LIST of StatefulSets and that of pods, the template changes and pods are created from it.
    harness.interfere = ({ verb: next, given: key }) => {
      if (next === "delete") taken.push(harness.imageOf((key[1] as { name: string }).name) ?? "");
    };
    harness.changeImage("app:3");
    harness.world.store.delete("pods", { namespace, name: "group-a-0" }, { gracePeriodSeconds: 0 });
    return harness.goOn(50);
  };
  await harness.run();
  assert.ok(!taken.includes("app:3"), taken.join());
});

test("a StatefulSet that is deleted without its pods and recreated keeps its reservation (S3)", async () => {
  for (const watches of [false, true]) {
    const harness = await new Harness({ zones: ["a", "b", "c"], replicas: 2, maxUnavailable: 1 }).prepare();
    const cache = watches ? await harness.watch() : undefined;
    await harness.run();
    assert.deepEqual(reserved(harness), ["group-a-0 by advance-zone-rollout"]);
    const set = harness.world.store.get("statefulsets", { namespace, name: "group-a" });
    harness.world.removeStatefulSet(set.metadata, "Orphan");
    for (let second = 0; second < 200; second++) {
      await harness.goOn(second < 2 ? 50 : 1_000);
      harness.forget();
      await harness.run(second % 30 === 7);
      assert.deepEqual([harness.acts, reserved(harness)], [[], ["group-a-0 by advance-zone-rollout"]], `${second} s`);
    }
    assert.equal(harness.guard, "zone-departed");
    const { name, labels, annotations } = set.metadata;
    harness.world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec: set.spec });
    await harness.goOn(100);
    harness.forget();
    await harness.run();
    assert.equal(harness.acts.length, 0);
    harness.world.settle();
    await harness.run();
    assert.deepEqual(
      harness.acts.map(({ object }) => object),
      ["group-a-1"],
    );
    if (cache !== undefined) await played(harness.timeline, cache.stop());
  }
});

test("a StatefulSet that is deleted with its pods delays no zone once they are gone", async () => {
  const harness = await new Harness({ zones: ["a", "b", "c"], replicas: 2, maxUnavailable: 1 }).prepare();
  await harness.run();
  harness.world.removeStatefulSet({ namespace, name: "group-a" });
  await harness.goOn(5_000);
  harness.forget();
  await harness.run();
  assert.deepEqual(
    harness.acts.map(({ object }) => object),
    ["group-b-0"],
  );
});

test("zone-departed ends with the reserved pod if its zone has moved to another group (D5)", async () => {
  const harness = await new Harness({ zones: ["a", "b", "c"], replicas: 2, maxUnavailable: 1 }).prepare();
  await harness.run();
  const labels = { "rollout-group": "other" };
  harness.world.store.patch("statefulsets", { namespace, name: "group-a" }, { metadata: { labels } });
  await harness.run();
  assert.equal(harness.guard, "zone-departed");
  await harness.goOn(5_000);
  // The replacement never becomes ready, which concerns only the other group.
  harness.world.kubelet.breakPod({ namespace, name: "group-a-0" });
  await harness.goOn(100);
  harness.forget();
  await harness.run(true);
  assert.deepEqual(
    harness.acts.map(({ object }) => object),
    ["group-b-0"],
  );
});

test("a LIST of StatefulSets that is answered late removes nothing that appeared since, and brings nothing back (S2)", async () => {
  const harness = await new Harness({ replicas: 2 }).prepare();
  const inner = createWorldCluster(harness.world);
  let lateMs = 0;
  const cluster: Cluster = {
    ...harness.cluster,
    async list(...given) {
      const answer = await inner.list(...given);
      if (given[0] === "statefulsets") await inner.sleep(lateMs);
      return answer;
    },
  };
  const cache = createWatchCache({ cluster, namespaces: undefined, onChange: () => {}, onTrouble: () => {} });
  await played(harness.timeline, cache.ready);
  const read = (consistent: boolean) => {
    const permitSinceMs = consistent ? undefined : harness.cluster.monotonicMs();
    return played(harness.timeline, cache.read(key, { settledThrough: 1, permitSinceMs, consistent }));
  };
  lateMs = 3_000;
  const sweeping = read(true);
  harness.timeline.after(500, () => {
    harness.world.addGroup({ namespace, group: "group", zones: ["c"], replicas: 2 });
    harness.world.removeStatefulSet({ namespace, name: "group-b" });
  });
  const names = (view: Awaited<ReturnType<typeof read>>) => view.workloads.map(({ name }) => name).sort();
  assert.deepEqual(names(await sweeping), ["group-a", "group-c"]);
  lateMs = 0;
  assert.deepEqual(names(await read(false)), ["group-a", "group-c"]);
  await played(harness.timeline, cache.stop());
});

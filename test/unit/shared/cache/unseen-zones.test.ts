/** What a process has not heard of yet: a zone that joined, pods of a newer template, pods that have no owner for a while. */
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
import { key, namespace, Passes, played } from "../reconcile/passes.ts";

/** A process whose watches of one type tell everything late, as a half-open connection or a slow watch cache does. */
class LateProcess {
  lateMs = 0;
  readonly passes: Passes;
  readonly deleted: string[] = [];
  readonly cluster: Cluster;
  #context: Context | undefined;
  #cache: WatchCache | undefined;

  constructor(passes: Passes, late: Resource) {
    this.passes = passes;
    const inner = createWorldCluster(passes.world);
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
        const pod = passes.world.store.find("pods", given[1]);
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
    await played(this.passes.timeline, cache.ready);
    this.#cache = cache;
    this.#context = { ...this.passes.context, cluster: this.cluster, cache, memoryOf: createMemory() };
    await this.run();
    return this;
  }

  async run(): Promise<void> {
    const context = this.#context as Context;
    const outcome = await played(this.passes.timeline, advanceZoneRollout.reconcile(context, key, { sweep: false }));
    if (outcome.pendingActs !== undefined) await played(this.passes.timeline, outcome.pendingActs);
  }

  async stop(): Promise<void> {
    await played(this.passes.timeline, this.#cache?.stop() ?? Promise.resolve());
  }
}

test("a zone that the watch has not told of keeps its reservation, and the others wait for it (S1)", async () => {
  const passes = new Passes({ replicas: 2, maxUnavailable: 1 });
  addBudget(passes);
  await passes.run(true);
  await passes.goOn(60_000);
  await passes.run();
  await passes.goOn(6_000);
  const late = await new LateProcess(passes, "statefulsets").start();
  passes.changeImage("app:2");
  await passes.goOn(1_000);
  late.lateMs = 60_000;
  passes.world.addGroup({ namespace, group: "group", zones: ["c"], replicas: 2, maxUnavailable: 1 });
  passes.world.settle();
  await passes.goOn(5_000);
  // The StatefulSet controller takes long to make group-c-0 again.
  passes.world.statefulSetController.stop();
  const webhook = new Replica(passes);
  assert.deepEqual(await webhook.guards(webhook.review("group-c-0")), ["allowed"]);
  const uid = webhook.uidOf("group-c-0");
  const at = { namespace, name: "group-c-0" };
  passes.world.store.delete("pods", at, { gracePeriodSeconds: 0, preconditions: { uid } });
  passes.forget();
  await late.run();
  assert.deepEqual(late.deleted, []);
  assert.deepEqual(reserved(passes), ["group-c-0 by evaluate-eviction"]);
  await late.stop();
});

test("a process that does not know a reserved StatefulSet asks for it, also where the ledger does not say from when it is (S1)", async () => {
  const passes = await new Passes({ replicas: 2, maxUnavailable: 1 }).prepare("app:1");
  const late = await new LateProcess(passes, "statefulsets").start();
  passes.changeImage("app:2");
  await passes.goOn(1_000);
  late.lateMs = 60_000;
  passes.world.addGroup({ namespace, group: "group", zones: ["c"], replicas: 2, maxUnavailable: 1 });
  passes.world.settle();
  passes.world.statefulSetController.stop();
  const pod = passes.world.store.get("pods", { namespace, name: "group-c-0" });
  passes.world.store.delete("pods", pod.metadata, { gracePeriodSeconds: 0 });
  passes.writeLedger({
    "sluice.dev/members-through": null,
    "sluice.dev/reservations": JSON.stringify({
      "group-c": { 0: [pod.metadata.uid, "evaluate-eviction", passes.cluster.serverTimeMs()] },
    }),
  });
  await late.run();
  assert.deepEqual(late.deleted, []);
  assert.deepEqual(reserved(passes), ["group-c-0 by evaluate-eviction"]);
  await late.stop();
});

test("no pod of the newest template is taken, however late the watch tells that the template changed (D1)", async () => {
  for (const lateMs of [0, 200, 1_000, 20_000]) {
    const passes = await new Passes({ replicas: 3, maxUnavailable: 2 }).prepare();
    const late = await new LateProcess(passes, "statefulsets").start();
    await passes.goOn(12_000);
    await late.run();
    await passes.goOn(400);
    late.lateMs = lateMs;
    late.deleted.length = 0;
    passes.changeImage("app:3");
    const endMs = passes.cluster.monotonicMs() + 6_000;
    while (passes.cluster.monotonicMs() < endMs) {
      await late.run();
      await passes.goOn(20);
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

test("the same where every pass lists: a StatefulSet is read again after the pods that came since (D1)", async () => {
  const passes = await new Passes({ replicas: 3, maxUnavailable: 3 }).prepare();
  const taken: string[] = [];
  passes.interfere = ({ verb, resource, given }) => {
    if (verb === "delete" && resource === "pods") taken.push(passes.imageOf((given[1] as { name: string }).name) ?? "");
    if (verb !== "list" || resource !== "pods" || taken.length > 0) return;
    // Between the LIST of StatefulSets and that of pods: another template, and pods that are made from it.
    passes.interfere = ({ verb: next, given: key }) => {
      if (next === "delete") taken.push(passes.imageOf((key[1] as { name: string }).name) ?? "");
    };
    passes.changeImage("app:3");
    passes.world.store.delete("pods", { namespace, name: "group-a-0" }, { gracePeriodSeconds: 0 });
    return passes.goOn(50);
  };
  await passes.run();
  assert.ok(!taken.includes("app:3"), taken.join());
});

test("a StatefulSet that is deleted without its pods, and made again, keeps its reservation (S3)", async () => {
  for (const watches of [false, true]) {
    const passes = await new Passes({ zones: ["a", "b", "c"], replicas: 2, maxUnavailable: 1 }).prepare();
    const cache = watches ? await passes.watch() : undefined;
    await passes.run();
    assert.deepEqual(reserved(passes), ["group-a-0 by advance-zone-rollout"]);
    const set = passes.world.store.get("statefulsets", { namespace, name: "group-a" });
    passes.world.removeStatefulSet(set.metadata, "Orphan");
    for (let second = 0; second < 200; second++) {
      await passes.goOn(second < 2 ? 50 : 1_000);
      passes.forget();
      await passes.run(second % 30 === 7);
      assert.deepEqual([passes.acts, reserved(passes)], [[], ["group-a-0 by advance-zone-rollout"]], `${second} s`);
    }
    assert.equal(passes.guard, "zone-departed");
    const { name, labels, annotations } = set.metadata;
    passes.world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec: set.spec });
    await passes.goOn(100);
    passes.forget();
    await passes.run();
    assert.equal(passes.acts.length, 0);
    passes.world.settle();
    await passes.run();
    assert.deepEqual(
      passes.acts.map(({ object }) => object),
      ["group-a-1"],
    );
    if (cache !== undefined) await played(passes.timeline, cache.stop());
  }
});

test("a StatefulSet that is deleted with its pods holds no zone up once they are gone", async () => {
  const passes = await new Passes({ zones: ["a", "b", "c"], replicas: 2, maxUnavailable: 1 }).prepare();
  await passes.run();
  passes.world.removeStatefulSet({ namespace, name: "group-a" });
  await passes.goOn(5_000);
  passes.forget();
  await passes.run();
  assert.deepEqual(
    passes.acts.map(({ object }) => object),
    ["group-b-0"],
  );
});

test("zone-departed ends with the reserved pod where its zone has moved to another group (D5)", async () => {
  const passes = await new Passes({ zones: ["a", "b", "c"], replicas: 2, maxUnavailable: 1 }).prepare();
  await passes.run();
  const labels = { "rollout-group": "other" };
  passes.world.store.patch("statefulsets", { namespace, name: "group-a" }, { metadata: { labels } });
  await passes.run();
  assert.equal(passes.guard, "zone-departed");
  await passes.goOn(5_000);
  // What comes instead never gets ready: a matter of the other group.
  passes.world.kubelet.breakPod({ namespace, name: "group-a-0" });
  await passes.goOn(100);
  passes.forget();
  await passes.run(true);
  assert.deepEqual(
    passes.acts.map(({ object }) => object),
    ["group-b-0"],
  );
});

test("a LIST of StatefulSets that is answered late takes nothing away that came since, and brings nothing back (S2)", async () => {
  const passes = await new Passes({ replicas: 2 }).prepare();
  const inner = createWorldCluster(passes.world);
  let lateMs = 0;
  const cluster: Cluster = {
    ...passes.cluster,
    async list(...given) {
      const answer = await inner.list(...given);
      if (given[0] === "statefulsets") await inner.sleep(lateMs);
      return answer;
    },
  };
  const cache = createWatchCache({ cluster, namespaces: undefined, onChange: () => {}, onTrouble: () => {} });
  await played(passes.timeline, cache.ready);
  const read = (consistent: boolean) => {
    const permitSinceMs = consistent ? undefined : passes.cluster.monotonicMs();
    return played(passes.timeline, cache.read(key, { settledThrough: 1, permitSinceMs, consistent }));
  };
  lateMs = 3_000;
  const sweeping = read(true);
  passes.timeline.after(500, () => {
    passes.world.addGroup({ namespace, group: "group", zones: ["c"], replicas: 2 });
    passes.world.removeStatefulSet({ namespace, name: "group-b" });
  });
  const names = (view: Awaited<ReturnType<typeof read>>) => view.statefulSets.map(({ name }) => name).sort();
  assert.deepEqual(names(await sweeping), ["group-a", "group-c"]);
  lateMs = 0;
  assert.deepEqual(names(await read(false)), ["group-a", "group-c"]);
  await played(passes.timeline, cache.stop());
});

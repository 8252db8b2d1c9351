import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { type ClusterCall, wrapCalls, wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { VirtualTimeline } from "../../../fake-cluster/timeline.ts";
import { createWorld } from "../../../fake-cluster/world.ts";
import { createWorldCluster } from "../../../fake-cluster/world-cluster.ts";
import { withServer } from "./server.ts";

const key = { namespace: "ns", name: "web" };

/** The methods of a cluster: those of its class, and its own. */
const methodsOf = (cluster: object): string[] =>
  [...Object.getOwnPropertyNames(Object.getPrototypeOf(cluster)), ...Object.keys(cluster)].filter(
    (name) => name !== "constructor" && typeof Reflect.get(cluster, name) === "function",
  );

function worldCluster(): { cluster: Cluster; timeline: VirtualTimeline } {
  const timeline = new VirtualTimeline();
  return { cluster: createWorldCluster(createWorld({ timeline })), timeline };
}

test("every verb of every cluster goes through a wrapper with all its arguments, however it is called", async () => {
  const { cluster } = worldCluster();
  await withServer({}, async ({ cluster: connected }) => {
    const ofConnectionsAlone = ["ready", "askEviction", "close"];
    const verbs = [...methodsOf(cluster), ...methodsOf(connected)].filter((name) => !ofConnectionsAlone.includes(name));
    assert.ok(verbs.includes("patch") && verbs.includes("skippedMs"));
    const reported: unknown[][] = [];
    const inner = Object.fromEntries(
      verbs.map((verb) => [
        verb,
        function (this: unknown, ...given: unknown[]) {
          assert.equal(this, inner);
          reported.push([verb, ...given]);
          return verb;
        },
      ]),
    ) as unknown as Cluster;
    const wrapped = { ...wrapCluster(inner) } as unknown as Record<string, (...given: unknown[]) => unknown>;
    for (const verb of new Set(verbs)) {
      const { [verb]: taken = assert.fail(verb) } = wrapped;
      assert.equal(taken("a", 2, undefined, { b: 1 }), verb);
      assert.deepEqual(reported.at(-1), [verb, "a", 2, undefined, { b: 1 }]);
    }
  });
});

test("a verb in the table replaces the one inside, and the others stay", async () => {
  const { cluster } = worldCluster();
  const wrapped = wrapCluster(cluster, { serverTimeMs: () => 7 });
  assert.equal(wrapped.serverTimeMs(), 7);
  assert.equal(wrapped.monotonicMs(), cluster.monotonicMs());
});

test("a cluster without skippedMs() has none through a wrapper either", () => {
  const { cluster } = worldCluster();
  assert.equal(cluster.skippedMs, undefined);
  assert.equal(Object.hasOwn(wrapCluster(cluster), "skippedMs"), false);
  assert.equal(wrapCluster({ ...wrapCluster(cluster), skippedMs: () => 5 }).skippedMs?.(), 5);
});

test("the function around calls sees each call before it is sent, knows whether it writes, and may stop it", async () => {
  const { cluster, timeline } = worldCluster();
  const seen: ClusterCall[] = [];
  const wrapped = wrapCalls(cluster, (call, send) => {
    seen.push(call);
    return call.writes ? Promise.reject(new Error(`no ${call.verb}`)) : send();
  });
  const played = <T>(promise: Promise<T>): Promise<T> => {
    let isSettled = false;
    promise.then(
      () => {
        isSettled = true;
      },
      () => {
        isSettled = true;
      },
    );
    return timeline.run(() => isSettled).then(() => promise);
  };
  assert.deepEqual((await played(wrapped.list("pods", { namespace: "ns" }))).items, []);
  await assert.rejects(played(wrapped.get("statefulsets", key, { subresource: "scale" })), { code: 404 });
  await assert.rejects(wrapped.create("leases", "ns", { metadata: { name: "web" } }), /no create/);
  await assert.rejects(wrapped.patch("leases", key, {}), /no patch/);
  await assert.rejects(wrapped.delete("leases", key, { uid: "u" }, { gracePeriodSeconds: 0 }), /no delete/);
  await assert.rejects(played(wrapped.resourceOf("example.com", "Template")), { reason: "KindNotServed" });
  wrapped.watch("pods", { resourceVersion: "1" });
  wrapped.serverTimeMs();
  assert.deepEqual(
    seen.map(({ verb, writes, resource }) => `${verb} ${resource} ${writes}`),
    [
      "list pods false",
      "get statefulsets false",
      "create leases true",
      "patch leases true",
      "delete leases true",
      "resourceOf Template false",
    ],
  );
  assert.deepEqual(seen.at(-2)?.given, ["leases", key, { uid: "u" }, { gracePeriodSeconds: 0 }]);
  assert.deepEqual(seen.at(-1)?.given, ["example.com", "Template"]);
});

/** LISTs over real HTTP: their pages, how much of them is kept, and when they begin again. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rejection } from "../../../support/rejection.ts";
import { refuse, withServer } from "./server.ts";

describe("lists", () => {
  test("a list of Nodes keeps only the fields that Sluice reads, so that five thousand Nodes are small", async () => {
    const metadata = { name: "n", uid: "u", resourceVersion: "7", labels: { a: "b" }, annotations: { c: "d" } };
    const ready = { type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" };
    const taint = { key: "a", value: "b", effect: "NoSchedule" };
    const read = {
      metadata,
      spec: {
        unschedulable: true,
        podCIDR: "10.0.0.0/24",
        podCIDRs: ["10.0.0.0/24"],
        providerID: "p",
        taints: [taint],
      },
      status: { conditions: [ready], nodeInfo: { bootID: "b", systemUUID: "s" } },
    };
    const item = {
      metadata: { ...metadata, managedFields: [{}] },
      spec: { ...read.spec, configSource: {} },
      status: {
        conditions: [{ ...ready, message: "kubelet is posting ready status" }],
        nodeInfo: { ...read.status.nodeInfo, kernelVersion: "6.1" },
        images: [{ names: ["app:1"], sizeBytes: 7 }],
      },
    };
    await withServer({}, async ({ cluster, server }) => {
      const fresh = { metadata: { name: "fresh" }, spec: {}, status: {} };
      const items = [item, fresh, { metadata: { name: "bare" } }];
      server.answer(({ response }) => response.end(JSON.stringify({ metadata: { resourceVersion: "9" }, items })));
      const list = await cluster.list("nodes", {});
      assert.deepEqual(JSON.parse(JSON.stringify(list.items)), [read, fresh, { metadata: { name: "bare" } }]);
    });
  });

  test("a list of pods keeps only the fields that Sluice reads, so that ten thousand pods are small", async () => {
    const ready = { type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" };
    const owner = { apiVersion: "apps/v1", kind: "StatefulSet", name: "web", uid: "w", controller: true };
    const metadata = {
      ...{ name: "web-0", namespace: "ns", uid: "u", resourceVersion: "7", generation: 1 },
      creationTimestamp: "2026-01-01T00:00:00Z",
      ...{ deletionTimestamp: "2026-01-01T00:01:00Z", labels: { a: "b" }, annotations: { c: "d" } },
      ...{ ownerReferences: [owner], finalizers: ["f"] },
    };
    const toleration = { key: "a", operator: "Equal", value: "b", effect: "NoExecute", tolerationSeconds: 300 };
    const claim = { persistentVolumeClaim: { claimName: "data-web-0" } };
    const kept = (state: object | undefined) => ({
      name: "app",
      ready: true,
      restartCount: 2,
      ...(state && { state }),
    });
    const sent = (state: object | undefined) => ({ ...kept(state), image: "app:1", lastState: {} });
    const startTime = "2026-01-01T00:00:00Z";
    const read = {
      metadata,
      spec: {
        ...{ nodeName: "n", tolerations: [toleration, { operator: "Exists" }], volumes: [claim] },
        ...{ containers: [{ image: "app:1" }], initContainers: [{ image: "init:1" }] },
      },
      status: {
        ...{ phase: "Running", startTime, podIP: "10.0.0.1", conditions: [ready] },
        containerStatuses: [kept({ running: {} }), kept({ waiting: { reason: "CrashLoopBackOff" } })],
        initContainerStatuses: [kept({ terminated: {} }), kept({}), kept(undefined)],
      },
    };
    const item = {
      metadata: {
        ...{ ...metadata, generateName: "web-", managedFields: [{}] },
        ownerReferences: [{ ...owner, blockOwnerDeletion: true }],
      },
      spec: {
        volumes: [
          { name: "data", ...claim },
          { name: "config", configMap: { name: "config" } },
        ],
        containers: [{ name: "app", image: "app:1", env: [] }],
        ...{ initContainers: [{ name: "init", image: "init:1", env: [] }], nodeName: "n", schedulerName: "other" },
        tolerations: [toleration, { operator: "Exists" }],
      },
      status: {
        ...{ phase: "Running", startTime, podIP: "10.0.0.1", hostIP: "10.0.1.1" },
        conditions: [
          { ...ready, type: "PodScheduled" },
          { ...ready, lastProbeTime: null },
        ],
        containerStatuses: [
          sent({ running: { startedAt: startTime } }),
          sent({ waiting: { reason: "CrashLoopBackOff", message: "back-off" } }),
        ],
        initContainerStatuses: [sent({ terminated: { exitCode: 0 } }), sent({}), sent(undefined)],
      },
    };
    await withServer({}, async ({ cluster, server }) => {
      const bare = { metadata: { name: "bare" }, spec: {}, status: {} };
      server.answer(({ response }) =>
        response.end(JSON.stringify({ metadata: { resourceVersion: "9" }, items: [item, bare, item] })),
      );
      const { items } = await cluster.list("pods", {});
      const bareRead = { metadata: { name: "bare" }, spec: { volumes: [] }, status: {} };
      assert.deepEqual(JSON.parse(JSON.stringify(items)), [read, bareRead, read]);
    });
  });

  test("a list of pods keeps each pod's own values, although most of them are the same", async () => {
    const pod = (name: string, change: object, status: object) => ({
      metadata: { name, namespace: "ns", uid: name, resourceVersion: "1", labels: { zone: "a", role: "x" }, ...change },
      status: { phase: "Running", ...status },
    });
    const pods = [
      pod("web-0", {}, {}),
      pod("web-1", { labels: { zone: "b", role: "x", zones: "a" } }, {}),
      pod("web-2", { labels: { role: "b", zone: "x" }, annotations: { zone: "a" } }, { phase: "Pending" }),
      pod("web-3", { namespace: "other" }, { startTime: "2026-01-01T00:00:00Z" }),
      pod("web-4", {}, {}),
    ];
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) =>
        response.end(JSON.stringify({ metadata: { resourceVersion: "9" }, items: pods })),
      );
      assert.deepEqual(JSON.parse(JSON.stringify((await cluster.list("pods", {})).items)), pods);
    });
  });

  test("a list of metadata alone asks for no more on each page, and keeps no more from a server that sends whole objects", async () => {
    const metadata = { name: "n", uid: "u", annotations: { a: "b" } };
    const page = (more: object) =>
      JSON.stringify({
        metadata: { resourceVersion: "9", ...more },
        items: [{ metadata: { ...metadata, managedFields: [{}] }, spec: { unschedulable: true }, status: {} }],
      });
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response, index }) => response.end(page(index === 0 ? { continue: "c" } : {})));
      const { items } = await cluster.list("nodes", { metadataOnly: true });
      assert.deepEqual(JSON.parse(JSON.stringify(items)), [{ metadata }, { metadata }]);
      await cluster.list("nodes", {});
      assert.deepEqual(
        server.requests.map(({ headers }) => headers.accept),
        [...Array(2).fill("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), "application/json"],
      );
    });
  });

  test("a list by node asks for the pods of that node on each page", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response, index }) =>
        response.end(JSON.stringify({ metadata: { resourceVersion: "9", ...(index === 0 && { continue: "c" }) } })),
      );
      await cluster.list("pods", { nodeName: "node-1" });
      const asked = server.requests.map(({ url }) => new URL(url ?? "", "http://x").searchParams.get("fieldSelector"));
      assert.deepEqual(asked, ["spec.nodeName=node-1", "spec.nodeName=node-1"]);
    });
  });

  test("a list of Events of one component names it in each page", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => response.end('{"metadata":{"resourceVersion":"3"},"items":[]}'));
      await cluster.list("events", { source: "sluice" });
      const asked = server.requests.map(({ url }) => new URL(url ?? "", "http://x").searchParams.get("fieldSelector"));
      assert.deepEqual(asked, ["source=sluice"]);
    });
  });

  test("a list has smaller pages for pods, which are large, and for volume claims, which may be", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => response.end('{"metadata":{"resourceVersion":"3"},"items":[]}'));
      await cluster.list("pods", {});
      await cluster.list("persistentvolumeclaims", {});
      await cluster.list("statefulsets", {});
      const limits = server.requests.map(({ url }) => new URL(url ?? "", "http://x").searchParams.get("limit"));
      assert.deepEqual(limits, ["100", "25", "500"]);
    });
  });

  test("the next page of volume claims has as many as the size of the previous page's annotations permits", async () => {
    for (const [bytes, next] of [
      [0, "500"],
      [10_000, "400"],
      [250_000, "16"],
      [9_000_000, "1"],
    ] as const) {
      await withServer({}, async ({ cluster, server }) => {
        server.answer(({ request, response }) => {
          const more = new URL(request.url ?? "", "http://server").searchParams.has("continue");
          const annotations = { "example.com/text": "x".repeat(bytes) };
          const items = more ? [] : [{ metadata: { name: "a", annotations } }];
          response.end(
            JSON.stringify({ metadata: { resourceVersion: "9", ...(more ? {} : { continue: "c" }) }, items }),
          );
        });
        await cluster.list("persistentvolumeclaims", {});
        const limits = server.requests.map(({ url }) => new URL(url ?? "", "http://x").searchParams.get("limit"));
        assert.deepEqual(limits, ["25", next]);
      });
    }
  });

  test("a large page lets other work run before it is parsed, and before it is used", async (context) => {
    let turn = 0;
    let isOver = false;
    const count = () => {
      turn += 1;
      if (!isOver) setImmediate(count);
    };
    await withServer({}, async ({ cluster, server }) => {
      const turns: number[] = [];
      const text = "x".repeat(300_000);
      const page = JSON.stringify({ metadata: { resourceVersion: "9" }, items: [{ metadata: { name: "a", text } }] });
      server.answer(({ response }) => response.end(page));
      const parse = JSON.parse;
      context.mock.method(JSON, "parse", (given: string) => {
        if (given.length === page.length) turns.push(turn);
        return parse(given);
      });
      count();
      await cluster.list("persistentvolumeclaims", {});
      isOver = true;
      assert.equal(turns.length, 1);
      assert.ok(turn > (turns[0] ?? turn), `parsed in turn ${turns[0]}, and used in turn ${turn}`);
    });
  });

  test("only the first page of a list is requested with a revision, and the list has the first page's revision", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ request, response }) => {
        const more = new URL(request.url ?? "", "http://server").searchParams.get("continue");
        const metadata = more ? { resourceVersion: "9" } : { resourceVersion: "9", continue: "next page" };
        response.end(JSON.stringify({ metadata, items: [{ metadata: { name: more ? "b" : "a" } }] }));
      });
      const { items, resourceVersion } = await cluster.list("pods", {
        namespace: "ns",
        labelSelector: "app in (a,b)",
        notOlderThan: "8",
      });
      assert.deepEqual([items.map(({ metadata }) => metadata.name), resourceVersion], [["a", "b"], "9"]);
      const queries = server.requests.map(({ url }) => Object.fromEntries(new URL(url ?? "", "http://x").searchParams));
      assert.deepEqual(queries, [
        { limit: "100", labelSelector: "app in (a,b)", resourceVersion: "8", resourceVersionMatch: "NotOlderThan" },
        { limit: "100", labelSelector: "app in (a,b)", continue: "next page" },
      ]);
    });
  });

  test("a list with more objects than the limit is refused at the first page that shows it, without another page", async () => {
    await withServer({}, async ({ cluster, server }) => {
      const page = (remainingItemCount: number | undefined) => {
        const metadata = { resourceVersion: "9", continue: "next page", remainingItemCount };
        server.answer(({ response }) =>
          response.end(JSON.stringify({ metadata, items: [{ metadata: { name: "a" } }, { metadata: { name: "b" } }] })),
        );
      };
      page(999);
      await assert.rejects(cluster.list("pods", { namespace: "ns", atMost: 1_000 }), {
        code: 413,
        resource: "pods",
        verb: "list",
      });
      assert.equal(server.requests.length, 1);
      page(undefined);
      await assert.rejects(cluster.list("pods", { namespace: "ns", atMost: 5 }), { code: 413 });
      assert.equal(server.requests.length, 4, "without the number of remaining objects three pages are requested");
    });
  });

  test("a list of all namespaces has a path without one, and may have no items", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => response.end('{"metadata":{"resourceVersion":"3"},"items":null}'));
      assert.deepEqual(await cluster.list("statefulsets", {}), { items: [], resourceVersion: "3" });
      assert.match(server.requests[0]?.url ?? "", /^\/apis\/apps\/v1\/statefulsets\?/);
    });
  });

  test("a list begins again once if the token of a page has expired", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer((exchange) => {
        if (exchange.index === 1) return refuse(exchange, 410, "Expired");
        const metadata = { resourceVersion: "9", ...(exchange.index === 0 ? { continue: "x" } : {}) };
        exchange.response.end(JSON.stringify({ metadata, items: [{ metadata: { name: "a" } }] }));
      });
      const { items } = await cluster.list("pods", {});
      assert.equal(items.length, 1);
      assert.equal(server.requests.length, 3);
    });
  });

  test('a list that is not older than "0" is never sent', async () => {
    await withServer({}, async ({ cluster, server }) => {
      const error = await rejection(cluster.list("pods", { notOlderThan: "0" }));
      assert.deepEqual([error.code, error.reason, server.requests.length], [400, "BadRequest", 0]);
    });
  });

  test("a list at a revision that the server has not reached is sent once, because the server has already waited", async () => {
    await withServer({}, async ({ cluster, server }) => {
      const message = "Timeout: Too large resource version: 99, current: 5";
      const details = { causes: [{ reason: "ResourceVersionTooLarge" }], retryAfterSeconds: 1 };
      const status = { kind: "Status", code: 504, reason: "Timeout", message, details };
      server.answer(({ response }) => response.writeHead(504).end(JSON.stringify(status)));
      const error = await rejection(cluster.list("pods", { notOlderThan: "99" }));
      assert.deepEqual([error.code, error.reason, error.retryAfterMs], [504, "Timeout", 1_000]);
      assert.equal(server.requests.length, 1);
    });
  });
});

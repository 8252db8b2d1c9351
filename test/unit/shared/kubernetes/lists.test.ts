/** LISTs over real HTTP: their pages, how much of them is kept, and what makes them begin again. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rejection } from "../../../stage/rejection.ts";
import { refuse, withServer } from "./server.ts";

describe("lists", () => {
  test("of a pod only what is read is kept, so that a list of ten thousand is small", async () => {
    const condition = { type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" };
    const container = { name: "app", ready: true, restartCount: 2, state: { running: {} } };
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: "data-web-0" } }];
    const read = {
      metadata: { name: "web-0", uid: "u", resourceVersion: "7", labels: { a: "b" }, finalizers: ["f"] },
      spec: { volumes },
      status: { phase: "Running", conditions: [condition], containerStatuses: [container] },
    };
    const item = {
      metadata: { ...read.metadata, managedFields: [{}] },
      spec: { volumes, containers: [{ name: "app", env: [] }], nodeName: "n" },
      status: {
        ...read.status,
        podIP: "10.0.0.1",
        conditions: [{ ...condition, lastProbeTime: null }],
        containerStatuses: [{ ...container, image: "app:1", lastState: {} }],
      },
    };
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) =>
        response.end(
          JSON.stringify({ metadata: { resourceVersion: "9" }, items: [item, { metadata: { name: "bare" } }] }),
        ),
      );
      const { items } = await cluster.list("pods", {});
      assert.deepEqual(JSON.parse(JSON.stringify(items)), [read, { metadata: { name: "bare" } }]);
    });
  });

  test("are paged; the revision is asked of the first page only, and is that of the first", async () => {
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
        { limit: "500", labelSelector: "app in (a,b)", resourceVersion: "8", resourceVersionMatch: "NotOlderThan" },
        { limit: "500", labelSelector: "app in (a,b)", continue: "next page" },
      ]);
    });
  });

  test("of more objects than are to be kept are refused by the first page that tells, and no other page is asked for", async () => {
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
      assert.equal(
        server.requests.length,
        4,
        "a server that does not tell how many there are is asked for three pages",
      );
    });
  });

  test("of all namespaces have a path without one, and may have no items", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => response.end('{"metadata":{"resourceVersion":"3"},"items":null}'));
      assert.deepEqual(await cluster.list("statefulsets", {}), { items: [], resourceVersion: "3" });
      assert.match(server.requests[0]?.url ?? "", /^\/apis\/apps\/v1\/statefulsets\?/);
    });
  });

  test("begin again, once, when a page's token grew too old", async () => {
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

  test('not older than "0" are never sent', async () => {
    await withServer({}, async ({ cluster, server }) => {
      const error = await rejection(cluster.list("pods", { notOlderThan: "0" }));
      assert.deepEqual([error.code, error.reason, server.requests.length], [400, "BadRequest", 0]);
    });
  });

  test("that the server has not got far enough for are asked for once: it has waited itself", async () => {
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

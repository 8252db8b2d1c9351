import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import type { RequestObservation } from "../../../../functions/shared/kubernetes/client.ts";
import { rejection } from "../../../support/rejection.ts";
import { type Exchange, refuse, withServer } from "./server.ts";

const key = { namespace: "ns", name: "web" };
const conditional = { metadata: { uid: "u", resourceVersion: "7", annotations: { a: null } } };

function ok({ response }: Exchange): void {
  response.end('{"metadata":{"name":"web"}}');
}

describe("what is sent", () => {
  test("each verb has its method, path and body", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(ok);
      await cluster.get("statefulsets", key);
      await cluster.create("leases", "ns", { metadata: { name: "web" } });
      await cluster.patch("statefulsets", key, conditional);
      await cluster.patch("pods", key, { status: {} }, { subresource: "status" });
      await cluster.delete("pods", key, { uid: "u", resourceVersion: "7" });
      const sent = server.requests.map(({ method, url, headers, body }) => [
        method,
        url,
        headers["content-type"],
        body,
      ]);
      assert.deepEqual(sent, [
        ["GET", "/apis/apps/v1/namespaces/ns/statefulsets/web", undefined, ""],
        [
          "POST",
          "/apis/coordination.k8s.io/v1/namespaces/ns/leases",
          "application/json",
          '{"metadata":{"name":"web"}}',
        ],
        [
          "PATCH",
          "/apis/apps/v1/namespaces/ns/statefulsets/web",
          "application/merge-patch+json",
          '{"metadata":{"uid":"u","resourceVersion":"7","annotations":{"a":null}}}',
        ],
        ["PATCH", "/api/v1/namespaces/ns/pods/web/status", "application/merge-patch+json", '{"status":{}}'],
        [
          "DELETE",
          "/api/v1/namespaces/ns/pods/web",
          "application/json",
          '{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u","resourceVersion":"7"}}',
        ],
      ]);
    });
  });

  test("a scale has a path of its own, and a deletion has its options in its body", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => response.end('{"metadata":{"name":"web"},"spec":{"replicas":3}}'));
      const scale = await cluster.get("statefulsets", key, { subresource: "scale" });
      assert.equal(scale.spec?.replicas, 3);
      const body = { metadata: { uid: "u", resourceVersion: "7" }, spec: { replicas: 2 } };
      const after = await cluster.patch("statefulsets", key, body, { subresource: "scale" });
      assert.equal(after.spec?.replicas, 3);
      const how = { gracePeriodSeconds: 0, propagationPolicy: "Orphan" } as const;
      await cluster.delete("pods", key, { uid: "u" }, how);
      const path = "/apis/apps/v1/namespaces/ns/statefulsets/web/scale";
      const conditions = '"preconditions":{"uid":"u"}';
      const wishes = '"gracePeriodSeconds":0,"propagationPolicy":"Orphan"';
      assert.deepEqual(
        server.requests.map(({ method, url, body }) => [method, url, body]),
        [
          ["GET", path, ""],
          ["PATCH", path, '{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"replicas":2}}'],
          [
            "DELETE",
            "/api/v1/namespaces/ns/pods/web",
            `{"kind":"DeleteOptions","apiVersion":"v1",${conditions},${wishes}}`,
          ],
        ],
      );
    });
  });

  test("every request has Sluice's user agent", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(ok);
      await cluster.get("pods", key);
      assert.equal(server.requests[0]?.headers["user-agent"], "sluice/0.0.0 (unit)");
    });
  });

  test("a compressed answer is unpacked, and a broken one is an error", async () => {
    await withServer({}, async ({ cluster, server }) => {
      const compressed = gzipSync(JSON.stringify({ metadata: { name: "x".repeat(10_000) } }));
      server.answer(({ response }) => response.setHeader("content-encoding", "gzip").end(compressed));
      assert.equal((await cluster.get("pods", key)).metadata.name.length, 10_000);
      assert.equal(server.requests[0]?.headers["accept-encoding"], "gzip");
      server.answer(({ response }) => response.setHeader("content-encoding", "gzip").end("{}"));
      const error = await rejection(cluster.create("pods", "ns", {}));
      assert.deepEqual([error.code, error.reason], [0, "ConnectionFailed"]);
    });
  });

  test("a name is quoted in a path", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(ok);
      await cluster.get("pods", { namespace: "../..", name: "a/b?c" });
      assert.equal(server.requests[0]?.url, "/api/v1/namespaces/..%2F../pods/a%2Fb%3Fc");
    });
  });

  test("connections are kept, also after deletions with a body", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(ok);
      for (let count = 0; count < 5; count++) {
        await cluster.get("pods", key);
        await cluster.delete("pods", key, { uid: "u" });
        await cluster.patch("pods", key, conditional);
      }
      // undici opens a second connection if the first has only just been answered.
      assert.ok(server.connections() <= 2, `${server.connections()}`);
    });
  });

  test("no more connections are opened than allowed", async () => {
    await withServer({ connections: 3 }, async ({ cluster, server }) => {
      server.answer((exchange) => setTimeout(() => ok(exchange), 10));
      await Promise.all(Array.from({ length: 20 }, () => cluster.get("pods", key)));
      assert.equal(server.connections(), 3);
    });
  });
});

describe("refusals", () => {
  test("a refusal keeps the server's reason and message", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer((exchange) => refuse(exchange, 403, "Forbidden"));
      const error = await rejection(cluster.patch("statefulsets", key, {}));
      const { code, reason, message, verb, resource } = error;
      assert.deepEqual(
        [code, reason, message, verb, resource],
        [403, "Forbidden", "refused: Forbidden", "patch", "statefulsets"],
      );
    });
  });

  test("a refusal that is no Status is reported with the request and the answer", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => response.writeHead(403).end("<html>go away</html>"));
      const error = await rejection(cluster.get("pods", key));
      assert.deepEqual([error.code, error.reason], [403, "Forbidden"]);
      assert.equal(error.message, "get /api/v1/namespaces/ns/pods/web: HTTP 403 <html>go away</html>");
      server.answer(({ response }) => response.writeHead(404).end());
      assert.equal((await rejection(cluster.get("pods", key))).reason, "NotFound");
      server.answer(({ response }) => response.writeHead(418).end('"{"'));
      assert.equal((await rejection(cluster.get("pods", key))).reason, "Unknown");
    });
  });

  test("an answer that is not JSON is 502", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => response.end("<html>log in</html>"));
      assert.equal((await rejection(cluster.create("pods", "ns", {}))).code, 502);
    });
  });
});

describe("limits", () => {
  test("a server that hangs rejects with code 0 at the deadline, before and after its headers", async () => {
    await withServer({ requestTimeoutMs: 150 }, async ({ cluster, server }) => {
      for (const begin of [() => {}, ({ response }: Exchange) => void response.write('{"met')]) {
        server.answer(begin);
        const startMs = performance.now();
        const error = await rejection(cluster.get("pods", key));
        assert.deepEqual([error.code, error.reason], [0, "Timeout"]);
        assert.ok(performance.now() - startMs < 1_000);
      }
    });
  });

  test("the deadline counts for all tries together", async () => {
    await withServer({ requestTimeoutMs: 300 }, async ({ cluster, server }) => {
      server.answer((exchange) => setTimeout(() => refuse(exchange, 503, "ServiceUnavailable"), 120));
      const startMs = performance.now();
      const error = await rejection(cluster.get("pods", key));
      assert.ok(error.code === 503 || error.code === 0);
      assert.ok(performance.now() - startMs < 600);
    });
  });

  test("an aborted signal rejects at once, also during the wait for the next try", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer((exchange) => refuse(exchange, 429, "TooManyRequests", { "retry-after": "5" }));
      const startMs = performance.now();
      const error = await rejection(cluster.get("pods", key, { signal: AbortSignal.timeout(50) }));
      assert.deepEqual([error.code, error.reason], [0, "Aborted"]);
      assert.ok(performance.now() - startMs < 1_000);
    });
  });

  test("R9: a request is not sent after its latest moment, and neither is a second try", async () => {
    await withServer({}, async ({ cluster, server }) => {
      const late = await rejection(
        cluster.delete("pods", key, { uid: "u" }, { notAfterMs: cluster.monotonicMs() - 1 }),
      );
      assert.deepEqual([late.code, late.reason, server.requests.length], [0, "TooLate", 0]);
      server.answer((exchange) => refuse(exchange, 503, "ServiceUnavailable"));
      const once = { notAfterMs: cluster.monotonicMs() + 50 };
      assert.equal((await rejection(cluster.delete("pods", key, { uid: "u" }, once))).code, 503);
      assert.equal(server.requests.length, 1);
    });
  });

  test("R9: a request that waits for a connection until after its latest moment is not sent", async () => {
    await withServer({ connections: 1 }, async ({ cluster, server }) => {
      server.answer((exchange) => setTimeout(() => ok(exchange), 200));
      const first = cluster.get("pods", key);
      const limits = { notAfterMs: cluster.monotonicMs() + 100 };
      const error = await rejection(cluster.delete("pods", key, { uid: "u" }, limits));
      assert.deepEqual([error.code, error.reason], [0, "TooLate"]);
      await first;
      await cluster.get("pods", key);
      assert.deepEqual(
        server.requests.map(({ method }) => method),
        ["GET", "GET"],
      );
    });
  });

  test("an answer that is under way at the latest moment is waited for", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer((exchange) => setTimeout(() => ok(exchange), 150));
      await cluster.delete("pods", key, { uid: "u" }, { notAfterMs: cluster.monotonicMs() + 60 });
    });
  });
});

describe("an early response", () => {
  test("is not taken for the answer", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer((exchange) => exchange.response.writeEarlyHints({ link: "</x>; rel=preload" }, () => ok(exchange)));
      await cluster.get("pods", key);
      assert.equal(server.requests.length, 1);
    });
  });
});

describe("clock and readiness", () => {
  test("the server's time comes from its Date header", async () => {
    await withServer({}, async ({ cluster, server }) => {
      const aheadMs = 3_600_000;
      server.answer((exchange) => {
        exchange.response.setHeader("date", new Date(Date.now() + aheadMs).toUTCString());
        ok(exchange);
      });
      assert.ok(Math.abs(cluster.serverTimeMs() - Date.now()) < 100);
      for (let count = 0; count < 4; count++) {
        await cluster.get("pods", key);
        await cluster.sleep(230);
      }
      assert.ok(Math.abs(cluster.serverTimeMs() - Date.now() - aheadMs) < 500);
    });
  });

  test("ready() requests the version and resolves to it, and rejects without an answer", async () => {
    await withServer({ requestTimeoutMs: 500 }, async ({ cluster, server }) => {
      server.answer(({ response }) => response.end('{"major":"1","minor":"36"}'));
      assert.deepEqual(await cluster.ready(), { major: "1", minor: "36" });
      assert.equal(server.requests[0]?.url, "/version");
      server.answer((exchange) => refuse(exchange, 503, "ServiceUnavailable"));
      assert.equal((await rejection(cluster.ready())).code, 503);
    });
  });

  test("askEviction evicts a pod by its uid as a dry run alone, and rejects with the causes of the refusal", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(ok);
      await cluster.askEviction(key, "u");
      const [{ method, url, body = "" } = {}] = server.requests;
      assert.deepEqual([method, url], ["POST", "/api/v1/namespaces/ns/pods/web/eviction"]);
      const { kind, deleteOptions } = JSON.parse(body);
      assert.deepEqual([kind, deleteOptions], ["Eviction", { dryRun: ["All"], preconditions: { uid: "u" } }]);
      const causes = [{ reason: "SluiceGuard", message: "zones-down" }];
      const status = { kind: "Status", code: 429, message: "not now", details: { causes, retryAfterSeconds: 10 } };
      server.answer(({ response }) => response.writeHead(429).end(JSON.stringify(status)));
      const error = await rejection(cluster.askEviction(key, "u"));
      assert.deepEqual([error.code, error.message, error.causes], [429, "not now", causes]);
    });
  });

  test("every exchange is observed, with the labels of rollout-operator's metric", async () => {
    const seen: RequestObservation[] = [];
    await withServer({ onRequest: (observation) => seen.push(observation) }, async ({ cluster, server }) => {
      server.answer((exchange) => {
        if (exchange.index === 0) return refuse(exchange, 503, "ServiceUnavailable");
        if (exchange.index === 1) return exchange.response.destroy();
        return ok(exchange);
      });
      await cluster.get("statefulsets", key);
      await cluster.create("events", "ns", {});
      await cluster.patch("statefulsets", key, {}, { subresource: "status" });
      const requests = seen.map(({ method, path, statusCode }) => `${method} ${path} ${statusCode}`);
      assert.deepEqual(requests, [
        "GET apps/v1/statefulsets object 503",
        "GET apps/v1/statefulsets object error",
        "GET apps/v1/statefulsets object 200",
        "POST core/v1/events collection 200",
        "PATCH apps/v1/statefulsets object status subresource 200",
      ]);
      assert.ok(seen.every(({ seconds }) => seconds >= 0 && seconds < 1));
    });
  });

  test("close() ends the requests under way", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(() => {});
      const refused = rejection(cluster.create("pods", "ns", {}));
      await cluster.sleep(30);
      await cluster.close();
      assert.equal((await refused).code, 0);
    });
  });
});

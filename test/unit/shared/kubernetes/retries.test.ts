import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import type { KubernetesCluster } from "../../../../functions/shared/kubernetes/client.ts";
import { rejection } from "../../../support/rejection.ts";
import { type Exchange, refuse, withServer } from "./server.ts";

const key = { namespace: "ns", name: "web" };
const conditional = { metadata: { uid: "u", resourceVersion: "7" } };

type Call = (cluster: KubernetesCluster) => Promise<unknown>;

const repeatable: Readonly<Record<string, Call>> = {
  get: (cluster) => cluster.get("pods", key),
  list: (cluster) => cluster.list("pods", { namespace: "ns" }),
  "conditional patch": (cluster) => cluster.patch("leases", key, conditional),
  delete: (cluster) => cluster.delete("pods", key, { uid: "u" }),
};
const unrepeatable: Readonly<Record<string, Call>> = {
  create: (cluster) => cluster.create("leases", "ns", {}),
  "unconditional patch": (cluster) => cluster.patch("leases", key, { metadata: { labels: { a: "b" } } }),
};
const everything = { ...repeatable, ...unrepeatable };

function ok({ response }: Exchange): void {
  response.end('{"metadata":{"resourceVersion":"1"},"items":[]}');
}

/** Fails the first request and answers the others well. Resolves to their number, and to the call's outcome. */
async function afterOne(bad: (exchange: Exchange) => unknown, call: Call): Promise<{ tries: number; code: number }> {
  let outcome = { tries: 0, code: 200 };
  await withServer({}, async ({ cluster, server }) => {
    server.answer((exchange) => (exchange.index === 0 ? bad(exchange) : ok(exchange)));
    const code = await call(cluster).then(
      () => 200,
      (error) => error.code as number,
    );
    outcome = { tries: server.requests.length, code };
  });
  return outcome;
}

describe("retries", () => {
  for (const code of [500, 502, 503, 504]) {
    test(`after ${code} a repeatable call is tried again, and any other is not`, async () => {
      const bad = (exchange: Exchange) => refuse(exchange, code, "");
      for (const [name, call] of Object.entries(repeatable)) {
        assert.deepEqual(await afterOne(bad, call), { tries: 2, code: 200 }, name);
      }
      for (const [name, call] of Object.entries(unrepeatable)) {
        assert.deepEqual(await afterOne(bad, call), { tries: 1, code }, name);
      }
    });
  }

  test("after a broken connection a repeatable call is tried again, and any other is not", async () => {
    const bad = ({ response }: Exchange) => response.destroy();
    for (const [name, call] of Object.entries(repeatable)) {
      assert.deepEqual(await afterOne(bad, call), { tries: 2, code: 200 }, name);
    }
    for (const [name, call] of Object.entries(unrepeatable)) {
      assert.deepEqual(await afterOne(bad, call), { tries: 1, code: 0 }, name);
    }
  });

  test("after 429 every call is tried again, because the server has done nothing", async () => {
    for (const [name, call] of Object.entries(everything)) {
      const outcome = await afterOne((exchange) => refuse(exchange, 429, "TooManyRequests"), call);
      assert.deepEqual(outcome, { tries: 2, code: 200 }, name);
    }
  });

  for (const code of [400, 401, 403, 404, 409, 410, 422]) {
    test(`a call is not tried again after ${code}, which is an answer`, async () => {
      for (const [name, call] of Object.entries(everything)) {
        const { tries, code: given } = await afterOne((exchange) => refuse(exchange, code, ""), call);
        // A 401 is retried once with fresh credentials, and a list begins again after 410.
        const again = code === 401 || (code === 410 && name === "list");
        assert.deepEqual([tries, given], again ? [2, 200] : [1, code], name);
      }
    });
  }

  test("a call has three tries, with growing pauses between them", async () => {
    await withServer({}, async ({ cluster, server }) => {
      const atMs: number[] = [];
      server.answer((exchange) => {
        atMs.push(performance.now());
        refuse(exchange, 503, "ServiceUnavailable");
      });
      const error = await rejection(cluster.get("pods", key));
      assert.deepEqual([error.code, error.reason, atMs.length], [503, "ServiceUnavailable", 3]);
      const [first = 0, second = 0, third = 0] = atMs;
      assert.ok(second - first >= 95 && second - first < 400, `${second - first}`);
      assert.ok(third - second >= 195 && third - second < 600, `${third - second}`);
    });
  });

  test("an error has the number of tries that were sent: after a single one nothing is under way", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer((exchange) => refuse(exchange, 403, "Forbidden"));
      const first = await rejection(cluster.delete("pods", key, { uid: "u" }));
      assert.deepEqual([first.code, first.attempts], [403, 1]);
      server.answer(({ index, ...exchange }) => {
        if (index === 1) exchange.response.destroy();
        else refuse({ index, ...exchange }, 403, "Forbidden");
      });
      const repeated = await rejection(cluster.delete("pods", key, { uid: "u" }));
      assert.deepEqual([repeated.code, repeated.reason, repeated.attempts], [403, "Forbidden", 2]);
    });
  });

  test("the client waits for Retry-After, unless it is longer than a call may take", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer((exchange) => {
        if (exchange.index > 0) return ok(exchange);
        return refuse(exchange, 429, "TooManyRequests", { "retry-after": "1" });
      });
      const startMs = performance.now();
      await cluster.get("pods", key);
      assert.ok(performance.now() - startMs >= 995);
      server.answer((exchange) => refuse(exchange, 429, "TooManyRequests", { "retry-after": "60" }));
      const error = await rejection(cluster.get("pods", key));
      assert.deepEqual([error.code, error.retryAfterMs], [429, 60_000]);
      assert.equal(server.requests.length, 3);
    });
  });

  test("if no server listens, every call is tried again, and fails with code 0", async () => {
    await withServer({}, async ({ cluster, kubeconfig }) => {
      await cluster.close();
      const { readFile, writeFile } = await import("node:fs/promises");
      const { connect } = await import("../../../../functions/shared/kubernetes/client.ts");
      const config = JSON.parse(await readFile(kubeconfig, "utf8"));
      const server = createServer(() => {});
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      await new Promise((resolve) => server.close(resolve));
      config.clusters[0].cluster.server = `http://127.0.0.1:${port}`;
      await writeFile(kubeconfig, JSON.stringify(config));
      const codes: unknown[] = [];
      const lonely = await connect({
        userAgent: "sluice/0.0.0 (unit)",
        kubeconfig,
        onRequest: ({ statusCode }) => codes.push(statusCode),
      });
      const error = await rejection(lonely.create("leases", "ns", {}));
      assert.deepEqual([error.code, error.reason], [0, "ConnectionFailed"]);
      assert.match(error.message, /ECONNREFUSED/);
      assert.deepEqual(codes, ["error", "error", "error"]);
      await lonely.close();
    });
  });

  test("the opening of a watch is tried again", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer((exchange) => (exchange.index === 0 ? refuse(exchange, 503, "") : exchange.response.end("\n")));
      for await (const _ of cluster.watch("pods", { resourceVersion: "1" })) assert.fail("there is no event");
      assert.equal(server.requests.length, 2);
    });
  });
});

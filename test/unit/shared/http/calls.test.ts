import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import type { PodObservation } from "../../../../functions/shared/http/calls.ts";
import { isSuccess, refusal } from "../../../../functions/shared/http/pod-http.ts";
import { clock, get, post, rejection, until, withPods } from "../../../support/played-pods.ts";

const limit = { timeout: 20_000 };

describe("what is sent, and what comes", limit, () => {
  test("a request goes to the pod's name in DNS, with its method, path, headers and body", async () => {
    await withPods({}, async ({ address, pods, asked, resolved, answer }) => {
      answer(({ response }) => response.end());
      await pods.send(address, {
        method: "PUT",
        path: "/a/b?c=d&e",
        headers: { authorization: "Basic Zw==", "x-cluster": "mine", "content-type": "text/plain" },
        body: "größe",
      });
      const host = "web-0.web.ns.svc.cluster.local.";
      assert.deepEqual(resolved, [host]);
      const [{ request, body } = assert.fail()] = asked;
      assert.deepEqual([request.method, request.url, body], ["PUT", "/a/b?c=d&e", "größe"]);
      const { headers } = request;
      assert.equal(
        headers.host,
        `web-0.web.ns.svc.cluster.local:${address.port}`,
        "no dot at the end, because a proxy in between knows no such host",
      );
      assert.deepEqual([headers.authorization, headers["content-type"]], ["Basic Zw==", "text/plain"]);
      assert.deepEqual([headers["user-agent"], headers["accept-encoding"]], ["sluice/0.0.0 (unit)", "identity"]);
    });
  });

  test("X-Cluster is the pod's namespace, whatever the caller sets", async () => {
    await withPods({ clusterDomain: "example.org" }, async ({ address, pods, asked, resolved }) => {
      await pods.send(
        { ...address, namespace: "other" },
        {
          ...get,
          headers: { "x-cluster": "ns", "X-Cluster": "ns", "Accept-Encoding": "gzip" },
        },
      );
      const [{ request } = assert.fail()] = asked;
      const { "x-cluster": cluster, "accept-encoding": encoding } = request.headersDistinct;
      assert.deepEqual([cluster, encoding], [["other"], ["identity"]]);
      assert.deepEqual(resolved, ["web-0.web.other.svc.example.org"]);
    });
  });

  test("an answer is data, whatever its status", async () => {
    await withPods({}, async ({ address, pods, answer }) => {
      for (const status of [200, 204, 404, 409, 503, 511]) {
        const body = status === 204 ? "" : `größe ${status}`;
        answer(({ response }) =>
          response.writeHead(status, { "content-type": "text/plain", "retry-after": "7" }).end(body),
        );
        const calls = await pods.send(address, post);
        assert.deepEqual(calls, { status, contentType: "text/plain", retryAfterMs: 7_000, body });
        assert.equal(isSuccess(calls), status < 300);
      }
      answer(({ response }) => response.writeHead(429, { "retry-after": "Sun, 22 Nov 2026 10:00:00 GMT" }).end());
      assert.deepEqual(await pods.send(address, post), {
        status: 429,
        contentType: "",
        retryAfterMs: undefined,
        body: "",
      });
    });
  });

  test("a caller that requires a success gets an error with the status and the beginning of the answer", async () => {
    await withPods({}, async ({ address, pods, answer }) => {
      answer(({ response }) => response.writeHead(409).end(` locked ${"x".repeat(400)}`));
      const error = refusal(address, post, await pods.send(address, post));
      assert.deepEqual([error.failed, error.status, error.sent], ["status", 409, true]);
      assert.match(error.message, /^POST web-0\.web in ns, port \d+, path \/prepare: HTTP 409 locked x{293}$/);
    });
  });

  test("an early response is not taken for the answer, nor for its beginning", async () => {
    await withPods({}, async ({ address, pods, asked, answer }) => {
      answer(({ response, index }) => {
        response.writeEarlyHints({ link: "</x>; rel=preload" }, () => {
          if (index === 0) response.writeHead(503).end("no");
          else response.destroy();
        });
      });
      const { status, body } = await pods.send(address, get);
      assert.deepEqual([status, body], [503, "no"]);
      const error = await rejection(pods.send(address, get));
      assert.deepEqual([error.failed, error.status, asked.length], ["connection", undefined, 3]);
    });
  });

  test("a redirect is an answer, which the client does not follow", async () => {
    const followed: unknown[] = [];
    const elsewhere = createServer((request, response) => {
      followed.push(request.url);
      response.end();
    });
    await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
    await withPods({}, async ({ address, pods, asked, answer }) => {
      const location = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/secret`;
      for (const status of [301, 302, 303, 307, 308]) {
        answer(({ response }) => response.writeHead(status, { location }).end());
        assert.equal((await pods.send(address, get)).status, status);
      }
      assert.equal(asked.length, 5);
    });
    elsewhere.closeAllConnections();
    await new Promise((resolve) => elsewhere.close(resolve));
    assert.deepEqual(followed, []);
  });

  test("every exchange is observed, including failed ones and second tries, without its query", async () => {
    const seen: PodObservation[] = [];
    let [receivedMs, observedMs] = [0, 0];
    const onRequest = (one: PodObservation) => {
      seen.push(one);
      observedMs = clock.monotonicMs();
    };
    await withPods({ onRequest, timeoutMs: 1_000 }, async ({ address, pods, answer }) => {
      answer(({ index, response }) => (index === 0 ? response.destroy() : response.writeHead(404).end()));
      await pods.send(address, { ...get, path: "/health?key=secret" });
      answer(() => {
        receivedMs = clock.monotonicMs();
      });
      const beganMs = clock.monotonicMs();
      await rejection(pods.send(address, post));
      const calls = seen.map(({ method, path, statusCode }) => `${method} ${path} ${statusCode}`);
      assert.deepEqual(calls, ["GET /health error", "GET /health 404", "POST /prepare error"]);
      assert.ok(seen.every(({ seconds }) => seconds >= 0 && seconds < 5));
      // Its time begins when it is sent: after the call began, and before the pod received it.
      const tookMs = 1_000 * (seen[2]?.seconds ?? 0);
      assert.ok(observedMs - beganMs >= 990, `${observedMs - beganMs} ms`);
      assert.ok(receivedMs > beganMs && tookMs >= observedMs - receivedMs - 10, `${tookMs} ms`);
      assert.ok(tookMs <= observedMs - beganMs + 1, `${tookMs} ms`);
    });
  });
});

describe("limits of an answer", limit, () => {
  test("headers that do not come end with the time of the call", async () => {
    await withPods({ timeoutMs: 200 }, async ({ address, pods, asked, answer }) => {
      answer(() => {});
      const startMs = clock.monotonicMs();
      const error = await rejection(pods.send(address, get));
      assert.deepEqual([error.failed, error.sent, error.status], ["time", true, undefined]);
      const tookMs = clock.monotonicMs() - startMs;
      assert.ok(tookMs >= 195 && tookMs < 2_000, `${tookMs} ms`);
      assert.equal(asked.length, 1);
    });
  });

  test("a caller may give one call more time than the others have, or less", async () => {
    await withPods({ timeoutMs: 200 }, async ({ address, pods, answer }) => {
      answer(({ response }) => void setTimeout(() => response.end("late"), 400));
      assert.equal((await pods.send(address, get, { timeoutMs: 10_000 })).body, "late");
      assert.match((await rejection(pods.send(address, get, { timeoutMs: 50 }))).message, /no answer within 50 ms/);
    });
  });

  test("a body that trickles ends with the time of the call, however often a byte comes", async () => {
    await withPods({ timeoutMs: 300 }, async ({ address, pods, answer, sockets }) => {
      answer(({ response }) => {
        response.writeHead(200);
        const drip = setInterval(() => response.write("x"), 20);
        response.on("close", () => clearInterval(drip));
      });
      const startMs = clock.monotonicMs();
      const error = await rejection(pods.send(address, get));
      assert.deepEqual([error.failed, error.sent, error.status], ["time", true, 200]);
      assert.ok(clock.monotonicMs() - startMs < 2_000);
      await until(() => sockets.every(({ destroyed }) => destroyed));
    });
  });

  test("the client reads no more of 100 MB than its limit, and ends the connection at the first byte beyond", async () => {
    await withPods({ timeoutMs: 15_000 }, async ({ address, pods, answer, sockets }) => {
      const chunk = Buffer.alloc(65_536, "x");
      let offered = 0;
      answer(({ response }) => {
        const pour = () => {
          while (offered < 100_000_000 && !response.destroyed) {
            offered += chunk.length;
            if (!response.write(chunk)) return void response.once("drain", pour);
          }
        };
        pour();
      });
      const error = await rejection(pods.send(address, { ...get, mostBytes: 100_000 }));
      assert.deepEqual([error.failed, error.sent, error.status], ["size", true, 200]);
      assert.match(error.message, /more than 100000 bytes$/);
      await until(() => sockets.every(({ destroyed }) => destroyed));
      // The kernel's buffers of both ends of a connection are filled anyway.
      assert.ok(offered < 20_000_000, `${offered}`);
    });
  });

  test("an answer at the limit is read; with one more byte it is refused, at once if it announces its length", async () => {
    await withPods({}, async ({ address, pods, answer }) => {
      const whole = "x".repeat(1_000);
      answer(({ response }) => response.end(whole));
      assert.equal((await pods.send(address, { ...get, mostBytes: 1_000 })).body, whole);
      answer(({ response }) => {
        response.write(whole);
        response.end("y");
      });
      assert.equal((await rejection(pods.send(address, { ...get, mostBytes: 1_000 }))).failed, "size");
      answer(({ response }) => response.writeHead(503, { "content-length": "1001" }).flushHeaders());
      const announced = await rejection(pods.send(address, { ...get, mostBytes: 1_000 }));
      assert.deepEqual([announced.failed, announced.status], ["size", 503]);
    });
  });

  test("the limit is 1 MiB if the caller sets no other", async () => {
    await withPods({}, async ({ address, pods, answer }) => {
      answer(({ response }) => response.end("x".repeat(2 ** 20)));
      assert.equal((await pods.send(address, get)).body.length, 2 ** 20);
      answer(({ response }) => response.end("x".repeat(2 ** 20 + 1)));
      assert.equal((await rejection(pods.send(address, get))).failed, "size");
    });
  });

  test("endless headers also exceed the limit", async () => {
    await withPods({}, async ({ address, pods, answer }) => {
      answer(({ response }) => response.writeHead(200, { "x-long": "x".repeat(20_000) }).end());
      const error = await rejection(pods.send(address, post));
      assert.deepEqual([error.failed, error.sent], ["size", true]);
    });
  });

  test("a compressed answer is refused, because its length is unknown before it is unpacked", async () => {
    await withPods({}, async ({ address, pods, answer }) => {
      const bomb = gzipSync(Buffer.alloc(10_000_000));
      answer(({ response }) => response.writeHead(200, { "content-encoding": "gzip" }).end(bomb));
      const error = await rejection(pods.send(address, get));
      assert.deepEqual([error.failed, error.status], ["size", 200]);
    });
  });
});

describe("the caller's own limits", limit, () => {
  test("an aborted call rejects at once, before and after the headers, and ends its connection", async () => {
    await withPods({}, async ({ address, pods, asked, sockets, answer }) => {
      answer(({ response, index }) => {
        if (index === 1) response.writeHead(200).flushHeaders();
        if (index > 1) response.end();
      });
      for (const count of [1, 2]) {
        const giving = new AbortController();
        const refused = rejection(pods.send(address, get, { signal: giving.signal }));
        await until(() => asked.length === count);
        giving.abort();
        const error = await refused;
        assert.deepEqual([error.failed, error.sent], ["aborted", true]);
        await until(() => sockets[count - 1]?.destroyed === true);
      }
      const before = await rejection(pods.send(address, get, { signal: AbortSignal.abort() }));
      const giving = new AbortController();
      const refused = rejection(pods.send(address, get, { signal: giving.signal }));
      giving.abort();
      const atOnce = await refused;
      for (const { failed, sent } of [before, atOnce]) assert.deepEqual([failed, sent], ["aborted", false]);
      assert.equal((await pods.send(address, post)).status, 200);
      assert.deepEqual(
        asked.map(({ request }) => request.method),
        ["GET", "GET", "POST"],
      );
    });
  });

  test("a call that is aborted during its connect is never sent", async () => {
    const waiting: (() => void)[] = [];
    const lookup = (_: string, __: object, found: (...found: unknown[]) => void) => {
      waiting.push(() => found(null, [{ address: "127.0.0.1", family: 4 }]));
    };
    await withPods({ lookup: lookup as never }, async ({ address, pods, asked }) => {
      const giving = new AbortController();
      const refused = rejection(pods.send(address, post, { signal: giving.signal }));
      await until(() => waiting.length === 1);
      giving.abort();
      const error = await refused;
      assert.deepEqual([error.failed, error.sent], ["aborted", false]);
      waiting[0]?.();
      const next = pods.send(address, get);
      await until(() => waiting.length > 1 || asked.length > 0);
      for (const go of waiting.slice(1)) go();
      await next;
      assert.deepEqual(
        asked.map(({ request }) => request.method),
        ["GET"],
      );
    });
  });

  test("a call is not sent after its latest moment, and an answer under way at that moment is waited for", async () => {
    await withPods({}, async ({ address, pods, asked, answer }) => {
      const late = await rejection(pods.send(address, post, { notAfterMs: clock.monotonicMs() - 1 }));
      assert.deepEqual([late.failed, late.sent, asked.length], ["time", false, 0]);
      assert.match(late.message, /too late to send it$/);
      const notAfterMs = clock.monotonicMs() + 500;
      answer(async ({ response }) => {
        await until(() => clock.monotonicMs() > notAfterMs);
        response.end("done");
      });
      assert.equal((await pods.send(address, post, { notAfterMs })).body, "done");
    });
  });
});

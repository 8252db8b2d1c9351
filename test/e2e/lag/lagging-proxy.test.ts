import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough, Writable } from "node:stream";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { forwardLate } from "./delayed-stream.ts";
import { type Phase, phasesOf } from "./delays.ts";
import { LaggingProxy } from "./lagging-proxy.ts";

const lag = { mostMs: 20_000, lateListsMs: 0 };

function first(count: number, seed: number, kind: string, n: number): Phase[] {
  return Array.from(phasesOf(seed, kind, n, lag).take(count));
}

describe("how late a watch is", () => {
  test("the same seed draws the same delays, and another seed, kind or connection draws others", () => {
    assert.deepEqual(first(20, 7, "pods", 1), first(20, 7, "pods", 1));
    for (const other of [first(20, 8, "pods", 1), first(20, 7, "statefulsets", 1), first(20, 7, "pods", 2)])
      assert.notDeepEqual(other, first(20, 7, "pods", 1));
  });

  test("every byte of the kind that must be latest has the longest delay", () => {
    const phases = Array.from(phasesOf(7, "statefulsets", 1, { ...lag, latest: "statefulsets" }).take(5));
    assert.ok(phases.every(({ kind, delayMs }) => kind === "late" && delayMs === 20_000));
    assert.deepEqual(
      Array.from(phasesOf(7, "pods", 1, { ...lag, latest: "statefulsets" }).take(9)),
      first(9, 7, "pods", 1),
    );
  });

  test("delays go from 0 to 20 s, and some streams freeze and some go half-open", () => {
    const phases = Array.from({ length: 500 }, (_, seed) => first(20, seed, "pods", 1)).flat();
    const delays = phases.map(({ delayMs }) => delayMs);
    assert.ok(Math.max(...delays) > 19_000 && Math.max(...delays) <= 20_000, `at most ${Math.max(...delays)}`);
    assert.equal(Math.min(...delays), 0);
    assert.deepEqual([...new Set(phases.map(({ kind }) => kind))].sort(), ["frozen", "half-open", "late"]);
  });
});

/** A stream with delayed bytes, and the bytes that have come out of it. */
function played(phases: readonly Phase[], mostBytes?: number) {
  const source = new PassThrough({ highWaterMark: 1 });
  const received: string[] = [];
  const sink = new Writable({
    write(chunk, _encoding, done) {
      received.push(String(chunk));
      done();
    },
  });
  const calm = new AbortController();
  const rest: Phase = { kind: "late", forMs: 60_000, delayMs: 0 };
  const plan = [...phases, rest, rest, rest].values();
  const limit = mostBytes === undefined ? {} : { mostBytes };
  const over = forwardLate(source, sink, { phases: plan, calm: calm.signal, ...limit });
  return { source, sink, reported: received, calm, over };
}

describe("a delayed stream", () => {
  test("passes bytes on late, in their order, even if a later phase is prompt", async () => {
    const { source, sink, reported: received, over } = played([{ kind: "late", forMs: 60, delayMs: 250 }]);
    source.write("one ");
    await delay(120);
    source.write("two ");
    await delay(30);
    assert.deepEqual(received, []);
    source.end();
    await over;
    assert.equal(received.join(""), "one two ");
    assert.ok(sink.writableFinished || sink.writableEnded, "it is ended as the source was");
  });

  test("a frozen phase delivers everything when it is over", async () => {
    const { source, reported: received, over } = played([{ kind: "frozen", forMs: 200, delayMs: 0 }]);
    source.write("one ");
    source.write("two ");
    await delay(100);
    assert.deepEqual(received, []);
    source.end();
    await over;
    assert.equal(received.join(""), "one two ");
  });

  test("a half-open connection delivers nothing, and is cut without an end", async () => {
    const { source, sink, reported: received, over } = played([{ kind: "half-open", forMs: 100, delayMs: 0 }]);
    source.write("one ");
    await over;
    assert.deepEqual(received, []);
    assert.ok(sink.destroyed && !sink.writableEnded);
    assert.ok(source.destroyed);
  });

  test("when it is calm, all delayed bytes pass, and later ones at once", async () => {
    const { source, reported: received, calm, over } = played([{ kind: "late", forMs: 60_000, delayMs: 60_000 }]);
    source.write("one ");
    await delay(20);
    calm.abort();
    source.write("two ");
    await delay(50);
    assert.equal(received.join(""), "one two ");
    source.end();
    await over;
  });

  test("never keeps much more than its limit, because it stops reading", async () => {
    const { source, calm, over } = played([{ kind: "late", forMs: 60_000, delayMs: 60_000 }], 1_000);
    let written = 0;
    for (let count = 0; count < 100; count++) {
      if (!source.write(Buffer.alloc(500))) await Promise.race([once(source, "drain"), delay(50)]);
      if (source.writableLength > 0) break;
      written += 500;
    }
    assert.ok(written <= 3_000, `${written} bytes were read`);
    calm.abort();
    source.end();
    await over;
  });

  test("a source that breaks breaks the reader, after the delayed bytes", async () => {
    const { source, sink, reported: received, over } = played([]);
    source.write("one ");
    await delay(20);
    source.destroy(new Error("reset"));
    await over;
    assert.deepEqual(received, ["one "]);
    assert.ok(sink.destroyed && !sink.writableEnded);
  });
});

describe("the lagging proxy", () => {
  let server: Server;
  let url: string;
  const streams = new Set<ServerResponse>();
  const seen: { method: string; path: string; token: string | undefined; body: string }[] = [];

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url: path = "", headers } = request;
    let body = "";
    for await (const chunk of request) body += chunk;
    seen.push({ method, path, token: headers.authorization, body });
    if (path.includes("watch=true")) {
      response.writeHead(200, { "content-type": "application/json" }).flushHeaders();
      streams.add(response);
    } else {
      response.writeHead(path.includes("kept") ? 409 : 200, { "content-type": "application/json" });
      response.end(JSON.stringify({ path }));
    }
  }

  before(async () => {
    server = createServer((request, response) => void answer(request, response));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });

  after(() => {
    server.closeAllConnections();
    server.close();
  });

  async function proxied(seed: number, lateListsMs: number, work: (proxy: LaggingProxy) => Promise<void>) {
    const proxy = await LaggingProxy.start({ url, seed, lag: { ...lag, lateListsMs } });
    try {
      await work(proxy);
    } finally {
      await proxy.close();
    }
  }

  /** A seed whose first watch of a kind begins so. */
  function seedWhere(kind: string, fits: (phase: Phase) => boolean): number {
    for (let seed = 1; seed < 1_000; seed++) if (first(1, seed, kind, 1).every(fits)) return seed;
    throw new Error("there is no such seed");
  }

  test("requests pass at once, with their token and body, and so does the answer", async () => {
    await proxied(1, 0, async (proxy) => {
      const headers = { authorization: "Bearer secret" };
      const answered = await fetch(`${proxy.url}/api/v1/pods?a=b`, { method: "POST", headers, body: "{}" });
      assert.deepEqual(await answered.json(), { path: "/api/v1/pods?a=b" });
      assert.deepEqual(seen.at(-1), { method: "POST", path: "/api/v1/pods?a=b", token: "Bearer secret", body: "{}" });
    });
  });

  test("reports of a watch are late until it is calm, and its head is not", async () => {
    const seed = seedWhere("pods", ({ kind, delayMs }) => kind === "late" && delayMs > 5_000);
    await proxied(seed, 0, async (proxy) => {
      const answered = await fetch(`${proxy.url}/api/v1/namespaces/n/pods?watch=true`);
      assert.equal(answered.status, 200);
      const reader = answered.body?.getReader();
      const read = reader?.read();
      for (const stream of streams) stream.write("told\n");
      assert.equal(await Promise.race([read, delay(300, "nothing")]), "nothing");
      proxy.calm();
      assert.equal(new TextDecoder().decode((await read)?.value), "told\n");
      await reader?.cancel();
    });
  });

  test("a client that leaves a watch is not watched for any more", async () => {
    await proxied(1, 0, async (proxy) => {
      streams.clear();
      const gone = new AbortController();
      await fetch(`${proxy.url}/api/v1/namespaces/n/pods?watch=true`, { signal: gone.signal });
      const [upstream] = streams;
      assert.ok(upstream !== undefined);
      const closed = once(upstream, "close");
      gone.abort();
      await closed;
    });
  });

  test("it knows the pods whose deletion it passed on, but not refused deletions and dry runs", async () => {
    await proxied(1, 0, async (proxy) => {
      const remove = async (pod: string, uid: string, more: object = {}) => {
        const body = JSON.stringify({ preconditions: { uid }, ...more });
        await fetch(`${proxy.url}/api/v1/namespaces/n/pods/${pod}`, { method: "DELETE", body });
      };
      await remove("a-0", "gone");
      await remove("a-0-kept", "refused");
      await remove("a-1", "rehearsed", { dryRun: ["All"] });
      assert.deepEqual([...proxy.deletedPods], ["gone"]);
    });
  });

  test("LISTs are answered late only if that is requested, and single objects never", async () => {
    const tookMs = async (proxy: LaggingProxy, path: string) => {
      const startedMs = performance.now();
      await (await fetch(`${proxy.url}${path}`)).text();
      return performance.now() - startedMs;
    };
    await proxied(3, 3_000, async (proxy) => {
      const lists = await Promise.all(Array.from({ length: 8 }, () => tookMs(proxy, "/api/v1/namespaces/n/pods")));
      const objects = await Promise.all(
        Array.from({ length: 8 }, () => tookMs(proxy, "/api/v1/namespaces/n/pods/a-0")),
      );
      assert.ok(Math.max(...lists) > 500, `the slowest list took ${Math.max(...lists)} ms`);
      assert.ok(Math.max(...objects) < 500, `the slowest object took ${Math.max(...objects)} ms`);
    });
    await proxied(3, 0, async (proxy) => {
      assert.ok((await tookMs(proxy, "/api/v1/namespaces/n/pods")) < 500);
    });
  });
});

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Cluster, WatchEvent } from "../../../../functions/shared/kubernetes/cluster.ts";
import { LineSplitter } from "../../../../functions/shared/kubernetes/watch.ts";
import { rejection } from "../../../support/rejection.ts";
import { withServer } from "./server.ts";

const query = { namespace: "default", resourceVersion: "10" };

function line(type: string, name: string, resourceVersion: string): string {
  return `${JSON.stringify({ type, object: { metadata: { name, resourceVersion } } })}\n`;
}

function watchOf(cluster: Cluster, options?: { signal: AbortSignal }) {
  return cluster.watch("pods", query, options)[Symbol.asyncIterator]();
}

async function gather(cluster: Cluster): Promise<WatchEvent<unknown>[]> {
  const events: WatchEvent<unknown>[] = [];
  for await (const event of cluster.watch("pods", query)) events.push(event);
  return events;
}

describe("LineSplitter", () => {
  test("gives the same lines, however the bytes are split", () => {
    const text = 'short\n{"a":"größer"}\n\nlast ✓\n';
    const bytes = Buffer.from(text);
    for (let size = 1; size <= bytes.length; size++) {
      const splitter = new LineSplitter();
      const lines: string[] = [];
      for (let at = 0; at < bytes.length; at += size) lines.push(...splitter.push(bytes.subarray(at, at + size)));
      assert.deepEqual(lines, ["short", '{"a":"größer"}', "", "last ✓"]);
      assert.equal(splitter.unfinished, false);
    }
  });

  test("keeps a line without its end", () => {
    const splitter = new LineSplitter();
    assert.deepEqual(splitter.push(Buffer.from("one\ntw")), ["one"]);
    assert.equal(splitter.unfinished, true);
    assert.deepEqual(splitter.push(Buffer.from("o\n")), ["two"]);
  });

  test("takes time in proportion to the length of a line, and not to its square", () => {
    const splitter = new LineSplitter();
    const chunk = Buffer.alloc(1_024, "x");
    const startMs = performance.now();
    for (let count = 0; count < 20_000; count++) splitter.push(chunk);
    assert.equal(splitter.push(Buffer.from("\n"))[0]?.length, 20_000 * 1_024);
    assert.ok(performance.now() - startMs < 2_000);
  });
});

describe("watch", () => {
  test("asks for bookmarks, a limited time and the revision, under our user agent", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ request, response }) => {
        assert.equal(request.headers["user-agent"], "sluice/0.0.0 (unit)");
        response.writeHead(200, { "content-type": "application/json" }).end();
      });
      assert.deepEqual(await gather(cluster), []);
      const url = new URL(server.requests[0]?.url ?? "", "http://server");
      assert.equal(url.pathname, "/api/v1/namespaces/default/pods");
      const { timeoutSeconds, ...parameters } = Object.fromEntries(url.searchParams);
      assert.deepEqual(parameters, { watch: "true", allowWatchBookmarks: "true", resourceVersion: "10" });
      assert.ok(Number(timeoutSeconds) >= 240 && Number(timeoutSeconds) <= 300);
    });
  });

  test("yields events and bookmarks in order, and ends when the server ends it", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => {
        response.write(line("ADDED", "a", "11") + line("MODIFIED", "a", "12").slice(0, 20));
        const rest = line("MODIFIED", "a", "12").slice(20) + line("BOOKMARK", "", "15") + line("DELETED", "a", "16");
        setTimeout(() => response.end(rest), 20);
      });
      const events = await gather(cluster);
      assert.deepEqual(
        events.map((event) => event.type),
        ["ADDED", "MODIFIED", "BOOKMARK", "DELETED"],
      );
      assert.deepEqual(events[2], { type: "BOOKMARK", resourceVersion: "15" });
    });
  });

  test("410 comes as a status or as an event", async () => {
    const status = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version: 10 (20)" };
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => response.writeHead(410).end(JSON.stringify({ ...status, reason: "Gone" })));
      const asStatus = await rejection(gather(cluster));
      assert.deepEqual([asStatus.code, asStatus.reason], [410, "Gone"]);
      server.answer(({ response }) => response.end(`${JSON.stringify({ type: "ERROR", object: status })}\n`));
      const asEvent = await rejection(gather(cluster));
      assert.deepEqual([asEvent.code, asEvent.reason], [410, "Expired"]);
      assert.equal(asEvent.message, status.message);
    });
  });

  test("a connection that breaks rejects with code 0, inside a line or between two lines", async () => {
    await withServer({}, async ({ cluster, server }) => {
      for (const text of [line("ADDED", "a", "11"), '{"type":"ADD']) {
        server.answer(({ response }) => {
          response.write(text);
          setTimeout(() => response.destroy(), 20);
        });
        assert.deepEqual((await rejection(gather(cluster))).code, 0);
      }
      server.answer(({ response }) => response.end('{"type":"ADD'));
      assert.deepEqual((await rejection(gather(cluster))).code, 0);
    });
  });

  test("silence beyond the limit rejects with code 0 and reason Timeout", async () => {
    await withServer({ watchSilenceLimitMs: 100 }, async ({ cluster, server }) => {
      server.answer(({ response }) => void response.write(line("ADDED", "a", "11")));
      const watch = watchOf(cluster);
      assert.equal((await watch.next()).done, false);
      const error = await rejection(watch.next());
      assert.deepEqual([error.code, error.reason], [0, "Timeout"]);
      assert.equal((await watch.next()).done, true);
    });
  });

  test("a server that does not begin its answer rejects with code 0", async () => {
    await withServer({ requestTimeoutMs: 100 }, async ({ cluster, server }) => {
      server.answer(() => {});
      const error = await rejection(watchOf(cluster).next());
      assert.deepEqual([error.code, error.reason], [0, "Timeout"]);
    });
  });

  test("return() ends a waiting watch, and closes its connection", async () => {
    await withServer({}, async ({ cluster, server }) => {
      const closed = new Promise<void>((resolve) => {
        server.answer(({ response }) => {
          response.write("\n");
          response.on("close", resolve);
        });
      });
      const watch = watchOf(cluster);
      const waiting = watch.next();
      await cluster.sleep(30);
      await watch.return?.();
      assert.equal((await waiting).done, true);
      await closed;
    });
  });

  test("an aborted signal rejects, before the watch has begun and while it waits", async () => {
    await withServer({}, async ({ cluster, server }) => {
      server.answer(({ response }) => void response.write("\n"));
      const early = await rejection(watchOf(cluster, { signal: AbortSignal.abort() }).next());
      assert.deepEqual([early.code, early.reason], [0, "Aborted"]);
      assert.equal(server.requests.length, 0);
      const controller = new AbortController();
      const waiting = rejection(watchOf(cluster, { signal: controller.signal }).next());
      await cluster.sleep(30);
      controller.abort();
      assert.equal((await waiting).reason, "Aborted");
    });
  });

  test("open watches take no connection from calls", async () => {
    await withServer({ connections: 1 }, async ({ cluster, server }) => {
      server.answer(({ request, response }) => {
        if (request.url?.includes("watch=true")) response.write("\n");
        else response.end("{}");
      });
      const watches = Array.from({ length: 5 }, () => watchOf(cluster));
      const waiting = watches.map((watch) => watch.next());
      await cluster.sleep(30);
      await cluster.get("pods", { namespace: "default", name: "a" });
      await Promise.all(watches.map((watch) => watch.return?.()));
      await Promise.all(waiting);
    });
  });

  test("events that the caller has not read for long do not count as silence", async () => {
    await withServer({ watchSilenceLimitMs: 80 }, async ({ cluster, server }) => {
      server.answer(({ response }) => response.end(line("ADDED", "a", "11") + line("ADDED", "b", "12")));
      const watch = watchOf(cluster);
      await watch.next();
      await cluster.sleep(150);
      assert.equal((await watch.next()).done, false);
      assert.equal((await watch.next()).done, true);
    });
  });
});

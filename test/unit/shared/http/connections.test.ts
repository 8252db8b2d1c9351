import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { clock, get, post, rejection, until, withPods } from "../../../support/played-pods.ts";

const limit = { timeout: 20_000 };

describe("many calls at once", limit, () => {
  test("no more calls are under way than the limit, and all are answered in order", async () => {
    await withPods({ mostAtOnce: 4, mostGroups: 0 }, async ({ address, pods, asked, sockets, answer }) => {
      let [now, most] = [0, 0];
      answer(({ response }) => {
        now += 1;
        most = Math.max(most, now);
        setTimeout(() => {
          now -= 1;
          response.end();
        }, 10);
      });
      const names = Array.from({ length: 40 }, (_, index) => `web-${index % 8}`);
      const paths = names.map((_, index) => `/${index}`);
      await Promise.all(names.map((pod, index) => pods.send({ ...address, pod }, { ...get, path: `/${index}` })));
      assert.equal(most, 4);
      assert.ok(sockets.length <= 40);
      assert.deepEqual(asked.map(({ request }) => request.url).sort(), paths.sort());
    });
  });

  test("by default 32 calls are under way besides the first one of each group", async () => {
    await withPods({}, async ({ address, pods, asked, answer }) => {
      const open: (() => void)[] = [];
      answer(({ response }) => open.push(() => response.end()));
      const calls = Array.from({ length: 40 }, (_, index) =>
        pods.send({ ...address, group: `web-${index % 5}`, pod: `web-${index}` }, get),
      );
      await until(() => asked.length === 37);
      await new Promise((resolve) => setTimeout(resolve, 100));
      assert.equal(asked.length, 37);
      answer(({ response }) => response.end());
      for (const end of open) end();
      await Promise.all(calls);
      assert.equal(asked.length, 40);
    });
  });

  test("a call that waits too long for its turn is not sent", async () => {
    await withPods({ mostAtOnce: 1, mostGroups: 0, longestWaitMs: 150 }, async ({ address, pods, asked, answer }) => {
      let end = () => {};
      answer(({ response }) => {
        end = () => response.end();
      });
      const first = pods.send(address, get);
      const waited = await rejection(pods.send(address, post));
      assert.deepEqual([waited.failed, waited.sent], ["crowded", false]);
      assert.match(waited.message, /no turn within 150 ms$/);
      await until(() => asked.length === 1);
      end();
      await first;
      answer(({ response }) => response.end("next"));
      assert.equal((await pods.send(address, get)).body, "next");
      assert.deepEqual(
        asked.map(({ request }) => request.method),
        ["GET", "GET"],
      );
    });
  });

  test("a call whose latest moment passes while it waits stops waiting", async () => {
    await withPods({ mostAtOnce: 1, mostGroups: 0, timeoutMs: 20_000 }, async ({ address, pods, asked, answer }) => {
      answer(() => {});
      const giving = new AbortController();
      const first = rejection(pods.send(address, get, { signal: giving.signal }));
      await until(() => asked.length === 1);
      const startMs = clock.monotonicMs();
      const late = await rejection(pods.send(address, post, { notAfterMs: startMs + 50 }));
      assert.deepEqual([late.failed, late.sent, asked.length], ["time", false, 1]);
      assert.ok(clock.monotonicMs() - startMs < 5_000);
      giving.abort();
      await first;
    });
  });

  test("a call beyond the limit of waiting ones is refused at once, and an aborted one makes room", async () => {
    await withPods({ mostAtOnce: 1, mostGroups: 0, mostWaiting: 2 }, async ({ address, pods, asked, answer }) => {
      let end = () => {};
      answer(({ response }) => {
        end = () => response.end();
      });
      const first = pods.send(address, get);
      const giving = new AbortController();
      const given = rejection(pods.send(address, post, { signal: giving.signal }));
      const second = pods.send(address, get);
      const refused = await rejection(pods.send(address, post));
      assert.deepEqual([refused.failed, refused.sent], ["crowded", false]);
      giving.abort();
      assert.deepEqual([(await given).failed, (await given).sent], ["aborted", false]);
      const third = pods.send(address, get);
      await until(() => asked.length === 1);
      answer(({ response }) => response.end());
      end();
      await Promise.all([first, second, third]);
      assert.equal(asked.length, 3);
    });
  });
});

describe("connections", limit, () => {
  test("connections are kept, also after DELETEs with a body and after refusals", async () => {
    await withPods({}, async ({ address, pods, sockets, answer }) => {
      answer(({ response, index }) => response.writeHead(index % 2 === 0 ? 200 : 503).end("x"));
      for (let count = 0; count < 5; count++) {
        await pods.send(address, get);
        await pods.send(address, { method: "DELETE", path: "/prepare", body: "{}" });
        await pods.send(address, post);
      }
      // undici opens a second connection if the first has only just been answered.
      assert.ok(sockets.length <= 2, `${sockets.length}`);
    });
  });

  test("a connection that ends before an answer: a repeatable call is sent once more, and any other is not", async () => {
    await withPods({}, async ({ address, pods, asked, answer }) => {
      const bad = [{ repeatable: true }, {}];
      for (const more of bad) {
        const before = asked.length;
        answer(({ response, index }) => (index === before ? response.destroy() : response.end("ok")));
        const call = pods.send(address, { ...post, ...more });
        if (more.repeatable) assert.equal((await call).body, "ok");
        else {
          const error = await rejection(call);
          assert.deepEqual([error.failed, error.sent, error.status], ["connection", true, undefined]);
        }
        assert.equal(asked.length - before, more.repeatable ? 2 : 1);
      }
      answer(({ response }) => response.destroy());
      const before = asked.length;
      assert.equal((await rejection(pods.send(address, get))).failed, "connection");
      assert.equal(asked.length - before, 2);
    });
  });

  test("a connection that ends in the middle of an answer: there is no answer, and the call is not repeated", async () => {
    await withPods({}, async ({ address, pods, asked, answer }) => {
      answer(({ response }) => {
        response.writeHead(200, { "content-length": "10" });
        response.write("12345", () => response.destroy());
      });
      const error = await rejection(pods.send(address, get));
      assert.deepEqual([error.failed, error.sent, error.status, asked.length], ["connection", true, 200, 1]);
    });
  });

  test("a refused connection and an unknown name fail with nothing sent, after one try", async () => {
    let lookups = 0;
    const lookup = (host: string, _: object, found: (error: Error) => void) => {
      lookups += 1;
      found(Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: "ENOTFOUND" }));
    };
    await withPods({ lookup: lookup as never }, async ({ address, pods, asked }) => {
      const error = await rejection(pods.send(address, get));
      assert.deepEqual([error.failed, error.sent, lookups, asked.length], ["connection", false, 1, 0]);
      assert.match(error.message, /ENOTFOUND web-0\.web\.ns\.svc\.cluster\.local\.$/);
    });
    let port = 0;
    await withPods({}, async ({ address }) => {
      port = address.port;
    });
    await withPods({}, async ({ address, pods }) => {
      const error = await rejection(pods.send({ ...address, port }, get));
      assert.deepEqual([error.failed, error.sent], ["connection", false]);
      assert.match(error.message, /ECONNREFUSED/);
    });
  });

  test("close() ends the calls under way", async () => {
    await withPods({}, async ({ address, pods, asked, answer }) => {
      answer(() => {});
      const refused = rejection(pods.send(address, post));
      await until(() => asked.length === 1);
      await pods.close();
      assert.equal((await refused).failed, "connection");
    });
  });
});

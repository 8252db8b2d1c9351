/**
 * HTTP to pods: the same cases over real connections and in the fake cluster, so that calls in a simulation cannot behave
 * differently.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { askHealth } from "../../functions/shared/health/ask-health.ts";
import type { PodCallsOptions } from "../../functions/shared/http/calls.ts";
import type { PodAddress, PodHttp, PodRequest } from "../../functions/shared/http/pod-http.ts";
import { createWorldPodHttp, type PodReply } from "../fake-cluster/pod-http.ts";
import { RealTimeline } from "../fake-cluster/timeline.ts";
import { createWorld } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";
import { get, post, rejection, until, withPods } from "../support/played-pods.ts";

/** A running pod, the way to ask it, and the requests that it got. */
interface PodFixture {
  readonly pods: PodHttp;
  readonly address: PodAddress;
  /** Port on which no server listens. */
  readonly closedPort: number;
  readonly asked: readonly Asked[];
  answer(reply: (asked: Asked) => PodReply): void;
}

interface Asked extends Pick<PodRequest, "method" | "path"> {
  readonly body: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

type Bounds = Partial<Omit<PodCallsOptions, "clock" | "transport">>;
type Stage = (bounds: Bounds, run: (fixture: PodFixture) => Promise<void>) => Promise<void>;

const ok: PodReply = { status: 200 };

const overConnections: Stage = async (bounds, run) => {
  let closedPort = 0;
  await withPods({}, async ({ address }) => {
    closedPort = address.port;
  });
  // Only the existing pod has a name in DNS.
  const lookup = (host: string, _: object, found: (...found: unknown[]) => void) => {
    if (host.startsWith("web-0.web.ns.")) found(null, [{ address: "127.0.0.1", family: 4 }]);
    else found(Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: "ENOTFOUND" }));
  };
  await withPods({ ...bounds, lookup: lookup as never }, async ({ pods, address, answer }) => {
    const asked: Asked[] = [];
    let reply: (asked: Asked) => PodReply = () => ok;
    answer(({ request: { method, url = "", headers }, response, body }) => {
      const one = { method: method as Asked["method"], path: url, headers, body };
      asked.push(one);
      const message = reply(one);
      if (message === "break") response.destroy();
      else if (message !== "hang") response.writeHead(message.status, message.headers).end(message.body);
    });
    const setReply = (next: typeof reply) => {
      reply = next;
    };
    await run({ pods, address, closedPort, asked, answer: setReply });
  });
};

const inTheWorld: Stage = async (bounds, run) => {
  const timeline = new RealTimeline();
  const world = createWorld({ timeline, readyAfterMs: 1 });
  const spec = { nodeName: "node-1", containers: [{ name: "app", image: "app:1" }] };
  world.store.create("pods", "ns", { metadata: { name: "web-0" }, spec });
  const asked: Asked[] = [];
  let reply: (asked: Asked) => PodReply = () => ok;
  const pods = createWorldPodHttp({
    world,
    clock: createWorldCluster(world),
    answer: (_, { method, path, headers, body = "" }) => {
      const one = { method: method as Asked["method"], path, headers, body };
      asked.push(one);
      return reply(one);
    },
    listens: (_, port) => port === 80,
    calls: bounds,
  });
  const address: PodAddress = { scheme: "http", pod: "web-0", service: "web", namespace: "ns", group: "web", port: 80 };
  const isRunning = () => world.store.get("pods", { namespace: "ns", name: "web-0" }).status.phase === "Running";
  const setReply = (next: typeof reply) => {
    reply = next;
  };
  try {
    await until(isRunning);
    await run({ pods, address, closedPort: 81, asked, answer: setReply });
  } finally {
    world.stop();
    timeline.close();
  }
};

interface PodCase {
  readonly name: string;
  readonly bounds?: Bounds;
  readonly run: (fixture: PodFixture) => Promise<void>;
}

const cases: readonly PodCase[] = [
  {
    name: "a request arrives, and its answer comes back, whatever its status",
    run: async ({ pods, address, asked, answer }) => {
      answer(({ body }) => ({
        status: 409,
        headers: { "content-type": "a/b", "retry-after": "2" },
        body: `no ${body}`,
      }));
      const deleted = await pods.send(address, { method: "DELETE", path: "/a?b", body: "ü", headers: { "x-a": "b" } });
      assert.deepEqual(deleted, { status: 409, contentType: "a/b", retryAfterMs: 2_000, body: "no ü" });
      const [{ method, path, body, headers } = assert.fail()] = asked;
      assert.deepEqual([method, path, body], ["DELETE", "/a?b", "ü"]);
      assert.deepEqual([headers["x-a"], headers["x-cluster"]], ["b", "ns"]);
    },
  },
  {
    name: "a call to a silent pod ends after its time limit",
    bounds: { timeoutMs: 150 },
    run: async ({ pods, address, answer, asked }) => {
      answer(() => "hang");
      const error = await rejection(pods.send(address, get));
      assert.deepEqual([error.failed, error.sent, asked.length], ["time", true, 1]);
    },
  },
  {
    name: "after a broken connection a repeatable request is sent again, and no other is",
    run: async ({ pods, address, answer, asked }) => {
      answer(() => (asked.length === 1 ? "break" : ok));
      assert.equal((await pods.send(address, get)).status, 200);
      answer(() => "break");
      const error = await rejection(pods.send(address, post));
      assert.deepEqual([error.failed, error.sent, error.status], ["connection", true, undefined]);
      assert.deepEqual(
        asked.map(({ method }) => method),
        ["GET", "GET", "POST"],
      );
    },
  },
  {
    name: "without a listening server, or without a pod, nothing is sent",
    run: async ({ pods, address, closedPort, asked }) => {
      for (const wrong of [{ port: closedPort }, { pod: "web-1" }, { namespace: "other" }]) {
        const error = await rejection(pods.send({ ...address, ...wrong }, get));
        assert.deepEqual([error.failed, error.sent], ["connection", false]);
      }
      assert.equal(asked.length, 0);
    },
  },
  {
    name: "an invalid address is not called",
    run: async ({ pods, address, asked }) => {
      const error = await rejection(pods.send({ ...address, port: "1@other:80" as never }, get));
      assert.deepEqual([error.failed, error.sent, asked.length], ["request", false, 0]);
    },
  },
  {
    name: "an answer that is too long is an error, which has its status",
    run: async ({ pods, address, answer }) => {
      answer(() => ({ status: 503, body: "x".repeat(11) }));
      assert.equal((await pods.send(address, { ...get, mostBytes: 11 })).body.length, 11);
      const error = await rejection(pods.send(address, { ...get, mostBytes: 10 }));
      assert.deepEqual([error.failed, error.sent, error.status], ["size", true, 503]);
    },
  },
  {
    name: "an aborted call rejects at once, sent or not",
    run: async ({ pods, address, answer, asked }) => {
      answer(() => "hang");
      const giving = new AbortController();
      const refused = rejection(pods.send(address, post, { signal: giving.signal }));
      await until(() => asked.length === 1);
      giving.abort();
      const unsent = await rejection(pods.send(address, post, { signal: giving.signal }));
      const sent = await refused;
      assert.deepEqual([sent.failed, sent.sent, unsent.failed, unsent.sent], ["aborted", true, "aborted", false]);
    },
  },
  {
    name: "a call that gets no turn in time is not sent",
    bounds: { mostAtOnce: 1, longestWaitMs: 100 },
    run: async ({ pods, address, answer, asked }) => {
      answer(() => "hang");
      const giving = new AbortController();
      const first = rejection(pods.send(address, post, { signal: giving.signal }));
      const second = await rejection(pods.send(address, post));
      assert.deepEqual([second.failed, second.sent], ["crowded", false]);
      giving.abort();
      assert.deepEqual([(await first).failed, asked.length], ["aborted", 1]);
    },
  },
  {
    name: "nothing is sent after its deadline",
    run: async ({ pods, address, asked }) => {
      const error = await rejection(pods.send(address, post, { notAfterMs: -1 }));
      assert.deepEqual([error.failed, error.sent, asked.length], ["time", false, 0]);
    },
  },
  {
    name: "health is good, bad, or unknown without an answer",
    bounds: { timeoutMs: 1_000 },
    run: async ({ pods, address, answer }) => {
      const states: string[] = [];
      for (const reply of [ok, { status: 503 }, { status: 401 }, "hang", "break"] as const) {
        answer(() => reply);
        states.push((await askHealth(pods, { address, path: "/health" })).state);
      }
      assert.deepEqual(states, ["good", "bad", "unknown", "unknown", "unknown"]);
    },
  },
];

for (const [name, stage] of Object.entries({ "real connections": overConnections, "embedded world": inTheWorld })) {
  describe(`HTTP to pods: ${name}`, { timeout: 30_000 }, () => {
    for (const { name, bounds = {}, run } of cases) test(name, () => stage(bounds, run));
  });
}

/** The server of an agent over real connections, among clients that mean it harm. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { connect, createServer as createTcpServer, type Socket } from "node:net";
import { suite, test } from "node:test";
import type { PeerVerdict } from "../../../../../functions/fence-node/agent/outside.ts";
import { createPeerKey, isSignedBy } from "../../../../../functions/fence-node/agent/peer-key.ts";
import {
  herePathOf,
  mostBodyBytes,
  parseHere,
  parseVerdict,
  signatureHeader,
  verdictPathOf,
} from "../../../../../functions/fence-node/agent/peer-messages.ts";
import { mostConnections, PeerServer } from "../../../../../functions/fence-node/agent/peer-server.ts";
import { bootId, fenceId } from "./world.ts";

const nonce = "0123456789abcdef".repeat(2);
const path = verdictPathOf({ node: "node-1", boot: bootId, nonce });
const key = createPeerKey();

interface Received {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** Rejects if the connection is closed without an answer. */
async function send(port: number, url: string, { method = "GET", host = "127.0.0.1" } = {}): Promise<Received> {
  const outgoing = request({ host, port, path: url, method, agent: false }).end();
  const [answer] = await once(outgoing, "response");
  const body = Buffer.concat(await Array.fromAsync(answer as AsyncIterable<Buffer>));
  return { status: answer.statusCode, headers: answer.headers, body };
}

/** A server that runs while the test does. */
async function serving(
  run: (server: PeerServer, asked: string[]) => Promise<void>,
  {
    answer = async (): Promise<PeerVerdict> => ({ verdict: "alive" }),
    metrics = () => "sluice_agent_feeds_total 1\n",
    timeMs = 20_000,
  } = {},
): Promise<void> {
  const server = await PeerServer.listen(0, timeMs);
  const asked: string[] = [];
  server.serve({
    name: "node-2",
    key,
    metrics,
    answer: (...question) => {
      asked.push(question.join(" "));
      return answer();
    },
  });
  try {
    await run(server, asked);
  } finally {
    await server.close();
  }
}

/** A connection that writes `text`. Its reset by the server is no error of the test. */
async function open(port: number, text = ""): Promise<Socket> {
  const socket = connect(port, "127.0.0.1").on("error", () => undefined);
  await once(socket, "connect");
  socket.write(text);
  return socket;
}

/** Resolves also where the connection was reset. */
const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => (socket.closed ? resolve() : socket.once("close", () => resolve())));

/** What the server sends until it closes the connection. */
const readAll = async (socket: Socket): Promise<string> => {
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk;
  });
  await closed(socket);
  return text;
};

suite("the answers of an agent's server", () => {
  test("a verdict is signed, with the node, the boot and the nonce of the question", async () => {
    await serving(async ({ port }, asked) => {
      const { status, headers, body } = await send(port, path);
      assert.equal(status, 200);
      assert.equal(headers.connection, "close");
      assert.ok(isSignedBy(key.publicKey, body, String(headers[signatureHeader])));
      const expected = { verdict: "alive", node: "node-1", boot: bootId, nonce, peer: "node-2", fenceId: undefined };
      assert.deepEqual(parseVerdict(body), expected);
      assert.deepEqual(asked, [`node-1 ${bootId}`]);
    });
  });

  test("a stop names its fence", async () => {
    const answer = async (): Promise<PeerVerdict> => ({ verdict: "stop", fenceId });
    await serving(async ({ port }) => assert.equal(parseVerdict((await send(port, path)).body)?.fenceId, fenceId), {
      answer,
    });
  });

  test("a drill is answered, signed, without a question to the agent", async () => {
    await serving(async ({ port }, asked) => {
      const { headers, body } = await send(port, herePathOf(nonce));
      assert.ok(isSignedBy(key.publicKey, body, String(headers[signatureHeader])));
      assert.deepEqual(parseHere(body), { peer: "node-2", nonce });
      assert.deepEqual(asked, []);
    });
  });

  test("a malformed question, another path and another method get a message, and ask the agent nothing", async () => {
    await serving(async ({ port }, asked) => {
      for (const [url, method, status, message] of [
        [path.replace("node-1", "Node"), "GET", 400, /^the node must be a name/],
        [path.replace(bootId, ""), "GET", 400, /^boot must be/],
        [path.replace(nonce, "x"), "GET", 400, /^nonce must be/],
        ["/v1/here", "GET", 400, /^nonce must be/],
        ["/", "GET", 404, /\/v1\/here/],
        ["/metrics", "POST", 405, /only GET/],
        ["/metrics/", "GET", 404, /\/metrics/],
        [path, "POST", 405, /only GET/],
        [herePathOf(nonce), "DELETE", 405, /only GET/],
      ] as const) {
        const received = await send(port, url, { method });
        assert.equal(received.status, status, url);
        assert.match(received.body.toString(), message);
        assert.equal(received.headers[signatureHeader], undefined);
        assert.equal(received.headers.allow, status === 405 ? "GET" : undefined);
      }
      assert.deepEqual(asked, []);
    });
  });

  test("the page of metrics is text, unsigned, and asks the agent no question", async () => {
    await serving(async ({ port }, asked) => {
      const { status, headers, body } = await send(port, "/metrics?name[]=x");
      assert.deepEqual([status, body.toString()], [200, "sluice_agent_feeds_total 1\n"]);
      assert.equal(headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
      assert.equal(headers[signatureHeader], undefined);
      assert.deepEqual(asked, []);
    });
    const metrics = () => {
      throw new Error("broken");
    };
    await serving(async ({ port }) => assert.equal((await send(port, "/metrics")).status, 503), { metrics });
  });

  test("drills are counted when they have been answered, and no other request is", async () => {
    await serving(async (server) => {
      for (const url of [herePathOf(nonce), path, "/metrics", "/v1/here", herePathOf(nonce)])
        await send(server.port, url);
      assert.equal(server.drillsAnswered, 2);
    });
  });

  test("a server that does not serve yet answers 503, and so does one whose agent fails", async () => {
    const server = await PeerServer.listen(0);
    assert.equal((await send(server.port, path)).status, 503);
    assert.equal((await send(server.port, herePathOf(nonce))).status, 503);
    assert.equal((await send(server.port, "/metrics")).status, 503);
    await server.close();
    const answer = async (): Promise<PeerVerdict> => {
      throw new Error("broken");
    };
    await serving(
      async ({ port }) => {
        const { status, body } = await send(port, path);
        assert.equal(status, 503);
        assert.match(body.toString(), /cannot answer now/);
        assert.equal((await send(port, herePathOf(nonce))).status, 200);
      },
      { answer },
    );
  });

  test("addresses of both families are served", async () => {
    await serving(async ({ port }) => {
      assert.equal((await send(port, path, { host: "127.0.0.1" })).status, 200);
      assert.equal((await send(port, path, { host: "::1" })).status, 200);
    });
  });
});

suite("the port of an agent's server", () => {
  test("a second agent cannot listen before the first one has closed, and then it can", async () => {
    const first = await PeerServer.listen(0);
    await assert.rejects(PeerServer.listen(first.port), { code: "EADDRINUSE" });
    await first.close();
    const second = await PeerServer.listen(first.port);
    await second.close();
  });

  test("a process that listens on one family alone keeps an agent away", async () => {
    const other = createTcpServer().listen(0, "0.0.0.0");
    await once(other, "listening");
    const { port } = other.address() as { port: number };
    await assert.rejects(PeerServer.listen(port), { code: "EADDRINUSE" });
    other.close();
  });

  test("close ends connections whose clients wait", async () => {
    const server = await PeerServer.listen(0);
    const socket = await open(server.port, "GET /");
    await server.close();
    assert.equal(await readAll(socket), "");
  });
});

suite("clients that mean an agent's server harm", () => {
  test("a connection that sends nothing, half a request, or half a body is closed in time", async () => {
    await serving(
      async ({ port }) => {
        for (const text of ["", "GET /v1/he", "GET / HTTP/1.1\r\nhost: a\r\n"]) {
          assert.doesNotMatch(await readAll(await open(port, text)), /200/);
        }
        const half = `GET ${herePathOf(nonce)} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nx`;
        assert.match(await readAll(await open(port, half)), /^HTTP\/1.1 200/);
      },
      { timeMs: 200 },
    );
  });

  test("a client that sends one byte after another, slowly, is closed in time", async () => {
    await serving(
      async ({ port }) => {
        const socket = await open(port, "GET / HTTP/1.1\r\nx: ");
        const drip = setInterval(() => socket.write("x"), 20);
        await readAll(socket);
        clearInterval(drip);
      },
      { timeMs: 200 },
    );
  });

  test("a client that never gets its answer is closed in time", async () => {
    await serving(
      async ({ port }) => assert.equal(await readAll(await open(port, `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`)), ""),
      {
        answer: () => new Promise(() => undefined),
        timeMs: 200,
      },
    );
  });

  test("clients that never read their answers keep no connection", async () => {
    await serving(async ({ port }, asked) => {
      const sockets: Socket[] = [];
      for (let count = 0; count < mostConnections; count++) {
        sockets.push((await open(port, `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`)).pause());
      }
      while (asked.length < mostConnections) await new Promise((resolve) => setImmediate(resolve));
      assert.equal((await send(port, path)).status, 200);
      for (const socket of sockets) socket.destroy();
    });
  });

  test("a connection serves one request, also where several are sent at once", async () => {
    await serving(async ({ port }, asked) => {
      const text = await readAll(await open(port, `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`.repeat(20)));
      assert.equal(text.match(/HTTP\/1.1 200/g)?.length, 1);
      assert.equal(asked.length, 1);
    });
  });

  test("no more than 64 connections are open, and a further one is closed at once", async () => {
    await serving(async ({ port }) => {
      const sockets = await Promise.all(Array.from({ length: mostConnections }, () => open(port)));
      assert.equal(await readAll(await open(port)), "");
      await assert.rejects(send(port, path));
      for (const socket of sockets) socket.destroy();
      let status: number | undefined;
      while (status !== 200)
        status = await send(port, path).then(
          (one) => one.status,
          () => undefined,
        );
    });
  });

  test("headers or a path of more than 4 KiB are refused", async () => {
    await serving(async ({ port }, asked) => {
      const text = `GET ${path}&x=${"x".repeat(5_000)} HTTP/1.1\r\nhost: a\r\n\r\n`;
      assert.match(await readAll(await open(port, text)), /^HTTP\/1.1 431/);
      assert.deepEqual(asked, []);
    });
  });

  test("what is no HTTP is refused", async () => {
    await serving(async ({ port }) => {
      for (const text of [
        "\x16\x03\x01\x02\x00\x01",
        "\r\n\r\nrubbish\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
      ]) {
        assert.doesNotMatch(await readAll(await open(port, text)), /HTTP\/1.1 [25]/, text);
      }
    });
  });

  test("a huge body is not read", async () => {
    await serving(async ({ port }) => {
      const head = `GET ${path} HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n`;
      const socket = await open(port, head);
      const body = Buffer.alloc(1024 * 1024);
      const push = () => {
        while (!socket.destroyed && socket.write(body));
      };
      socket.on("drain", push);
      push();
      await readAll(socket);
      assert.ok(socket.bytesWritten < 100 * body.length);
      assert.equal((await send(port, path)).status, 200);
    });
  });

  test("a client that has gone before its answer leaves the server as it was", async () => {
    const { promise: gone, resolve } = Promise.withResolvers<void>();
    await serving(
      async ({ port }, asked) => {
        const socket = await open(port, `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`);
        while (asked.length === 0) await new Promise((next) => setImmediate(next));
        socket.resetAndDestroy();
        await closed(socket);
        resolve();
        assert.equal((await send(port, path)).status, 200);
      },
      { answer: () => gone.then(() => ({ verdict: "alive" })) },
    );
  });

  test("an answer for the longest names has at most 1 KiB", async () => {
    const long = verdictPathOf({ node: "a".repeat(247), boot: "b".repeat(64), nonce });
    await serving(async ({ port }) => {
      const { status, body } = await send(port, long);
      assert.equal(status, 200);
      assert.ok(body.length <= mostBodyBytes);
    });
  });
});

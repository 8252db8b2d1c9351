/** What an agent takes for an answer of a peer, over real connections, from servers that forge, replay and stall. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { suite, test } from "node:test";
import type { PeerAddress, PeerVerdict } from "../../../../../functions/fence-node/agent/outside.ts";
import { PeerClient } from "../../../../../functions/fence-node/agent/peer-client.ts";
import { createPeerKey, type PeerKey } from "../../../../../functions/fence-node/agent/peer-key.ts";
import {
  formatHere,
  formatVerdict,
  parseQuestion,
  signatureHeader,
  type VerdictBody,
} from "../../../../../functions/fence-node/agent/peer-messages.ts";
import { PeerServer } from "../../../../../functions/fence-node/agent/peer-server.ts";
import type { AgentAddress } from "../../../../../functions/shared/annotations/fencing-peers.ts";
import { bootId, fenceId, otherBootId } from "./world.ts";

const timeoutMs = 20_000;
/** For what never comes. */
const shortMs = 100;
const key = createPeerKey();
const client = new PeerClient();
const question = { node: "node-1", bootId };
const peerAt = (...addresses: readonly AgentAddress[]): PeerAddress => ({
  name: "node-2",
  publicKey: key.publicKey,
  addresses,
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A server of the test, in the place of a peer. */
async function answering(answer: Answer, run: (address: AgentAddress, server: Server) => Promise<void>): Promise<void> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await run({ host: "127.0.0.1", port: (server.address() as { port: number }).port }, server);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** The honest answer to a request. */
function verdictOn(request: IncomingMessage, change: Partial<VerdictBody> = {}): VerdictBody {
  const asked = parseQuestion(request.url ?? "");
  assert.ok(asked.kind === "verdict");
  return { node: asked.node, boot: asked.boot, nonce: asked.nonce, verdict: "alive", peer: "node-2", ...change };
}

function send(response: ServerResponse, body: Buffer, by: PeerKey = key): void {
  response.setHeader(signatureHeader, by.sign(body)).end(body);
}

/** What the client makes of one answer to a question, and to a drill. */
async function askOnce(answer: Answer, limitMs = timeoutMs): Promise<PeerVerdict | undefined> {
  let verdict: PeerVerdict | undefined;
  await answering(answer, async (address) => {
    verdict = await client.ask(peerAt(address), question, limitMs);
  });
  return verdict;
}

async function drillOnce(answer: Answer): Promise<boolean> {
  let isHere = false;
  await answering(answer, async (address) => {
    isHere = await client.drill(peerAt(address), timeoutMs);
  });
  return isHere;
}

const nonceOf = (request: IncomingMessage): string => {
  const asked = parseQuestion(request.url ?? "");
  return "nonce" in asked ? asked.nonce : "";
};

suite("what an agent takes for an answer of a peer", () => {
  test("each verdict of the server of an agent arrives, and so does its answer to a drill", async () => {
    const server = await PeerServer.listen(0);
    const verdicts: readonly PeerVerdict[] = [
      { verdict: "alive" },
      { verdict: "no-api" },
      { verdict: "unknown" },
      { verdict: "stop", fenceId },
    ];
    const left = [...verdicts];
    server.serve({
      name: "node-2",
      key,
      metrics: () => "",
      answer: async () => left.shift() ?? { verdict: "unknown" },
    });
    const peer = peerAt({ host: "127.0.0.1", port: server.port });
    for (const verdict of verdicts) assert.deepEqual(await client.ask(peer, question, timeoutMs), verdict);
    assert.equal(await client.drill(peer, timeoutMs), true);
    assert.deepEqual(await client.ask(peerAt({ host: "::1", port: server.port }), question, timeoutMs), {
      verdict: "unknown",
    });
    await server.close();
  });

  test("an honest answer of a server of the test is taken", async () => {
    assert.deepEqual(await askOnce((request, response) => send(response, formatVerdict(verdictOn(request)))), {
      verdict: "alive",
    });
    assert.equal(
      await drillOnce((request, response) => send(response, formatHere({ peer: "node-2", nonce: nonceOf(request) }))),
      true,
    );
  });

  test("each question has a nonce of its own, and its connection is not kept", async () => {
    const nonces = new Set<string>();
    const answer: Answer = (request, response) => {
      nonces.add(nonceOf(request));
      assert.equal(request.headers.connection, "close");
      send(response, formatVerdict(verdictOn(request)));
    };
    await answering(answer, async (address) => {
      for (let count = 0; count < 5; count++) await client.ask(peerAt(address), question, timeoutMs);
    });
    assert.equal(nonces.size, 5);
  });
});

suite("what an agent takes for no answer", () => {
  test("an alive or a stop without a signature, with a forged one, or by the key of another peer", async () => {
    const other = createPeerKey();
    const signatures: readonly ((body: Buffer) => string | undefined)[] = [
      () => undefined,
      () => "",
      () => "A".repeat(86),
      (body) => other.sign(body),
      (body) => `${key.sign(body)}A`,
      () => key.sign(Buffer.from("other")),
    ];
    for (const change of [{ verdict: "alive" }, { verdict: "stop", fenceId }] as const)
      for (const sign of signatures) {
        const verdict = await askOnce((request, response) => {
          const body = formatVerdict(verdictOn(request, change));
          const text = sign(body);
          if (text !== undefined) response.setHeader(signatureHeader, text);
          response.end(body);
        });
        assert.equal(verdict, undefined);
      }
  });

  test("an answer that was changed on its way", async () => {
    const verdict = await askOnce((request, response) => {
      const stop = formatVerdict(verdictOn(request, { verdict: "stop", fenceId }));
      response.setHeader(signatureHeader, key.sign(stop)).end(formatVerdict(verdictOn(request)));
    });
    assert.equal(verdict, undefined);
  });

  test("an answer to another question: another nonce, node, boot, or the name of another peer", async () => {
    for (const change of [
      { nonce: "0".repeat(32) },
      { node: "node-3" },
      { boot: otherBootId },
      { peer: "node-3" },
      { peer: "node-1" },
    ]) {
      const answer: Answer = (request, response) => send(response, formatVerdict(verdictOn(request, change)));
      assert.equal(await askOnce(answer), undefined, JSON.stringify(change));
    }
  });

  test("an earlier answer of the peer that is sent again", async () => {
    let first: { readonly body: Buffer; readonly signature: string } | undefined;
    const answer: Answer = (request, response) => {
      const body = formatVerdict(verdictOn(request));
      first ??= { body, signature: key.sign(body) };
      response.setHeader(signatureHeader, first.signature).end(first.body);
    };
    await answering(answer, async (address) => {
      assert.deepEqual(await client.ask(peerAt(address), question, timeoutMs), { verdict: "alive" });
      assert.equal(await client.ask(peerAt(address), question, timeoutMs), undefined);
    });
  });

  test("the answer to a drill as a verdict, and a verdict as the answer to a drill", async () => {
    const here: Answer = (request, response) => send(response, formatHere({ peer: "node-2", nonce: nonceOf(request) }));
    assert.equal(await askOnce(here), undefined);
    const verdict: Answer = (request, response) => {
      const body = { verdict: "alive", node: "node-1", boot: bootId, nonce: nonceOf(request), peer: "node-2" } as const;
      send(response, formatVerdict(body));
    };
    assert.equal(await drillOnce(verdict), false);
  });

  test("a drill that another peer answers, or with another nonce, or without a signature", async () => {
    const other = createPeerKey();
    const bodies = (request: IncomingMessage) => formatHere({ peer: "node-2", nonce: nonceOf(request) });
    for (const answer of [
      (_request, response) => send(response, formatHere({ peer: "node-2", nonce: "0".repeat(32) })),
      (request, response) => send(response, formatHere({ peer: "node-3", nonce: nonceOf(request) })),
      (request, response) => send(response, bodies(request), other),
      (request, response) => response.end(bodies(request)),
    ] satisfies Answer[]) {
      assert.equal(await drillOnce(answer), false);
    }
  });

  test("a stop without a fence, or with one that does not parse", async () => {
    for (const id of [undefined, "", "a b", "f".repeat(65)]) {
      const answer: Answer = (request, response) =>
        send(response, formatVerdict(verdictOn(request, { verdict: "stop", fenceId: id })));
      assert.equal(await askOnce(answer), undefined, String(id));
    }
  });

  test("a body of more than 1 KiB, and one without an end", async () => {
    const padded: Answer = (request, response) => {
      const body = formatVerdict(verdictOn(request));
      send(response, Buffer.concat([body, Buffer.alloc(1025 - body.length, " ")]));
    };
    assert.equal(await askOnce(padded), undefined);
    const endless: Answer = (_request, response) => {
      const write = (): void => {
        while (response.write("x".repeat(65_536)));
      };
      response.on("drain", write);
      write();
    };
    assert.equal(await askOnce(endless), undefined);
  });

  test("a redirect, an error and any other status, although the body is signed", async () => {
    const elsewhere: string[] = [];
    for (const status of [201, 204, 301, 302, 307, 400, 500, 503]) {
      const answer: Answer = (request, response) => {
        if (request.url === "/elsewhere") elsewhere.push(request.url);
        response.statusCode = status;
        send(response.setHeader("location", "/elsewhere"), formatVerdict(verdictOn(request)));
      };
      assert.equal(await askOnce(answer), undefined, String(status));
    }
    assert.deepEqual(elsewhere, []);
  });

  test("headers of more than 4 KiB", async () => {
    const answer: Answer = (request, response) =>
      send(response.setHeader("x", "x".repeat(5_000)), formatVerdict(verdictOn(request)));
    assert.equal(await askOnce(answer), undefined);
  });
});

suite("the time of a question to a peer", () => {
  test("no answer, half an answer, or one that comes byte by byte ends in time", async () => {
    for (const answer of [
      () => undefined,
      (_request, response) => response.write("{"),
      (_request, response) => {
        const drip = setInterval(() => response.write(" "), 5);
        response.on("close", () => clearInterval(drip));
      },
      (_request, response) => {
        const drip = setInterval(() => response.writeProcessing(), 5);
        response.on("close", () => clearInterval(drip));
      },
    ] satisfies Answer[]) {
      assert.equal(await askOnce(answer, shortMs), undefined);
    }
  });

  test("a server that takes the connection and sends no HTTP, or another protocol, ends in time", async () => {
    for (const text of ["", "rubbish\r\n\r\n", "HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"]) {
      const server = createTcpServer((socket) => socket.on("error", () => undefined).write(text));
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const { port } = server.address() as { port: number };
      assert.equal(await client.ask(peerAt({ host: "127.0.0.1", port }), question, shortMs), undefined);
      server.close();
    }
  });

  test("a host that is no address of IP is not asked", async () => {
    const asked: (string | undefined)[] = [];
    const answer: Answer = (request, response) => {
      asked.push(request.url);
      send(response, formatHere({ peer: "node-2", nonce: nonceOf(request) }));
    };
    await answering(answer, async ({ port }) => {
      for (const host of ["localhost", "999.1.1.1", "127.1", ""]) {
        assert.equal(await client.drill(peerAt({ host, port }), timeoutMs), false, host);
      }
    });
    assert.deepEqual(asked, []);
  });

  test("no address, and one where no server listens, give no answer, and none rejects", async () => {
    const server = await PeerServer.listen(0);
    const { port } = server;
    await server.close();
    assert.equal(await client.ask(peerAt(), question, timeoutMs), undefined);
    assert.equal(await client.drill(peerAt({ host: "127.0.0.1", port }), timeoutMs), false);
    const wrong = peerAt({ host: "127.0.0.1", port: 65_536 });
    assert.equal(await client.ask(wrong, question, timeoutMs), undefined);
    for (const limitMs of [Number.NaN, Number.POSITIVE_INFINITY, -1]) {
      assert.equal(await client.ask(peerAt({ host: "127.0.0.1", port }), question, limitMs), undefined);
    }
  });
});

suite("the addresses of a peer", () => {
  const honest: Answer = (request, response) => send(response, formatVerdict(verdictOn(request)));

  test("the first answer that counts is taken, whatever other addresses do, and their connections end", async () => {
    const stalled = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const stall: Answer = (request) => {
      stalled.resolve();
      request.socket.on("close", () => ended.resolve());
    };
    const forge: Answer = (request, response) => send(response, formatVerdict(verdictOn(request)), createPeerKey());
    const late: Answer = (request, response) => void stalled.promise.then(() => honest(request, response));
    await answering(stall, (first) =>
      answering(forge, (second) =>
        answering(late, async (third) => {
          const peer = peerAt(first, second, third);
          assert.deepEqual(await client.ask(peer, question, timeoutMs), { verdict: "alive" });
          await ended.promise;
        }),
      ),
    );
  });

  test("all are asked at once", async () => {
    const waiting: (() => void)[] = [];
    const answer: Answer = (request, response) => {
      waiting.push(() => honest(request, response));
      if (waiting.length === 3) for (const go of waiting) go();
    };
    await answering(answer, async (address) => {
      assert.deepEqual(await client.ask(peerAt(address, address, address), question, timeoutMs), { verdict: "alive" });
    });
  });
});

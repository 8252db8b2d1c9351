/** Which connections delay the end of a process. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { connect as connectTls } from "node:tls";
import { type ListenOptions, listen } from "../../../../triggers/server/server.ts";
import { createTestApp } from "../../../support/app.ts";
import { createAuthority } from "../../../support/certificates.ts";

const never = new AbortController().signal;
const get = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";

const ports = { plain: async () => ({}), TLS: async () => ({ pair: await (await createAuthority()).issue() }) };

async function serve(context: TestContext, options: Partial<ListenOptions>) {
  const { app } = createTestApp();
  const listening = await listen(app, { port: 0, requestTimeoutMs: 60_000, ...options });
  context.after(() => listening.close(AbortSignal.abort()));
  /** `sent`: what the client writes at once. Resolves when that is on its way. */
  const open = async (sent = ""): Promise<Socket> => {
    const isPlain = options.pair === undefined;
    const socket = isPlain
      ? connect(listening.port, "127.0.0.1")
      : connectTls({ port: listening.port, host: "127.0.0.1", rejectUnauthorized: false });
    context.after(() => socket.destroy());
    await once(socket, isPlain ? "connect" : "secureConnect");
    if (sent !== "") await new Promise<void>((resolve) => socket.write(sent, () => resolve()));
    return socket;
  };
  return { listening, open };
}

for (const [name, optionsOf] of Object.entries(ports)) {
  test(`over ${name}: a connection without a request is closed at once, and does not delay the end`, async (context) => {
    const { listening, open } = await serve(context, await optionsOf());
    const unused = await open();
    const used = await open(get);
    await once(used, "data");
    const ends = [unused, used].map((socket) => once(socket, "close"));
    await listening.close(never);
    for (const socket of [unused, used]) socket.resume();
    await Promise.all(ends);
  });

  test(`over ${name}: a request that comes right after the close is answered if its connection is older`, async (context) => {
    const { listening, open } = await serve(context, await optionsOf());
    const fresh = await open();
    const closed = listening.close(never);
    fresh.write(get);
    const [answer] = await once(fresh, "data");
    assert.match(String(answer), /^HTTP\/1\.1 200 /);
    await closed;
  });

  test(`over ${name}: a request that has partly come is waited for, and answered`, async (context) => {
    const { listening, open } = await serve(context, await optionsOf());
    const slow = await open(get.slice(0, 20));
    const other = await open(get);
    await once(other, "data");
    const closed = listening.close(never);
    await once(other.resume(), "close");
    slow.write(get.slice(20));
    const [answer] = await once(slow, "data");
    assert.match(String(answer), /^HTTP\/1\.1 200 /);
    await closed;
  });
}

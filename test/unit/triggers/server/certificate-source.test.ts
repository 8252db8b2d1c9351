import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { Agent, get } from "node:https";
import { connect as connectPlain } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { connect } from "node:tls";
import {
  certificateInFiles,
  type KeyPair,
  readKeyPair,
  watchCertificate,
} from "../../../../triggers/server/certificate-source.ts";
import { listen } from "../../../../triggers/server/server.ts";
import { createTestApp } from "../../../support/app.ts";
import { createAuthority, type IssuedPair } from "../../../support/certificates.ts";

const authority = await createAuthority();

async function createFiles(context: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), "sluice-certificate-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const files = { certFile: join(folder, "tls.crt"), keyFile: join(folder, "tls.key") };
  const replace = async (path: string, text: string): Promise<void> => {
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  };
  const write = async ({ cert, key }: Pick<IssuedPair, "cert" | "key">): Promise<void> => {
    await replace(files.certFile, cert);
    await replace(files.keyFile, key);
  };
  return { files, write, replace };
}

/** Watches a certificate in files. The test releases its reads one by one. */
async function createWatch(context: TestContext) {
  const pairs: KeyPair[] = [];
  const troubles: string[] = [];
  const { files, write, replace } = await createFiles(context);
  await write(await authority.issue());
  let read = Promise.withResolvers<void>();
  let asleep = Promise.withResolvers<void>();
  const stopping = new AbortController();
  const watching = watchCertificate(
    certificateInFiles(files),
    {
      first: await readKeyPair(files),
      sleep() {
        asleep.resolve();
        return read.promise;
      },
      onPair: (pair) => void pairs.push(pair),
      onTrouble: (message) => void troubles.push(message),
    },
    stopping.signal,
  );
  await asleep.promise;
  const once = async (): Promise<void> => {
    const before = read;
    read = Promise.withResolvers();
    asleep = Promise.withResolvers();
    before.resolve();
    await asleep.promise;
  };
  const stop = async (): Promise<void> => {
    stopping.abort();
    read.resolve();
    await watching;
  };
  return { files, write, replace, pairs, troubles, read: once, stop };
}

test("missing files, files that are no PEM, and files that are no pair are reported by name", async (context) => {
  const { files, write } = await createFiles(context);
  await assert.rejects(readKeyPair(files), /^Error: TLS_CERT_FILE cannot be read: ENOENT.+tls\.crt/);
  const [one, other] = [await authority.issue(), await authority.issue()];
  await write({ cert: "no certificate", key: one.key });
  await assert.rejects(readKeyPair(files), /TLS_CERT_FILE .+tls\.crt holds no certificate in PEM/);
  await write({ cert: one.cert, key: "no key" });
  await assert.rejects(readKeyPair(files), /TLS_KEY_FILE .+tls\.key holds no key of the certificate in .+tls\.crt/);
  await write({ cert: one.cert, key: other.key });
  await assert.rejects(readKeyPair(files), /holds no key of the certificate/);
  await write(one);
  const pair = await readKeyPair(files);
  assert.match(pair.subject, /127\.0\.0\.1/);
  assert.ok(Date.parse(pair.notAfter) > Date.now());
});

test("a new pair is reported once, and an unchanged pair never", async (context) => {
  const { write, pairs, troubles, read, stop } = await createWatch(context);
  await read();
  assert.equal(pairs.length, 0);
  const next = await authority.issue();
  await write(next);
  await read();
  await read();
  assert.deepEqual([pairs.length, pairs[0]?.cert], [1, next.cert]);
  await stop();
  assert.deepEqual(troubles, []);
});

test("the source waits for the other half of a new pair, and reports a broken pair once until it is mended", async (context) => {
  const { files, write, replace, pairs, troubles, read, stop } = await createWatch(context);
  const next = await authority.issue();
  await replace(files.certFile, next.cert);
  await read();
  assert.equal(pairs.length + troubles.length, 0, "the key may be on its way");
  await read();
  await read();
  assert.equal(troubles.length, 1);
  assert.match(troubles[0] ?? "", /holds no key of the certificate .+ the certificate in use is kept until 20/);
  await replace(files.keyFile, next.key);
  await read();
  assert.equal(pairs.length, 1);
  await write({ cert: "", key: "" });
  await read();
  await read();
  assert.equal(troubles.length, 2);
  await stop();
});

function serialShown(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", ca: authority.cert }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

/** Resolves to the client's own port, which identifies the connection. */
function ask(port: number, agent: Agent): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get({ port, host: "127.0.0.1", path: "/healthz", agent }, (response) => {
      response.resume();
      const { localPort } = response.socket;
      response.once("end", () => resolve(localPort));
    }).once("error", reject);
  });
}

test("new connections get the new certificate, and existing connections stay open", async (context) => {
  const { files, write } = await createFiles(context);
  const [one, other] = [await authority.issue(), await authority.issue()];
  await write(one);
  const { app } = createTestApp();
  const pair = await readKeyPair(files);
  const listening = await listen(app, { port: 0, requestTimeoutMs: 10_000, pair });
  context.after(() => listening.close(AbortSignal.abort()));
  const agent = new Agent({ ca: authority.cert, keepAlive: true, maxSockets: 1 });
  context.after(() => agent.destroy());
  const from = await ask(listening.port, agent);
  assert.ok(from !== undefined);
  assert.equal(await serialShown(listening.port), one.serialNumber);
  listening.present({ ...pair, cert: other.cert, key: other.key });
  assert.equal(await serialShown(listening.port), other.serialNumber);
  assert.equal(await ask(listening.port, agent), from);
});

test("a client that speaks no TLS, or stops in the middle of a handshake, delays no other client", async (context) => {
  const { files, write } = await createFiles(context);
  await write(await authority.issue());
  const { app } = createTestApp();
  const listening = await listen(app, { port: 0, requestTimeoutMs: 10_000, pair: await readKeyPair(files) });
  const plain = connectPlain(listening.port, "127.0.0.1");
  plain.on("error", () => {});
  plain.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await once(plain, "close");
  const silent = connectPlain(listening.port, "127.0.0.1");
  silent.on("error", () => {});
  await once(silent, "connect");
  assert.notEqual(await serialShown(listening.port), "");
  const cutOff = new AbortController();
  const closed = listening.close(cutOff.signal);
  const gone = once(silent, "close");
  cutOff.abort();
  await Promise.all([closed, gone]);
});

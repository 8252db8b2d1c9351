import assert from "node:assert/strict";
import { test } from "node:test";
import { type ConnectionOptions, connect, type SecureVersion } from "node:tls";
import { listen } from "../../../../triggers/server/server.ts";
import { createTestApp } from "../../../support/app.ts";
import { createAuthority } from "../../../support/certificates.ts";

/** Resolves to the protocol and the cipher suite that both sides agreed on, or to the code of the error. */
function handshake(port: number, options: ConnectionOptions): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ...options }, () => {
    resolve(`${socket.getProtocol()} ${socket.getCipher().name}`);
    socket.destroy();
  });
  socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  return promise;
}

/** Both sides agree on this and nothing else, or on nothing. */
function only(version: SecureVersion, ciphers?: string): ConnectionOptions {
  const suites = ciphers === undefined ? {} : { ciphers: `${ciphers}:@SECLEVEL=0` };
  return { minVersion: version, maxVersion: version, ...suites };
}

test("the TLS port speaks only 1.3, and 1.2 with ECDHE and AEAD, with the first certificate and with the next", async (context) => {
  const { app } = createTestApp();
  const [ecdsa, rsa] = [await (await createAuthority()).issue(), await (await createAuthority("RSA-4096")).issue()];
  const about = { subject: "localhost", notAfter: "" };
  const server = await listen(app, { port: 0, requestTimeoutMs: 1_000, pair: { ...ecdsa, ...about } });
  context.after(() => server.close(AbortSignal.timeout(1_000)));
  for (const [kind, pair] of Object.entries({ ECDSA: ecdsa, RSA: rsa })) {
    server.present({ ...pair, ...about });
    const agreed = async (version: SecureVersion, ciphers?: string) => handshake(server.port, only(version, ciphers));
    for (const suite of ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"]) {
      const name = `ECDHE-${kind}-${suite}`;
      assert.equal(await agreed("TLSv1.2", name), `TLSv1.2 ${name}`);
    }
    assert.match(await agreed("TLSv1.3"), /^TLSv1\.3 TLS_AES_/);
    const blockwise = `ECDHE-${kind}-AES128-SHA256:ECDHE-${kind}-AES256-SHA384:ECDHE-${kind}-AES256-SHA`;
    const keptKeys = "AES128-GCM-SHA256:AES256-GCM-SHA384:AES256-SHA256";
    for (const refused of [blockwise, keptKeys]) {
      assert.match(await agreed("TLSv1.2", refused), /HANDSHAKE_FAILURE/, `${kind} ${refused}`);
    }
    assert.match(await agreed("TLSv1.1", "ALL"), /PROTOCOL_VERSION/, kind);
  }
});

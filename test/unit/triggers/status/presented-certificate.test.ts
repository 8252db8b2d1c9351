/** The certificate of the TLS port as the status shows it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CertificateSource, KeyPair } from "../../../../triggers/server/certificate-source.ts";
import { followCertificate } from "../../../../triggers/status/presented-certificate.ts";
import { createAuthority } from "../../../support/certificates.ts";

async function pairOf(notAfter: string): Promise<KeyPair> {
  const { cert, key } = await (await createAuthority()).issue();
  return { cert, key, subject: "", notAfter };
}

test("the status has the last certificate that was read, with the Secret or the file that has it, and none before", async () => {
  const pairs = [await pairOf("2026-12-01T00:00:00.000Z"), await pairOf("2027-12-01T00:00:00.000Z")];
  const source: CertificateSource = {
    kind: "secret",
    everyMs: 7,
    read: async () => pairs.shift() ?? Promise.reject(new Error("away")),
  };
  const followed = followCertificate(source, { namespace: "db", name: "sluice-tls" });
  assert.equal(followed.source?.everyMs, 7);
  assert.equal(followed.presented?.(), undefined);
  await followed.source.read();
  const first = followed.presented?.();
  assert.deepEqual([first?.namespace, first?.object], ["db", "sluice-tls"]);
  assert.equal(first?.notAfterMs, Date.parse("2026-12-01T00:00:00.000Z"));
  assert.ok((first?.notBeforeMs ?? 0) < Date.now());
  await followed.source.read();
  await assert.rejects(followed.source.read());
  assert.equal(followed.presented?.()?.notAfterMs, Date.parse("2027-12-01T00:00:00.000Z"), "it is presented on");
});

test("of a certificate in a file the status has the path, and of a process without a TLS port none", async () => {
  const pair = await pairOf("2026-12-01T00:00:00.000Z");
  const followed = followCertificate({ kind: "files", everyMs: 1, read: async () => pair }, "/tls/tls.crt");
  await followed.source?.read();
  assert.deepEqual([followed.presented?.()?.object, followed.presented?.()?.namespace], ["/tls/tls.crt", ""]);
  assert.deepEqual(followCertificate(undefined, "x"), { source: undefined, presented: undefined });
});

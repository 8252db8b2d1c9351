import assert from "node:assert/strict";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { test } from "node:test";
import { createSecureContext } from "node:tls";
import { generateKeys, issue } from "../../../../functions/shared/certificates/issue.ts";
import {
  dataOf,
  dataOfPromotion,
  parseCertificates,
  splitPem,
} from "../../../../functions/shared/certificates/secret.ts";
import type { SecretObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { createAuthority } from "../../../support/certificates.ts";

const keys = await generateKeys();
const beginsMs = Date.parse("2026-11-21T12:00:00.400Z");
const subject = {
  organisation: 'Läden, Söhne + "Co", O=x',
  dnsNames: ["rollout-operator.mimir.svc", "localhost"],
  notBeforeMs: beginsMs,
  notAfterMs: beginsMs + 365 * 24 * 3_600_000,
};
const issued = await issue(keys, subject);
const other = await issue(keys, { ...subject, notBeforeMs: beginsMs + 1_000 });

function secretOf(data: object): SecretObject {
  return { metadata: { name: "certificate", uid: "1", resourceVersion: "1" }, data: data as Record<string, string> };
}

function encode(text: string): string {
  return Buffer.from(text).toString("base64");
}

test("an issued certificate has a chain that verifies, P-256 keys, and rollout-operator's names and usages", () => {
  const [ca, leaf] = [new X509Certificate(issued.ca), new X509Certificate(issued.cert)];
  assert.ok(ca.ca && ca.verify(ca.publicKey) && ca.checkIssued(ca));
  assert.ok(!leaf.ca && leaf.verify(ca.publicKey) && leaf.checkIssued(ca));
  for (const { publicKey } of [ca, leaf]) {
    assert.deepEqual(
      [publicKey.asymmetricKeyType, publicKey.asymmetricKeyDetails],
      ["ec", { namedCurve: "prime256v1" }],
    );
  }
  const organisation = 'O=Läden\\, Söhne \\+ \\"Co\\"\\, O=x';
  assert.deepEqual([ca.subject, leaf.issuer], [organisation, organisation]);
  assert.equal(leaf.subject, `CN=rollout-operator\n${organisation}`);
  assert.equal(leaf.subjectAltName, "DNS:rollout-operator.mimir.svc, DNS:localhost");
  // clientAuth and serverAuth.
  for (const { keyUsage } of [ca, leaf]) assert.deepEqual(keyUsage, ["1.3.6.1.5.5.7.3.2", "1.3.6.1.5.5.7.3.1"]);
  assert.equal(leaf.validFromDate.toISOString(), "2026-11-21T12:00:00.000Z", "not later than requested");
  assert.equal(leaf.validToDate.toISOString(), "2027-11-21T12:00:00.000Z");
  assert.match(issued.key, /^-----BEGIN PRIVATE KEY-----\n/, "PKCS #8");
  createSecureContext({ cert: issued.cert, key: issued.key });
});

test("two authorities have different serial numbers, although they have the same name", () => {
  const [one, two] = [new X509Certificate(issued.ca), new X509Certificate(other.ca)];
  assert.notEqual(one.serialNumber, two.serialNumber);
  for (const { serialNumber } of [one, two]) assert.match(serialNumber, /^[0-9A-F]{20,40}$/, "large, and not below 0");
});

test("a bundle with a megabyte of unfinished certificates is read at once, and the certificate before them is found", () => {
  const begins = "-----BEGIN CERTIFICATE-----\n";
  const endless = begins.repeat(2 ** 20 / begins.length);
  const startedMs = performance.now();
  assert.deepEqual(splitPem(`${issued.ca}${endless}`), [issued.ca]);
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs < 1_000, `${tookMs} ms`);
});

test("what is stored is read back unchanged", () => {
  const { presented, next, previous } = parseCertificates(
    secretOf({ ...dataOf("presented", issued), ...dataOf("next", other), "previous-ca": encode(other.ca + issued.ca) }),
  );
  assert.deepEqual({ ca: presented?.ca, cert: presented?.cert, key: presented?.key }, issued);
  assert.deepEqual(presented?.dnsNames, subject.dnsNames);
  assert.equal(presented?.notBeforeMs, Date.parse("2026-11-21T12:00:00Z"));
  assert.equal(presented?.notAfterMs, Date.parse("2027-11-21T12:00:00Z"));
  assert.equal(next?.cert, other.cert);
  const authority = (ca: string) => ({ ca, notAfterMs: Date.parse("2027-11-21T12:00:00Z") });
  assert.deepEqual(previous, [authority(other.ca), authority(issued.ca)]);
});

test("an older RSA pair in rollout-operator's form is read and presented until its renewal", async () => {
  const authority = await createAuthority("RSA-4096");
  const { cert, key: pkcs8 } = await authority.issue("rollout-operator.mimir.svc");
  const key = createPrivateKey(pkcs8).export({ type: "pkcs1", format: "pem" }) as string;
  assert.match(key, /^-----BEGIN RSA PRIVATE KEY-----\n/);
  const data = { ...dataOf("presented", { ca: authority.cert, cert, key }), ...dataOf("next", issued) };
  const { presented, next } = parseCertificates(secretOf(data));
  assert.deepEqual([presented?.key, presented?.cert, next?.key], [key, cert, issued.key]);
  createSecureContext({ cert, key });
});

test("a promotion empties the next pair in the same patch", () => {
  const { next } = parseCertificates(secretOf({ ...dataOf("presented", issued), ...dataOf("next", other) }));
  assert.ok(next !== undefined);
  assert.deepEqual(dataOfPromotion(next, [{ ca: issued.ca, notAfterMs: 0 }]), {
    ca: encode(other.ca),
    cert: encode(other.cert),
    key: encode(other.key),
    "next-ca": null,
    "next-cert": null,
    "next-key": null,
    "previous-ca": encode(issued.ca),
  });
  assert.equal((dataOfPromotion(next, []) as { "previous-ca": unknown })["previous-ca"], null);
});

test("an empty Secret has no pair, and the error about a broken one says what is wrong", async () => {
  assert.equal(parseCertificates(secretOf({})).presented, undefined);
  assert.equal(parseCertificates(secretOf({ ca: "", cert: encode(" \n"), "tls.crt": "eA==" })).presented, undefined);
  const data = dataOf("presented", issued) as { ca: string; cert: string; key: string };
  const foreign = await createAuthority();
  for (const [changed, reason] of [
    [{ key: "" }, /^its data key key is missing$/],
    [{ ca: "" }, /^its data key ca is missing$/],
    [
      { cert: encode("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----") },
      /key cert holds no certificate in PEM/,
    ],
    [{ ca: encode("x") }, /key ca holds no certificate in PEM/],
    [{ ca: encode(foreign.cert) }, /the certificate in cert was not signed by the one in ca/],
    [{ key: encode((await foreign.issue()).key) }, /key key holds no key of the certificate in cert/],
    [{ key: encode("x") }, /key key holds no key of the certificate in cert/],
  ] as const) {
    assert.throws(() => parseCertificates(secretOf({ ...data, ...changed })), { message: reason });
  }
});

test("a next certificate and old authorities count as none if they do not parse", () => {
  const data = { ...dataOf("presented", issued), ...dataOf("next", other), "next-key": encode(issued.cert) };
  const { next, previous } = parseCertificates(secretOf({ ...data, "previous-ca": encode(`x\n${issued.ca}`) }));
  assert.deepEqual([next, previous.length], [undefined, 1]);
});

test("a certificate is compared as the same text, however its PEM is wrapped and whatever surrounds it", () => {
  const [, ...lines] = issued.ca.trim().split("\n");
  const unwrapped = `-----BEGIN CERTIFICATE-----\n${lines.slice(0, -1).join("")}\n-----END CERTIFICATE-----`;
  assert.deepEqual(splitPem(`# ours\r\n${issued.ca.replaceAll("\n", "\r\n")}${unwrapped}`), [issued.ca, issued.ca]);
  assert.deepEqual(splitPem(issued.ca), [issued.ca]);
  assert.deepEqual(splitPem("nothing"), []);
});

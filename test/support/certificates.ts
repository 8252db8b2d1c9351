/** Authorities and certificates for tests, made when they are needed: the tree holds nothing that expires. */
import "reflect-metadata";
import type { webcrypto } from "node:crypto";
import {
  BasicConstraintsExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";

/** Kinds of keys. rollout-operator makes RSA keys, and older versions of Sluice did. */
const algorithms = {
  "P-256": { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" },
  "RSA-4096": {
    ...{ name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
    ...{ modulusLength: 4096, publicExponent: new Uint8Array([1, 0, 1]) },
  },
} as const;
export type KeyKind = keyof typeof algorithms;

export interface IssuedPair {
  /** Certificate in PEM. */
  readonly cert: string;
  readonly key: string;
  readonly serialNumber: string;
}

export interface Authority {
  /** Certificate in PEM. */
  readonly cert: string;
  /** Issues a certificate for 127.0.0.1, localhost and these names. */
  issue(...names: readonly string[]): Promise<IssuedPair>;
}

function generateKeys(kind: KeyKind): Promise<webcrypto.CryptoKeyPair> {
  return crypto.subtle.generateKey(algorithms[kind], true, ["sign", "verify"]) as Promise<webcrypto.CryptoKeyPair>;
}

/**
 * Creates an authority whose certificates are valid for an hour.
 *
 * @param startsInMs when that hour begins. Default: a minute ago
 */
export async function createAuthority(kind: KeyKind = "P-256", startsInMs = -60_000): Promise<Authority> {
  const keys = await generateKeys(kind);
  const signing = algorithms[kind];
  let issued = 1;
  const startMs = Date.now() + startsInMs;
  const valid = { notBefore: new Date(startMs), notAfter: new Date(startMs + 3_660_000) };
  const name = "CN=sluice-test-authority";
  const usages = new KeyUsagesExtension(KeyUsageFlags.keyCertSign, true);
  const extensions = [new BasicConstraintsExtension(true, undefined, true), usages];
  const root = { ...valid, name, keys, extensions, serialNumber: "01", signingAlgorithm: signing };
  const authority = await X509CertificateGenerator.createSelfSigned(root);
  return {
    cert: authority.toString("pem"),
    async issue(...names) {
      const leaf = await generateKeys(kind);
      issued += 1;
      const serialNumber = issued.toString(16).padStart(2, "0");
      const certificate = await X509CertificateGenerator.create({
        ...valid,
        serialNumber,
        subject: "CN=sluice-test",
        issuer: name,
        publicKey: leaf.publicKey,
        signingKey: keys.privateKey,
        signingAlgorithm: signing,
        extensions: [
          new SubjectAlternativeNameExtension([
            { type: "ip", value: "127.0.0.1" },
            ...["localhost", ...names].map((value) => ({ type: "dns" as const, value })),
          ]),
        ],
      });
      const pkcs8 = await crypto.subtle.exportKey("pkcs8", leaf.privateKey);
      return { cert: certificate.toString("pem"), key: PemConverter.encode(pkcs8, "PRIVATE KEY"), serialNumber };
    },
  };
}

import { KeyObject, type webcrypto } from "node:crypto";
import { type Generation, splitPem } from "./secret.ts";

/** The keys of an authority and of its leaf. */
export interface Keys {
  readonly authority: webcrypto.CryptoKeyPair;
  readonly leaf: webcrypto.CryptoKeyPair;
}

/**
 * Each handshake signs with the leaf's key before the client has shown who it is. With RSA-4096 a handshake costs the server 3.7
 * times as much (`npx node test/bench/handshake.ts`).
 * The authority has the same kind: its key signs once and is forgotten, so that a stronger one than the leaf's protects nothing.
 */
const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

export async function generateKeys(): Promise<Keys> {
  const generate = () =>
    crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]) as Promise<webcrypto.CryptoKeyPair>;
  const [authority, leaf] = await Promise.all([generate(), generate()]);
  return { authority, leaf };
}

export interface Subject {
  readonly organisation: string;
  readonly dnsNames: readonly string[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** Signs an authority of its own and a leaf: names, usages and the form of the certificates are rollout-operator's. */
export async function issue(keys: Keys, subject: Subject): Promise<Pick<Generation, "ca" | "cert" | "key">> {
  // The library needs the polyfill first. Together they take 22 MB, so that only a process that issues loads them.
  await import("reflect-metadata");
  const x509 = await import("@peculiar/x509");
  const { authority, leaf } = keys;
  // In a plain string the library would parse quotes and escapes.
  const organisation = { O: [{ utf8String: subject.organisation }] };
  const issuer = new x509.Name([organisation]);
  const usages = new x509.ExtendedKeyUsageExtension([
    x509.ExtendedKeyUsage.clientAuth,
    x509.ExtendedKeyUsage.serverAuth,
  ]);
  const signs = x509.KeyUsageFlags.digitalSignature;
  const shared = {
    // A certificate has whole seconds. They are rounded down, so that no clock is before them.
    notBefore: new Date(subject.notBeforeMs),
    notAfter: new Date(subject.notAfterMs),
    signingAlgorithm: algorithm,
  };
  const ca = await x509.X509CertificateGenerator.createSelfSigned({
    ...shared,
    name: issuer,
    keys: authority,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(signs | x509.KeyUsageFlags.keyCertSign, true),
      usages,
      await x509.SubjectKeyIdentifierExtension.create(authority.publicKey),
    ],
  });
  const cert = await x509.X509CertificateGenerator.create({
    ...shared,
    subject: new x509.Name([{ CN: [{ utf8String: "rollout-operator" }] }, organisation]),
    issuer,
    publicKey: leaf.publicKey,
    signingKey: authority.privateKey,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(signs, true),
      usages,
      new x509.SubjectAlternativeNameExtension(subject.dnsNames.map((value) => ({ type: "dns", value }))),
      // Authorities have the same name. By these identifiers a client finds the right one in a bundle.
      await x509.AuthorityKeyIdentifierExtension.create(authority.publicKey),
    ],
  });
  // PKCS #8: Go's tls.X509KeyPair, by which rollout-operator reads it, and OpenSSL accept it for keys of either kind.
  const key = KeyObject.from(leaf.privateKey).export({ type: "pkcs8", format: "pem" }) as string;
  return { ca: inOneForm(ca.toString("pem")), cert: inOneForm(cert.toString("pem")), key };
}

function inOneForm(pem: string): string {
  return splitPem(pem).join("");
}

/**
 * The certificate of the TLS port: how one is made, and the Secret that all replicas share it through.
 *
 * An authority signs one leaf, and then its key is forgotten: nobody can sign a second leaf, and there is no key to steal.
 */
import { createPrivateKey, KeyObject, type webcrypto, X509Certificate } from "node:crypto";
import type { ObjectKey, SecretObject } from "../kubernetes/cluster.ts";
import { isObjectName } from "./names.ts";
import { parseBoolean, parseDuration, setting } from "./settings.ts";

/** Where rollout-operator keeps its certificate unless told otherwise. */
export const usualSecretName = "rollout-operator-self-signed-certificate";

/** Ten years. */
const longestLifetimeMs = 87_600 * 3_600_000;

/** The settings that make {@link CertificateSettings}. */
export const certificateSettings = {
  tlsSecretName: setting<string>({
    name: "TLS_SECRET_NAME",
    fallback: usualSecretName,
    says: "Secret with the self-signed certificate; in the namespace that is served, or in the pod's own if several are served",
    grammar: "the name of a Secret",
    parse: (text) => (isObjectName(text) ? text : undefined),
  }),
  tlsDnsName: setting<string>({
    name: "TLS_DNS_NAME",
    fallback: "",
    says: "name in the self-signed certificate, by which the API server calls Sluice; not set: rollout-operator.NAMESPACE.svc",
    grammar: "a DNS name",
    parse: (text) => (text === "" || isObjectName(text) ? text : undefined),
  }),
  tlsOrganisation: setting<string>({
    name: "TLS_ORGANISATION",
    fallback: "Grafana Labs",
    says: "organisation in the self-signed certificate, from its next renewal on",
    grammar: "1 to 64 characters",
    parse: (text) => (/^\P{C}{1,64}$/u.test(text) ? text : undefined),
  }),
  tlsCertLifetimeMs: setting<number>({
    name: "TLS_CERT_LIFETIME",
    fallback: "8760h",
    says: "how long a self-signed certificate is valid, from its next renewal on; it is renewed after two thirds of that",
    grammar: "a Go duration from 1m to 87600h",
    parse: (text) => parseDuration(text, 60_000, longestLifetimeMs),
  }),
  updateCaBundle: setting<boolean>({
    name: "UPDATE_CA_BUNDLE",
    fallback: "true",
    says: "false: Sluice writes no caBundle; whoever does must add next-ca of the Secret, and the next certificate waits until it is trusted",
    grammar: "true or false",
    parse: parseBoolean,
  }),
} as const;

export interface CertificateSettings {
  /** Its namespace is also the one that webhook configurations name in their label. */
  readonly secret: ObjectKey;
  /** What the API server calls us: the leaf is made out to it. */
  readonly dnsName: string;
  readonly organisation: string;
  readonly lifetimeMs: number;
  /** Whether webhook configurations are made to trust it; false: others do that. */
  readonly updatesBundles: boolean;
}

/** What to do with a Secret that cannot be used. It must not be deleted, because Sluice may not make a new one. */
export function howToEmpty({ namespace, name }: ObjectKey): string {
  return `empty it, and it is filled again: kubectl -n ${namespace} patch secret ${name} --type merge --patch '{"data":null}'`;
}

/** PEM, and until when it holds in milliseconds since the epoch. */
export interface Authority {
  readonly ca: string;
  readonly notAfterMs: number;
}

/** A leaf with its key and the authority that signed it, all in PEM, and known to belong together. */
export interface Generation extends Authority {
  readonly cert: string;
  readonly key: string;
  readonly dnsNames: readonly string[];
  readonly notBeforeMs: number;
}

/** What the Secret holds. */
export interface StoredCertificates {
  /** What is shown to those who connect; undefined where the Secret is empty. */
  readonly presented: Generation | undefined;
  /** What will be shown once everybody trusts its authority. One that does not parse counts as none, and is made again. */
  readonly next: Generation | undefined;
  /** Authorities of leaves that were presented before. */
  readonly previous: readonly Authority[];
}

/** `ca`, `cert` and `key` are rollout-operator's, which is to find its own Secret again when it comes back. */
const dataKeys = { presented: ["ca", "cert", "key"], next: ["next-ca", "next-cert", "next-key"] } as const;
const previousKey = "previous-ca";

/**
 * Reads the Secret.
 *
 * @throws Error where the leaf that is to be presented does not parse or does not fit its key or its authority, with which
 * data key is wrong.
 */
export function parseCertificates({ data = {} }: SecretObject): StoredCertificates {
  const isEmpty = dataKeys.presented.every((name) => textOf(data, name).trim() === "");
  let next: Generation | undefined;
  try {
    next = parseGeneration(data, dataKeys.next);
  } catch {
    next = undefined;
  }
  const previous = splitPem(textOf(data, previousKey)).flatMap((ca) => {
    const certificate = parseCertificate(ca);
    return certificate === undefined ? [] : [{ ca, notAfterMs: certificate.validToDate.getTime() }];
  });
  return { presented: isEmpty ? undefined : parseGeneration(data, dataKeys.presented), next, previous };
}

const [pemBegins, pemEnds] = ["-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"];

/**
 * The certificates of a bundle, each as PEM in one form, so that they can be compared as texts. Each letter is looked at once:
 * anybody may write a bundle, and one that begins again and again, and never ends, is read as fast as any other.
 */
export function splitPem(bundle: string): string[] {
  const blocks: string[] = [];
  for (let from = 0; ; ) {
    const begins = bundle.indexOf(pemBegins, from);
    const ends = begins < 0 ? -1 : bundle.indexOf(pemEnds, begins + pemBegins.length);
    if (ends < 0) return blocks;
    const lines = bundle.slice(begins + pemBegins.length, ends).split("\n");
    const base64 = lines.map((line) => line.trim()).join("");
    blocks.push(`${pemBegins}\n${base64.replaceAll(/(.{64})(?=.)/g, "$1\n")}\n${pemEnds}\n`);
    from = ends + pemEnds.length;
  }
}

/** What the data of the Secret become when a generation is stored as the one that is presented, or as the next one. */
export function dataOf(as: "presented" | "next", { ca, cert, key }: Pick<Generation, "ca" | "cert" | "key">): object {
  const [caKey, certKey, keyKey] = dataKeys[as];
  return { [caKey]: encode(ca), [certKey]: encode(cert), [keyKey]: encode(key) };
}

/** What they become when the next generation takes the place of the one that was presented: a patch of the data. */
export function dataOfPromotion(next: Generation, previous: readonly Authority[]): object {
  const emptied = Object.fromEntries(dataKeys.next.map((name) => [name, null]));
  const before = previous.length === 0 ? null : encode(previous.map(({ ca }) => ca).join(""));
  return { ...dataOf("presented", next), ...emptied, [previousKey]: before };
}

function parseGeneration(
  data: NonNullable<SecretObject["data"]>,
  names: readonly [string, string, string],
): Generation {
  const [caKey, certKey, keyKey] = names;
  for (const name of names) {
    if (textOf(data, name).trim() === "") throw new Error(`its data key ${name} is missing`);
  }
  const [ca = ""] = splitPem(textOf(data, caKey));
  const authority = parseCertificate(ca);
  if (authority === undefined) throw new Error(`its data key ${caKey} holds no certificate in PEM`);
  const cert = textOf(data, certKey);
  const leaf = parseCertificate(cert);
  if (leaf === undefined) throw new Error(`its data key ${certKey} holds no certificate in PEM`);
  if (!leaf.verify(authority.publicKey))
    throw new Error(`the certificate in ${certKey} was not signed by the one in ${caKey}`);
  const key = textOf(data, keyKey);
  if (!isKeyOf(leaf, key)) throw new Error(`its data key ${keyKey} holds no key of the certificate in ${certKey}`);
  return {
    ca,
    cert,
    key,
    dnsNames: dnsNamesOf(leaf),
    notBeforeMs: Math.max(leaf.validFromDate.getTime(), authority.validFromDate.getTime()),
    notAfterMs: Math.min(leaf.validToDate.getTime(), authority.validToDate.getTime()),
  };
}

function textOf(data: NonNullable<SecretObject["data"]>, name: string): string {
  return Buffer.from(data[name] ?? "", "base64").toString("utf8");
}

function encode(text: string): string {
  return Buffer.from(text).toString("base64");
}

function parseCertificate(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

function isKeyOf(leaf: X509Certificate, key: string): boolean {
  try {
    return leaf.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

function dnsNamesOf(leaf: X509Certificate): string[] {
  const names = (leaf.subjectAltName ?? "").split(", ");
  return names.filter((name) => name.startsWith("DNS:")).map((name) => name.slice("DNS:".length));
}

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
  // It wants the polyfill to be there before it. Together they take 22 MB: only a process that issues loads them.
  await import("reflect-metadata");
  const x509 = await import("@peculiar/x509");
  const { authority, leaf } = keys;
  // Given as a plain string, the library would look for quotes and escapes in it.
  const organisation = { O: [{ utf8String: subject.organisation }] };
  const issuer = new x509.Name([organisation]);
  const usages = new x509.ExtendedKeyUsageExtension([
    x509.ExtendedKeyUsage.clientAuth,
    x509.ExtendedKeyUsage.serverAuth,
  ]);
  const signs = x509.KeyUsageFlags.digitalSignature;
  const shared = {
    // The form has whole seconds. Rounded down, so that no clock is before it.
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
      // Authorities have the same name; a client finds the right one in a bundle by these.
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

/**
 * The certificate of the TLS port: how one is made, and the Secret that all replicas share it through.
 *
 * An authority signs one leaf, and then its key is forgotten: no process can sign a second leaf, and there is no key to steal.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import type { ObjectKey, SecretObject } from "../kubernetes/cluster.ts";

/** What to do with a Secret that cannot be used. It must not be deleted, because Sluice may not make a new one. */
export function howToEmpty({ namespace, name }: ObjectKey): string {
  return `empty it, and it is filled again: kubectl -n ${namespace} patch secret ${name} --type merge --patch '{"data":null}'`;
}

/** PEM, and the end of its validity in milliseconds since the epoch. */
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
  /** The certificate that the TLS port presents; undefined if the Secret is empty. */
  readonly presented: Generation | undefined;
  /** The certificate to present once all clients trust its authority. One that does not parse counts as none, and is replaced. */
  readonly next: Generation | undefined;
  /** Authorities of leaves that were presented before. */
  readonly previous: readonly Authority[];
}

/** `ca`, `cert` and `key` are rollout-operator's, so that it finds its own Secret when it comes back. */
const dataKeys = { presented: ["ca", "cert", "key"], next: ["next-ca", "next-cert", "next-key"] } as const;
const previousKey = "previous-ca";

/**
 * Reads the Secret.
 *
 * @throws Error if the leaf to be presented does not parse or does not fit its key or its authority, with the data key at
 * fault.
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
 * The certificates of a bundle, each as PEM in one form, so that they can be compared as texts. Each character is read once,
 * because other accounts may write a bundle of many beginnings without an end.
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

/** A patch of the data that stores a generation as the presented one, or as the next one. */
export function dataOf(as: "presented" | "next", { ca, cert, key }: Pick<Generation, "ca" | "cert" | "key">): object {
  const [caKey, certKey, keyKey] = dataKeys[as];
  return { [caKey]: encode(ca), [certKey]: encode(cert), [keyKey]: encode(key) };
}

/** A patch of the data by which the next generation replaces the presented one. */
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

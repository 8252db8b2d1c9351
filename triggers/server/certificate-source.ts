/**
 * The certificate and key that the TLS port presents: two files, or the Secret that rotate-certificate keeps. With
 * `TLS_CLIENT_CA_FILE` also the authorities whose clients may post reviews. All are read again and again, because other
 * programs renew them.
 */

import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { isDeepStrictEqual } from "node:util";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { showValue, unshown } from "../../functions/shared/base/escape-control.ts";
import { parseReviewKeys, type ReviewKeys } from "../../functions/shared/certificates/review-key.ts";
import { type Generation, howToEmpty, parseCertificates } from "../../functions/shared/certificates/secret.ts";
import { type Cluster, hasCode, type ObjectKey, type SecretObject } from "../../functions/shared/kubernetes/cluster.ts";

/** A certificate with its chain, and its key, both in PEM. The key is known to be that of the certificate. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
  /** For the log: whom it is for, until when. */
  readonly subject: string;
  readonly notAfter: string;
  /** Authorities, in PEM, whose clients may post reviews; absent if the port asks no client for a certificate. */
  readonly clientAuthorities?: string;
  /** What API servers show; absent where the pair comes from files. */
  readonly reviewKeys?: ReviewKeys;
}

/** Where a pair comes from. */
export interface CertificateSource {
  /** `files` or `secret`; for the log and for metrics. */
  readonly kind: string;
  /** How long to wait between two reads, in milliseconds. */
  readonly everyMs: number;
  /** Rejects with a message where there is no pair, or one that is broken or has expired. */
  read(): Promise<KeyPair>;
}

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** A Secret that this process cannot use, and that only its owner can correct. */
export class UnusableSecretError extends Error {}

export interface Patience {
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** There is no pair; reported once for each reason. */
  onTrouble(message: string): void;
}

export interface CertificateWatch extends Patience {
  /** What was read at the start. */
  readonly first: KeyPair;
  /** Another pair is there, and it is whole. Content is compared, not times: a volume of a Secret swaps links. */
  onPair(pair: KeyPair): void;
}

const everyMs = 1_000;
const longestCheckMs = 10_000;
/** Twenty reads fit between a renewal and the expiry of the old certificate, so that the port presents no expired one. */
const checksPerLifetime = 60;

/** The pair in two files. */
export function certificateInFiles(files: CertificateFiles): CertificateSource {
  return { kind: "files", everyMs, read: () => readKeyPair(files) };
}

/** The pair that a Secret marks as presented. `lifetimeMs`: lifetime of new ones. */
export function certificateInSecret(cluster: Cluster, key: ObjectKey, lifetimeMs: number): CertificateSource {
  return {
    kind: "secret",
    everyMs: Math.min(longestCheckMs, Math.max(everyMs, lifetimeMs / checksPerLifetime)),
    read: () => readSecret(cluster, key),
  };
}

/** The pair in the files. Throws an Error that names the wrong file and the mistake. */
export async function readKeyPair({ certFile, keyFile }: CertificateFiles): Promise<KeyPair> {
  const cert = await readText("TLS_CERT_FILE", certFile);
  const key = await readText("TLS_KEY_FILE", keyFile);
  let leaf: X509Certificate;
  try {
    leaf = new X509Certificate(cert);
  } catch (error) {
    throw new Error(`TLS_CERT_FILE ${certFile} holds no certificate in PEM: ${messageOf(error)}`);
  }
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    throw new Error(`TLS_KEY_FILE ${keyFile} holds no key of the certificate in ${certFile}: ${messageOf(error)}`);
  }
  const subject = leaf.subjectAltName ?? leaf.subject ?? "";
  return { cert, key, subject, notAfter: leaf.validToDate.toISOString() };
}

async function readSecret(cluster: Cluster, key: ObjectKey): Promise<KeyPair> {
  const path = `${key.namespace}/${key.name}`;
  let secret: SecretObject;
  try {
    secret = await cluster.get("secrets", key);
  } catch (error) {
    if (!hasCode(error, 404)) throw new Error(`Secret ${path} cannot be read: ${messageOf(error)}`);
    throw new Error(`there is no Secret ${path} yet: the manifests have it empty, and rotate-certificate fills it`);
  }
  let presented: Generation | undefined;
  try {
    presented = parseCertificates(secret).presented;
  } catch (error) {
    throw new UnusableSecretError(`Secret ${path}: ${messageOf(error)}; ${howToEmpty(key)}`);
  }
  if (presented === undefined) throw new Error(`Secret ${path} is empty: rotate-certificate fills it`);
  const { cert, dnsNames, notAfterMs } = presented;
  const notAfter = new Date(notAfterMs).toISOString();
  if (notAfterMs <= cluster.serverTimeMs()) {
    throw new Error(`the certificate in Secret ${path} expired at ${notAfter}: rotate-certificate renews it`);
  }
  const subject = dnsNames.map((name) => `DNS:${name}`).join(", ");
  return { cert, key: presented.key, subject, notAfter, reviewKeys: parseReviewKeys(secret) };
}

/**
 * Waits until there is a pair, or until the signal is given: then undefined.
 *
 * @throws UnusableSecretError if waiting cannot help.
 */
export async function awaitCertificate(
  source: CertificateSource,
  { sleep, onTrouble }: Patience,
  stopped: AbortSignal,
): Promise<KeyPair | undefined> {
  let lastTrouble = "";
  while (!stopped.aborted) {
    try {
      return await source.read();
    } catch (error) {
      if (error instanceof UnusableSecretError) throw error;
      const trouble = messageOf(error);
      if (trouble !== lastTrouble) onTrouble(trouble);
      lastTrouble = trouble;
    }
    await sleep(everyMs, stopped);
  }
  return undefined;
}

/** Reads the source again and again until the signal is given. Resolves then, and never rejects. */
export async function watchCertificate(
  source: CertificateSource,
  watch: CertificateWatch,
  stopped: AbortSignal,
): Promise<void> {
  let served = watch.first;
  let seen = "";
  let lastTrouble = "";
  while (!stopped.aborted) {
    await watch.sleep(source.everyMs, stopped);
    if (stopped.aborted) return;
    try {
      const pair = await source.read();
      seen = "";
      lastTrouble = "";
      if (isSamePair(pair, served) && isDeepStrictEqual(pair.reviewKeys, served.reviewKeys)) continue;
      watch.onPair(pair);
      served = pair;
    } catch (error) {
      const trouble = messageOf(error);
      // One file is written after the other, so that only an error at two reads in a row is reported.
      if (trouble === seen && trouble !== lastTrouble) {
        watch.onTrouble(`${trouble}; the certificate in use is kept until ${served.notAfter}`);
        lastTrouble = trouble;
      }
      seen = trouble;
    }
  }
}

/** True if clients see the same certificate and the same authorities by TLS. */
export function isSamePair(one: KeyPair, other: KeyPair): boolean {
  return one.cert === other.cert && one.key === other.key && one.clientAuthorities === other.clientAuthorities;
}

const pem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** The file's certificates, in PEM. Throws an Error with the mistake. */
export async function readClientAuthorities(file: string): Promise<string> {
  const text = await readText("TLS_CLIENT_CA_FILE", file);
  const certificates = text.match(pem) ?? [];
  // Without a certificate here, OpenSSL would accept no client, or the clients of the authorities that the machine trusts.
  if (certificates.length === 0) throw new Error(`TLS_CLIENT_CA_FILE ${file} holds no certificate in PEM`);
  for (const certificate of certificates) {
    try {
      new X509Certificate(certificate);
    } catch (error) {
      throw new Error(`TLS_CLIENT_CA_FILE ${file} holds a certificate that cannot be read: ${messageOf(error)}`);
    }
  }
  return `${certificates.join("\n")}\n`;
}

/**
 * The same source, whose pairs also have the client authorities. While the file is wrong, the earlier authorities stay, so that
 * the server's own certificate is still renewed. `onTrouble` is called once for each reason.
 */
export function withClientAuthorities(
  source: CertificateSource,
  { file, first, onTrouble }: { file: string; first: string; onTrouble(message: string): void },
): CertificateSource {
  let known = first;
  let lastTrouble = "";
  return {
    ...source,
    async read(): Promise<KeyPair> {
      const pair = await source.read();
      try {
        known = await readClientAuthorities(file);
        lastTrouble = "";
      } catch (error) {
        const trouble = messageOf(error);
        if (trouble !== lastTrouble) onTrouble(`${trouble}; the authorities from before are kept`);
        lastTrouble = trouble;
      }
      return { ...pair, clientAuthorities: known };
    },
  };
}

async function readText(setting: string, path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    // A key in place of its path would be in the message.
    const why = showValue(path) === unshown ? `its path is ${unshown}` : messageOf(error);
    throw new Error(`${setting} cannot be read: ${why}`);
  }
}

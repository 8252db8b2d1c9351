/** The certificate and key that the TLS port presents: two files, read again and again, for others renew them. */
import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";

/** A certificate, with those that signed it, and its key, both in PEM. They are known to belong together. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
  /** For the log: whom it is for, until when. */
  readonly subject: string;
  readonly notAfter: string;
}

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

export interface CertificateWatch extends CertificateFiles {
  /** What was read at the start. */
  readonly first: KeyPair;
  /** How long to wait between two looks. Content is compared, not times: a volume of a Secret swaps links. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Another pair is there, and it is whole. */
  onPair(pair: KeyPair): void;
  /** The files hold no pair; said once for each thing that is wrong with them. */
  onTrouble(sentence: string): void;
}

const everyMs = 1_000;

/** The pair in the files. Throws an Error that says which file is wrong, and how. */
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

/** Looks at the files until the signal is given. Resolves then, and never rejects. */
export async function watchCertificate(watch: CertificateWatch, stopped: AbortSignal): Promise<void> {
  let served = watch.first;
  let seen = "";
  let said = "";
  while (!stopped.aborted) {
    await watch.sleep(everyMs, stopped);
    if (stopped.aborted) return;
    try {
      const pair = await readKeyPair(watch);
      seen = "";
      said = "";
      if (pair.cert === served.cert && pair.key === served.key) continue;
      watch.onPair(pair);
      served = pair;
    } catch (error) {
      const trouble = messageOf(error);
      // One file is written after the other: only what is wrong at two looks in a row is worth a word.
      if (trouble === seen && trouble !== said) {
        watch.onTrouble(`${trouble}; the certificate from before is kept until ${served.notAfter}`);
        said = trouble;
      }
      seen = trouble;
    }
  }
}

async function readText(setting: string, path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new Error(`${setting} cannot be read: ${messageOf(error)}`);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

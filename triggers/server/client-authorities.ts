/** The authorities of TLS_CLIENT_CA_FILE, whose clients may post reviews. The file is read as often as the certificate. */

import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import type { CertificateSource, KeyPair } from "./certificate-source.ts";

const pem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** The file's certificates, in PEM. Throws an Error that says what is wrong with it. */
export async function readClientAuthorities(file: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    throw new Error(`TLS_CLIENT_CA_FILE cannot be read: ${messageOf(error)}`);
  }
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
 * The same source, whose pairs also hold the client authorities. While the file is wrong, the authorities of before stay, so that
 * the server's own certificate is renewed all the same. `onTrouble` is called once for each reason.
 */
export function withClientAuthorities(
  source: CertificateSource,
  { file, first, onTrouble }: { file: string; first: string; onTrouble(sentence: string): void },
): CertificateSource {
  let known = first;
  let said = "";
  return {
    ...source,
    async read(): Promise<KeyPair> {
      const pair = await source.read();
      try {
        known = await readClientAuthorities(file);
        said = "";
      } catch (error) {
        const trouble = messageOf(error);
        if (trouble !== said) onTrouble(`${trouble}; the authorities from before are kept`);
        said = trouble;
      }
      return { ...pair, clientAuthorities: known };
    },
  };
}

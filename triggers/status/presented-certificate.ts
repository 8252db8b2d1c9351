/** The certificate that the TLS port presents, as the status shows it. */
import { X509Certificate } from "node:crypto";
import type { PresentedCertificate, StatusContext } from "../../functions/shared/contract/definition.ts";
import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import type { CertificateSource, KeyPair } from "../server/certificate-source.ts";

export interface FollowedCertificate {
  /** The same source. What is read through it is remembered. Undefined without a TLS port. */
  readonly source: CertificateSource | undefined;
  /** The last certificate that was read. */
  readonly presented: StatusContext["certificate"];
}

/** `where`: the file or the Secret that has the certificate. */
export function followCertificate(
  source: CertificateSource | undefined,
  where: string | ObjectKey,
): FollowedCertificate {
  if (source === undefined) return { source, presented: undefined };
  let last: { readonly cert: string; readonly shown: PresentedCertificate } | undefined;
  const read = async (): Promise<KeyPair> => {
    const pair = await source.read();
    if (pair.cert !== last?.cert) last = { cert: pair.cert, shown: describe(pair, where) };
    return pair;
  };
  return { source: { ...source, read }, presented: () => last?.shown };
}

function describe({ cert, notAfter }: KeyPair, where: string | ObjectKey): PresentedCertificate {
  const { name, namespace } = typeof where === "string" ? { name: where, namespace: "" } : where;
  const notBeforeMs = new X509Certificate(cert).validFromDate.getTime();
  return { object: name, namespace, notBeforeMs, notAfterMs: Date.parse(notAfter) };
}

/** Whose certificates are trusted when a pod is asked over https. A Role of the user's lets Sluice read them by their name. */
import { X509Certificate } from "node:crypto";
import type { AuthorityRef } from "../annotations/health.ts";
import { BoundedMap } from "../base/bounded-map.ts";
import type { PodAddress } from "../http/pod-http.ts";
import { type Cluster, ClusterError, isRightMissing, wordsOf } from "../kubernetes/cluster.ts";

/** The authorities cannot be read, or are none. */
export class NoAuthority extends Error {}

const field = "ca.crt";
/** For so long they are not read again, in milliseconds, however often pods are asked. */
const authoritiesServeMs = 10_000;
const mostKept = 1_000;

interface CachedAuthority {
  readonly atMs: number;
  readonly pem: Promise<string>;
}

type AuthorityReader = Pick<Cluster, "get" | "monotonicMs">;

const kept = new WeakMap<AuthorityReader, BoundedMap<string, CachedAuthority>>();

/** In PEM, no older than ten seconds. Throws {@link NoAuthority}. */
async function readAuthority(cluster: AuthorityReader, namespace: string, ref: AuthorityRef): Promise<string> {
  const known = kept.get(cluster) ?? new BoundedMap<string, CachedAuthority>(mostKept);
  kept.set(cluster, known);
  const path = `${namespace}/${nameOf(ref)}`;
  const before = known.get(path);
  const atMs = cluster.monotonicMs();
  if (before !== undefined && atMs - before.atMs < authoritiesServeMs) return before.pem;
  const pem = read(cluster, namespace, ref);
  known.set(path, { atMs, pem });
  // The next call reads again what was wrong, because a user mends it.
  pem.catch(() => known.delete(path));
  return pem;
}

/** The same address, with the authorities that are trusted there over https. Throws {@link NoAuthority}. */
export async function trust(
  cluster: AuthorityReader,
  address: PodAddress,
  ref: AuthorityRef | undefined,
): Promise<PodAddress> {
  if (ref === undefined || address.scheme !== "https") return address;
  return { ...address, authorities: await readAuthority(cluster, address.namespace, ref) };
}

/** As an annotation names it. */
export function nameOf({ resource, name }: AuthorityRef): string {
  return `${resource === "secrets" ? "secret" : "configmap"}/${name}`;
}

/** What to do where a pod's certificate is of an authority that is not trusted. `key`: the annotation that names one. */
export function untrustedWords(key: string, ref: AuthorityRef | undefined): string {
  return ref === undefined
    ? `no authority that is trusted has signed its certificate: write secret/NAME or configmap/NAME, whose ${field} holds its authority, into ${key}`
    : `the authority in ${field} of ${nameOf(ref)}, which ${key} names, has not signed its certificate: put the one there that has`;
}

async function read(cluster: AuthorityReader, namespace: string, ref: AuthorityRef): Promise<string> {
  const { resource, name } = ref;
  const what = nameOf(ref);
  let text: string | undefined;
  try {
    if (resource === "secrets") {
      const { data } = await cluster.get("secrets", { namespace, name });
      text = data?.[field] && Buffer.from(data[field], "base64").toString("utf8");
    } else {
      const { data } = await cluster.get("configmaps", { namespace, name });
      text = data?.[field];
    }
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    const grant = "; a Role must give Sluice the right to get it by its name";
    throw new NoAuthority(`${what} could not be read: ${wordsOf(error)}${isRightMissing(error) ? grant : ""}`);
  }
  if (!text) throw new NoAuthority(`${what} has no ${field}, which is to hold an authority's certificate in PEM`);
  return certificatesIn(text, what);
}

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** The certificates alone: no caller may see a key beside them. */
function certificatesIn(text: string, what: string): string {
  const found = text.match(certificate) ?? [];
  if (found.length === 0) throw new NoAuthority(`${field} of ${what} holds no certificate in PEM`);
  try {
    for (const one of found) new X509Certificate(one);
  } catch {
    throw new NoAuthority(`${field} of ${what} holds a certificate that Sluice cannot read`);
  }
  return `${found.join("\n")}\n`;
}

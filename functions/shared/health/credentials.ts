/**
 * The credentials of a call: the user and the password of a Secret, or its token, and the certificates that are trusted over
 * https. A Role of the user lets Sluice read either by its name.
 */
import { X509Certificate } from "node:crypto";
import type { AuthorityRef } from "../annotations/health.ts";
import { BoundedMap } from "../base/bounded-map.ts";
import type { PodAddress } from "../http/pod-http.ts";
import { apiMessage, type Cluster, ClusterError, isRightMissing, type ObjectKey } from "../kubernetes/cluster.ts";

/** A Secret or a ConfigMap cannot be read, or lacks a field. */
export class CredentialError extends Error {}

const authorityField = "ca.crt";
/** Time in milliseconds for which authorities are not read again, however often pods are asked. */
const authoritiesServeMs = 10_000;
const mostKept = 1_000;

interface CachedAuthority {
  readonly atMs: number;
  readonly pem: Promise<string>;
}

type AuthorityReader = Pick<Cluster, "get" | "monotonicMs">;

const kept = new WeakMap<AuthorityReader, BoundedMap<string, CachedAuthority>>();

/** The header for a Secret's user and password. Throws {@link CredentialError}. */
export async function readPassword(cluster: Pick<Cluster, "get">, { namespace, name }: ObjectKey): Promise<string> {
  const fieldOf = await readFields(cluster, namespace, { resource: "secrets", name }, `Secret ${name}`);
  const [username, password] = [fieldOf("username"), fieldOf("password")];
  if (username === "" || password === "") throw new CredentialError(`Secret ${name} has no username and password`);
  if (username.includes(":"))
    throw new CredentialError(`the username in Secret ${name} has a colon, which no header can say`);
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

/** The header for a Secret's token. Throws {@link CredentialError}. */
export async function readToken(cluster: Pick<Cluster, "get">, { namespace, name }: ObjectKey): Promise<string> {
  const fieldOf = await readFields(cluster, namespace, { resource: "secrets", name }, `Secret ${name}`);
  const token = fieldOf("token").trim();
  if (!/^[\x21-\x7e]+$/.test(token)) throw new CredentialError(`Secret ${name} has no token that a header can carry`);
  return `Bearer ${token}`;
}

/** In PEM, no older than ten seconds. Throws {@link CredentialError}. */
async function readAuthority(cluster: AuthorityReader, namespace: string, ref: AuthorityRef): Promise<string> {
  const known = kept.get(cluster) ?? new BoundedMap<string, CachedAuthority>(mostKept);
  kept.set(cluster, known);
  const path = `${namespace}/${nameOf(ref)}`;
  const before = known.get(path);
  const atMs = cluster.monotonicMs();
  if (before !== undefined && atMs - before.atMs < authoritiesServeMs) return before.pem;
  const pem = readCertificates(cluster, namespace, ref);
  known.set(path, { atMs, pem });
  // The next call reads a malformed object again, because a user may have corrected it.
  pem.catch(() => known.delete(path));
  return pem;
}

/** The same address, with the authorities that are trusted there over https. Throws {@link CredentialError}. */
export async function trust(
  cluster: AuthorityReader,
  address: PodAddress,
  ref: AuthorityRef | undefined,
): Promise<PodAddress> {
  if (ref === undefined || address.scheme !== "https") return address;
  return { ...address, authorities: await readAuthority(cluster, address.namespace, ref) };
}

/** The name as in the annotation. */
function nameOf({ resource, name }: AuthorityRef): string {
  return `${resource === "secrets" ? "secret" : "configmap"}/${name}`;
}

/** What to do if a pod's certificate is of an untrusted authority. `key`: the annotation that names one. */
export function describeUntrusted(key: string, ref: AuthorityRef | undefined): string {
  return ref === undefined
    ? `no authority that is trusted has signed its certificate: write secret/NAME or configmap/NAME, whose ${authorityField} holds its authority, into ${key}`
    : `the authority in ${authorityField} of ${nameOf(ref)}, which ${key} names, has not signed its certificate: put the one there that has`;
}

/** The fields of a Secret, decoded, or of a ConfigMap; empty if it has none. Throws {@link CredentialError}. */
async function readFields(
  cluster: Pick<Cluster, "get">,
  namespace: string,
  { resource, name }: AuthorityRef,
  what: string,
): Promise<(field: string) => string> {
  try {
    const { data = {} } = await cluster.get(resource, { namespace, name });
    const encoding = resource === "secrets" ? "base64" : "utf8";
    return (field) => Buffer.from(data[field] ?? "", encoding).toString("utf8");
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    const remedy = isRightMissing(error) ? roleFor(resource, name) : "";
    throw new CredentialError(`${what} could not be read: ${apiMessage(error)}${remedy}`);
  }
}

/** What a user writes so that the account, which the API server's message names, may read one object. */
function roleFor(resource: string, name: string): string {
  const rule = `apiGroups: [""], resources: [${resource}], resourceNames: [${name}], verbs: [get]`;
  return `; a Role must give Sluice the right to get it by its name: write one with ${rule}, and bind it to that account`;
}

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** The certificates alone, because no caller may see a key beside them. */
async function readCertificates(cluster: AuthorityReader, namespace: string, ref: AuthorityRef): Promise<string> {
  const what = nameOf(ref);
  const text = (await readFields(cluster, namespace, ref, what))(authorityField);
  if (text === "")
    throw new CredentialError(`${what} has no ${authorityField}, which is to hold an authority's certificate in PEM`);
  const found = text.match(certificate) ?? [];
  if (found.length === 0) throw new CredentialError(`${authorityField} of ${what} holds no certificate in PEM`);
  try {
    for (const one of found) new X509Certificate(one);
  } catch {
    throw new CredentialError(`${authorityField} of ${what} holds a certificate that Sluice cannot read`);
  }
  return `${found.join("\n")}\n`;
}

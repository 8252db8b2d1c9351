/** What an account may do, as rendered, and what it was seen to do, as the API server's audit log has it. */

import { eventually } from "../controlplane/api.ts";
import { type AuditEntry, auditPosition, readAudit } from "../controlplane/audit.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { isWorkload } from "../support/installed.ts";
import type { Built, Kubectl } from "../support/kubectl.ts";

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

interface Role extends Built {
  readonly rules: readonly Rule[];
}

interface Binding extends Built {
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly roleRef: { readonly kind: string; readonly name: string };
  readonly subjects: readonly { readonly kind: string; readonly name: string; readonly namespace: string }[];
}

/** One verb on one resource, of these objects alone where there are names. */
export interface Right {
  readonly group: string;
  readonly resource: string;
  readonly verb: string;
  readonly names: readonly string[] | undefined;
  /** Where; undefined: in the whole cluster. */
  readonly namespace: string | undefined;
}

/** As `verb resource`, or `verb resource name`. */
export function textOf({ verb, resource, names }: Right): string {
  return [verb, resource, ...(names ?? [])].join(" ");
}

/** Every right that the objects give an account of a namespace, one by one. */
export function rightsOf(objects: readonly Built[], namespace: string, account: string): Right[] {
  const bindings = objects.filter((object): object is Binding => object.kind.endsWith("RoleBinding"));
  const bound = bindings.filter(({ subjects }) =>
    subjects.some((one) => one.kind === "ServiceAccount" && one.name === account && one.namespace === namespace),
  );
  return bound.flatMap(({ kind, metadata, roleRef }) => {
    const place = kind === "RoleBinding" ? metadata.namespace : undefined;
    const isBound = (one: Built) =>
      one.kind === roleRef.kind && one.metadata.name === roleRef.name && one.metadata.namespace === place;
    const role = objects.find((one) => (roleRef.kind === "Role" ? isBound(one) : isClusterRole(one, roleRef.name)));
    if (role === undefined) throw new Error(`${roleRef.kind} ${roleRef.name} is bound, and not there`);
    return (role as Role).rules.flatMap((rule) => rightsIn(rule, place));
  });
}

/** The same right, for each of its names alone: one of them may be in use, and another not. */
export function byName(right: Right): Right[] {
  return right.names === undefined ? [right] : right.names.map((name) => ({ ...right, names: [name] }));
}

function isClusterRole({ kind, metadata }: Built, name: string): boolean {
  return kind === "ClusterRole" && metadata.name === name;
}

function rightsIn({ apiGroups, resources, verbs, resourceNames: names }: Rule, namespace: string | undefined): Right[] {
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) => verbs.map((verb) => ({ group, resource, verb, names, namespace }))),
  );
}

/** Rights that say nothing of what they are for: wildcards, and Secrets beyond those that are named. */
export function carelessRights(rights: readonly Right[]): Right[] {
  const isWild = ({ group, resource, verb }: Right) => [group, resource, verb].includes("*");
  const isOfAnySecret = ({ resource, names }: Right) => resource === "secrets" && names === undefined;
  return rights.filter((right) => isWild(right) || isOfAnySecret(right));
}

export interface Use {
  /** How often each right was used. */
  readonly used: ReadonlyMap<Right, number>;
  /** What was asked for without the right to it. */
  readonly missing: readonly string[];
}

/** What an account did of what it may, from byte `from` of the audit log on. Complete: waits until the log has got so far. */
export async function useOf(
  controlPlane: ControlPlane,
  kubectl: Kubectl,
  from: number,
  account: { readonly namespace: string; readonly name: string; readonly rights: readonly Right[] },
): Promise<Use> {
  const mark = `mark-${crypto.randomUUID()}`;
  const before = await auditPosition(controlPlane.auditLog);
  await kubectl.run("get", "configmap", mark, "--ignore-not-found");
  const to = await eventually("the audit log read", 30_000, async () => {
    const position = await auditPosition(controlPlane.auditLog);
    for await (const { name } of readAudit(controlPlane.auditLog, { from: before, to: position }, () => {}))
      if (name === mark) return position;
    return undefined;
  });
  const user = `system:serviceaccount:${account.namespace}:${account.name}`;
  const used = new Map<Right, number>(account.rights.map((right) => [right, 0]));
  const missing = new Set<string>();
  for await (const entry of readAudit(controlPlane.auditLog, { from, to }, () => {})) {
    if (entry.user !== user || entry.resource.startsWith("/")) continue;
    const isRefused = entry.code === 401 || entry.code === 403;
    if (isRefused && !isOfEndingNamespace(entry)) missing.add(`${entry.verb} ${entry.resource}: ${entry.message}`);
    const right = account.rights.find(
      ({ verb, resource, names, namespace }) =>
        verb === entry.verb &&
        resource === entry.resource &&
        (names === undefined || names.includes(entry.name ?? "")) &&
        (namespace === undefined || namespace === entry.namespace),
    );
    if (right !== undefined) used.set(right, (used.get(right) ?? 0) + 1);
  }
  return { used, missing: [...missing] };
}

/** No right lets an account make an object in a namespace that is being deleted. */
function isOfEndingNamespace({ verb, message }: AuditEntry): boolean {
  return verb === "create" && message.endsWith("because it is being terminated");
}

/** The accounts that something of the objects runs under. */
export function accountsOf(objects: readonly Built[]): string[] {
  return objects.filter(isWorkload).map(({ spec }) => spec.template.spec.serviceAccountName);
}

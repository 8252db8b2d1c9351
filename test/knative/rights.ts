/** What an account may do, as rendered, and what it was seen to do, as the API server's audit log has it. */

import { type Api, eventually } from "../controlplane/api.ts";
import { type AuditEntry, auditPosition, readAudit } from "../controlplane/audit.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { isWorkload } from "../support/installed.ts";
import type { Built } from "../support/kubectl.ts";

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

/**
 * What accounts of a namespace did of what they may, by their names, from byte `from` of the audit log on. Complete: waits until
 * the log has got so far. The log is long, and read once for all of them.
 *
 * @param rights by the account's name
 */
export async function usesOf(
  controlPlane: ControlPlane,
  api: Api,
  from: number,
  namespace: string,
  rights: ReadonlyMap<string, readonly Right[]>,
): Promise<ReadonlyMap<string, Use>> {
  const to = await positionAfter(controlPlane, api);
  const uses = new Map([...rights].map(([name, its]) => [name, new Uses(its)]));
  for await (const entry of readAudit(controlPlane.auditLog, { from, to }, () => {})) {
    const [, name = ""] = entry.user.split(`system:serviceaccount:${namespace}:`);
    if (!entry.resource.startsWith("/")) uses.get(name)?.add(entry);
  }
  return new Map([...uses].map(([name, { used, missing }]) => [name, { used, missing: [...missing] }]));
}

/** A position of the audit log up to which all is logged that has been answered. */
async function positionAfter({ auditLog }: ControlPlane, api: Api): Promise<number> {
  const mark = `mark-${crypto.randomUUID()}`;
  const before = await auditPosition(auditLog);
  const { body } = await api.send("GET", `/api/v1/namespaces/default/configmaps/${mark}`);
  await body.dump();
  return eventually("the audit log read", 30_000, async () => {
    const position = await auditPosition(auditLog);
    for await (const { name } of readAudit(auditLog, { from: before, to: position }, () => {}))
      if (name === mark) return position;
    return undefined;
  });
}

/** How an account uses its rights. */
class Uses {
  readonly used: Map<Right, number>;
  readonly missing = new Set<string>();

  constructor(rights: readonly Right[]) {
    this.used = new Map(rights.map((right) => [right, 0]));
  }

  add(entry: AuditEntry): void {
    const { verb, resource, code, message } = entry;
    const isRefused = code === 401 || code === 403;
    if (isRefused && !isOfEndingNamespace(entry)) this.missing.add(`${verb} ${resource}: ${message}`);
    const right = this.used.keys().find((one) => isUseOf(entry, one));
    if (right !== undefined) this.used.set(right, (this.used.get(right) ?? 0) + 1);
  }
}

function isUseOf(entry: AuditEntry, { verb, resource, names, namespace }: Right): boolean {
  return (
    verb === entry.verb &&
    resource === entry.resource &&
    (names === undefined || names.includes(entry.name ?? "")) &&
    (namespace === undefined || namespace === entry.namespace)
  );
}

/** No right lets an account make an object in a namespace that is being deleted. */
function isOfEndingNamespace({ verb, message }: AuditEntry): boolean {
  return verb === "create" && message.endsWith("because it is being terminated");
}

/** The accounts that something of the objects runs under. */
export function accountsOf(objects: readonly Built[]): string[] {
  return objects.filter(isWorkload).map(({ spec }) => spec.template.spec.serviceAccountName);
}

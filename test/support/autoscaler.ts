/** An autoscaler as the API server sees one. The audit log shows which other clients wrote the object that it scales. */
import { setTimeout as delay } from "node:timers/promises";
import type { Api } from "../controlplane/api.ts";
import { readAudit } from "../controlplane/audit.ts";

/** A `/scale` subresource of autoscaling/v1. */
interface Scale {
  readonly metadata: { readonly resourceVersion: string };
  readonly spec: { readonly replicas?: number };
}

/** One change of a size: the scale was read, and written back on condition that no other client wrote in between. */
export interface Attempt {
  readonly atMs: number;
  readonly from: number;
  readonly to: number;
  /** HTTP status of the write. */
  readonly code: number;
  readonly message: string;
  /** The revision that was read, and a revision after the end of the attempt. */
  readonly readVersion: number;
  readonly endVersion: number;
}

/**
 * Time between reading a scale and writing it back, in milliseconds: what a HorizontalPodAutoscaler takes to read its metrics.
 */
const thinkMs = 20;

/**
 * Reads the scale at a path, and writes it back with another size and the resourceVersion that it has read, as client-go does.
 * Runs `meanwhile` in between.
 */
export async function scaleOnce(
  api: Api,
  path: string,
  choose: (from: number) => number,
  meanwhile: () => Promise<unknown> = () => delay(thinkMs),
): Promise<Attempt> {
  const atMs = Date.now();
  const scale = await api.get<Scale>(path);
  const from = scale.spec.replicas ?? 0;
  const to = choose(from);
  await meanwhile();
  const answer = await api.send("PUT", path, { ...scale, spec: { ...scale.spec, replicas: to } });
  const scaled = (await answer.body.json()) as Partial<Scale> & { message?: string };
  const end = scaled.metadata?.resourceVersion ?? (await api.get<Scale>(path)).metadata.resourceVersion;
  return {
    atMs,
    from,
    to,
    code: answer.statusCode,
    message: scaled.message ?? "",
    readVersion: Number(scale.metadata.resourceVersion),
    endVersion: Number(end),
  };
}

/** An accepted write of an object, or of one of its subresources. */
export interface Write {
  readonly by: string;
  readonly verb: string;
  readonly resource: string;
  /** The revision that the write made; for a write that changed nothing, the existing one. */
  readonly version: number;
}

/** The writes of one object by revision. The audit log must contain the answers to writes of this resource. */
export async function writesOf(
  auditLog: string,
  { resource, namespace, name }: { readonly resource: string; readonly namespace: string; readonly name: string },
): Promise<readonly Write[]> {
  const writes: Write[] = [];
  for await (const entry of readAudit(auditLog, {}, () => {})) {
    if (entry.namespace !== namespace || entry.name !== name || entry.resource.split("/")[0] !== resource) continue;
    if (!["create", "update", "patch"].includes(entry.verb) || (entry.code ?? 500) >= 300) continue;
    if (entry.resourceVersion === undefined)
      throw new Error(`the audit log does not hold the answer of a ${entry.verb}`);
    const { userAgent: by, verb, resource: written, resourceVersion } = entry;
    writes.push({ by, verb, resource: written, version: Number(resourceVersion) });
  }
  return writes.sort((one, other) => one.version - other.version);
}

/** The writes of other clients after an attempt had read, and before its end. */
export function writesWithin(writes: readonly Write[], { readVersion, endVersion, code }: Attempt): readonly Write[] {
  const isOwn = ({ version }: Write) => code < 300 && version === endVersion;
  return writes.filter((write) => write.version > readVersion && write.version <= endVersion && !isOwn(write));
}

export const isOurs = ({ by }: Pick<Write, "by">): boolean => by.startsWith("sluice/");

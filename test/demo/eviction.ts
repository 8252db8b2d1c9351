/** Evictions as `kubectl drain` requests them, one request each. */
import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";

/**
 * The grace period of these evictions, as by `kubectl drain --grace-period`. No other client uses it, so the referee
 * recognises evictions by it.
 */
export const evictionGraceSeconds = 20;

export interface EvictionAnswer {
  /** 201: the pod goes; 429: not now. */
  readonly code: number;
  readonly message: string;
}

/** Asks the API server at `url` once. Rejects if no answer comes, or when the signal is aborted. */
export async function evict(
  url: string,
  { namespace, name }: ObjectKey,
  { dryRun, signal }: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<EvictionAnswer> {
  const deleteOptions = { gracePeriodSeconds: evictionGraceSeconds, ...(dryRun ? { dryRun: ["All"] } : {}) };
  const answer = await fetch(`${url}/api/v1/namespaces/${namespace}/pods/${name}/eviction`, {
    method: "POST",
    headers: { "content-type": "application/json", "user-agent": "drain" },
    body: JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace }, deleteOptions }),
    signal,
  });
  const { message = "" } = (await answer.json()) as { readonly message?: string };
  return { code: answer.status, message };
}

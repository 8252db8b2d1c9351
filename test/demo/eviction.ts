/** Evictions as `kubectl drain` asks the API server for them, one request for each. */
import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";

/** As `kubectl drain --grace-period` says it. No other client asks for it: the referee knows evictions by it. */
export const evictionGraceSeconds = 20;

export interface EvictionAnswer {
  /** 201: the pod goes; 429: not now. */
  readonly code: number;
  readonly message: string;
}

/** Asks once, of the API server at `url`. Rejects when no answer comes, or when the signal is given. */
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

/** The requests that Sluice has made to the API server. */
import type { RequestCount } from "../fake-cluster/http.ts";

export interface Requests {
  readonly total: number;
  /** By verb, the most frequent first. Creations of Events are counted separately. */
  readonly byVerb: readonly (readonly [verb: string, count: number])[];
}

/** Sluice's own requests, without those of the drains. */
export function countRequests(counts: readonly RequestCount[]): Requests {
  const sums = new Map<string, number>();
  for (const { verb, resource, userAgent, count } of counts) {
    if (!userAgent.startsWith("sluice/")) continue;
    const name = resource === "events" ? "Events" : verb;
    sums.set(name, (sums.get(name) ?? 0) + count);
  }
  const byVerb = [...sums].sort(([, one], [, other]) => other - one);
  return { total: byVerb.reduce((sum, [, count]) => sum + count, 0), byVerb };
}

/** `204 (8.5 a pod): 60 list, 41 get`, with non-breaking spaces between a number and its verb. */
export function describeRequests({ total, byVerb }: Requests, pods: number): string {
  const verbs = byVerb.map(([verb, count]) => `${count}\u00a0${verb}`).join(", ");
  return `${total} (${(total / pods).toFixed(1)} a pod)${verbs === "" ? "" : `: ${verbs}`}`;
}

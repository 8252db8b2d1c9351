/** Writes of the Lease of an agent, each on condition that the Lease is as it was read. */

import { fenceArmed, formatArmed } from "../shared/annotations/fencing.ts";
import { agentName, recordName } from "../shared/annotations/fencing-leases.ts";
import { hasCode } from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import { mayStillArm } from "./decide-stopping.ts";
import { type FenceAttempt, fencingNamespace } from "./observe.ts";
import { parseAgent, parseNode, parseRecord } from "./record.ts";
import type { AgentSeen, FenceStep } from "./snapshot.ts";

type ArmStep = Extract<FenceStep, { readonly kind: "arm" }>;

/** How often the write that arms a fence is sent at most. */
const mostTries = 5;

/** Under the revision that was read: the agent can have changed neither its mode nor its boot nor its peers since. */
export function patchAgent(
  { context, key, notAfterMs }: FenceAttempt,
  { uid, resourceVersion }: AgentSeen,
  annotations: Readonly<Record<string, string | null>>,
): Promise<unknown> {
  const lease = { namespace: fencingNamespace(context), name: agentName(key.name) };
  const body = { metadata: { uid, resourceVersion, annotations } };
  return context.cluster.patch("leases", lease, body, { notAfterMs });
}

/**
 * A renewal of the agent alone is no reason to decide anew: the API server may be so slow that each decision is older than the
 * last renewal. So the Lease is read again, and the write rests on that version. Throws ClusterError.
 */
export async function arm(attempt: FenceAttempt, step: ArmStep): Promise<unknown> {
  const annotations = { [fenceArmed.key]: formatArmed(step.record) };
  let { agent } = step;
  for (let tries = 1; ; tries++) {
    try {
      return await patchAgent(attempt, agent, annotations);
    } catch (error) {
      const renewed = tries < mostTries && hasCode(error, 409) ? await findRenewed(attempt, step) : undefined;
      if (renewed === undefined) throw error;
      agent = renewed;
    }
  }
}

/** Undefined where more has changed than renewals. Throws ClusterError. */
async function findRenewed({ context, key }: FenceAttempt, step: ArmStep): Promise<AgentSeen | undefined> {
  const { cluster } = context;
  const namespace = fencingNamespace(context);
  const lease = await find(cluster, "leases", { namespace, name: agentName(key.name) });
  // The record after the agent's Lease: if it is still in the phase `claimed`, no process counts the time of an earlier arming
  // that another client has taken out of that Lease.
  const [recordLease, object] = await Promise.all([
    find(cluster, "leases", { namespace, name: recordName(key.name) }),
    find(cluster, "nodes", key),
  ]);
  if (lease === undefined || recordLease === undefined || object === undefined) return undefined;
  const [record, agent, node] = [parseRecord(recordLease), parseAgent(lease), parseNode(object)];
  return record !== "unreadable" && mayStillArm(step, { record, agent, node }) ? agent : undefined;
}

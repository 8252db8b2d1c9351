/** Which ledgers hold claims of downscales that were prepared, and where all is that one of them names. */
import { isPrepared } from "../shared/group/prepared.ts";
import type { LeaseObject } from "../shared/kubernetes/cluster.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import { ledgerName } from "../shared/ledger/name.ts";
import type { GroupKey } from "../shared/objects/statefulsets.ts";
import { claims, ledgerGroup, managedBy, read } from "../shared/objects/vocabulary.ts";
import { lookAtLedger } from "../shared/pass/claim-writing.ts";
import type { Context } from "../shared/pass/definition.ts";
import type { Observed } from "../shared/pass/observation.ts";
import { findClaimed } from "../shared/pass/whereabouts.ts";
import type { PreparedSnapshot } from "./decide.ts";

export const name = "release-prepared";

/** The groups whose ledgers hold a claim of any kind, in a namespace or in all. Throws ClusterError. */
export async function listKeys({ cluster }: Context, namespace: string | undefined): Promise<readonly GroupKey[]> {
  const labelSelector = `${managedBy.key}=sluice`;
  const { items } = await cluster.list("leases", { ...(namespace === undefined ? {} : { namespace }), labelSelector });
  return items.flatMap(keyOf);
}

function keyOf({ metadata }: LeaseObject): GroupKey[] {
  const group = read(ledgerGroup, metadata);
  const holdsClaims = (read(claims, metadata) ?? "") !== "";
  if (group === undefined || !holdsClaims || ledgerName(group) !== metadata.name) return [];
  return [{ namespace: metadata.namespace ?? "", group }];
}

/** The claims of a group that a review made, by its ledger as it is now. Throws LedgerUnreadable, ClusterError. */
export async function readPrepared({ protocol, cluster }: Context, key: GroupKey): Promise<readonly KnownClaim[]> {
  const ledger = await protocol.readLedger(cluster, key);
  return ledger === undefined ? [] : ledger.claims.filter(isPrepared);
}

/** One of them as it stands; undefined where it is gone, or where nothing may be written yet. */
export async function observe(
  context: Context,
  key: GroupKey,
  id: string,
): Promise<{ readonly observed: Observed; readonly snapshot: PreparedSnapshot } | undefined> {
  const look = await lookAtLedger(context, key);
  const claim = look?.observed.ledger.claims.filter(isPrepared).find((one) => one.id === id);
  if (look === undefined || look.young !== undefined || claim === undefined) return undefined;
  // Rule R21: by GETs after the ledger was read.
  const where = await findClaimed(context.cluster, key.namespace, claim);
  return { observed: look.observed, snapshot: { claim, where, nowMs: context.cluster.serverTimeMs() } };
}

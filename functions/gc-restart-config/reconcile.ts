/** One sweep of a group: the ledger is written first, and then each Secret that is due is read once more and removed. */

import { restartConfig } from "../shared/annotations/restart.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import { eventReasons } from "../shared/events/reasons.ts";
import { recordOnce } from "../shared/events/recorder.ts";
import { apiMessage, ClusterError, hasCode, isTransient, lackOf } from "../shared/kubernetes/cluster.ts";
import { maxConflicts } from "../shared/ledger/reservation.ts";
import { askedBy } from "../shared/reconcile/concern.ts";
import { reportVerdict } from "../shared/reconcile/record.ts";
import { changeOf, openTransaction } from "../shared/transaction/claims.ts";
import { Conflict, forgetLedger, waitForLedger, writeChange } from "../shared/transaction/ledger-copy.ts";
import type { GroupObservation } from "../shared/transaction/observe-group.ts";
import type { GroupKey } from "../shared/workloads/statefulsets.ts";
import { type DueConfig, decide } from "./decide.ts";
import { name, namedBySets, observe, readConfig } from "./observe.ts";

const nothing: ReconcileResult = { requeueAfterMs: undefined, pendingActs: undefined };
const asks = askedBy(({ restart }) => restart?.files !== undefined);

/** Throws ClusterError where trying again can help. */
export async function reconcile(
  context: Context,
  key: GroupKey,
  { sweep }: { readonly sweep: boolean },
): Promise<ReconcileResult> {
  if (!sweep) return nothing;
  try {
    if (!(await isOfConcern(context, key))) return nothing;
    await collectUnlessContended(context, key);
  } catch (error) {
    const unusable = waitForLedger(error);
    if (unusable === undefined) throw error;
    reportVerdict(context, name, key, unusable);
  }
  return nothing;
}

/** Rule R3: after a conflict it begins again, five times. */
async function collectUnlessContended(context: Context, key: GroupKey): Promise<void> {
  for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
    forgetLedger(context.memoryOf(key));
    try {
      await collect(context, key);
      return;
    } catch (error) {
      if (!(error instanceof Conflict)) throw error;
      context.reporter.conflict(key, name);
    }
  }
  reportVerdict(context, name, key, { guard: "ledger-contended", zone: "", message: "others write the ledger" });
}

/** A group is also of concern whose last StatefulSet has ceased to name a Secret. Throws as `reconcile` does. */
async function isOfConcern(context: Context, key: GroupKey): Promise<boolean> {
  const answer = await asks(context, key);
  if (answer !== "no") return answer === "yes";
  const ledger = await context.protocol.readLedger(context.cluster, key);
  return (ledger?.namedConfigs?.size ?? 0) > 0;
}

async function collect(context: Context, key: GroupKey): Promise<void> {
  const transaction = await openTransaction(context, key);
  if (transaction === undefined) return;
  const { observed, tooNew } = transaction;
  if (tooNew !== undefined) return reportVerdict(context, name, key, tooNew);
  const verdict = decide(await observe(observed, context));
  const { guard, message, configs, isChanged, due, forbidden } = verdict;
  reportVerdict(context, name, key, { guard, zone: "", message });
  if (context.mode === "shadow") return;
  for (const lack of forbidden) await warn(context, observed, lack);
  if (isChanged) await writeChange(context, observed, changeOf(observed, { namedConfigs: configs }));
  for (const one of due) await remove(context, observed, one);
}

/**
 * The Secret is read before what may name it, so that a StatefulSet that came meanwhile is seen. A refusal is reported and
 * tried again by the next sweep. Throws ClusterError where the API server is away.
 */
async function remove(context: Context, observed: GroupObservation, { name: object, uid }: DueConfig): Promise<void> {
  const { cluster, reporter } = context;
  const { key } = observed;
  const { namespace } = key;
  const now = await readConfig(cluster, { namespace, name: object });
  if (now.kind !== "there" || now.uid !== uid || !now.isLabelled) return;
  if ((await namedBySets(cluster, namespace)).has(object)) return;
  const { resourceVersion } = now;
  try {
    await cluster.delete("secrets", { namespace, name: object }, { uid, resourceVersion });
  } catch (error) {
    if (isTransient(error) || !(error instanceof ClusterError)) throw error;
    // Another client has written or removed it.
    if (hasCode(error, 404, 409)) return;
    const lack = hasCode(error, 403) ? `${lackOf(error)}; write a Role with delete on ${object}` : apiMessage(error);
    await warn(context, observed, lack);
    return;
  }
  const reason = `no StatefulSet or pod has named the Secret ${object} for 15 minutes`;
  reporter.act({ key, function: name, action: "collect", object, zone: "", result: "done", reason });
  await recordOnce(context, name, key, {
    about: { resource: "secrets", namespace, name: object, uid },
    ...{ type: "Normal", reason: eventReasons.configRemoved, message: reason, identity: uid },
  });
}

/** Once for each message. */
async function warn(context: Context, { key, zones }: GroupObservation, lack: string): Promise<void> {
  const [zone] = zones;
  if (zone === undefined) return;
  const message = `a Secret of ${restartConfig.key} stays: ${lack}`;
  const { name: set, namespace, uid } = zone.workload;
  const event = { type: "Warning", reason: eventReasons.configKept, message, identity: message } as const;
  await recordOnce(context, name, key, { about: { resource: "statefulsets", namespace, name: set, uid }, ...event });
}

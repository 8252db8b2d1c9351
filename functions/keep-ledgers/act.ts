/** Creates ledgers, and removes them: in a sweep over all groups, or for the group that an event names. */

import { messageOf } from "../shared/base/error-message.ts";
import { membersNeed } from "../shared/cache/cache.ts";
import type { Context } from "../shared/contract/context.ts";
import type { ReconcileResult } from "../shared/contract/definition.ts";
import { isNewEvent } from "../shared/events/recorder.ts";
import {
  apiMessage,
  ClusterError,
  hasCode,
  isRightMissing,
  isTransient,
  type LeaseObject,
} from "../shared/kubernetes/cluster.ts";
import { find } from "../shared/kubernetes/find.ts";
import { LedgerUnreadable } from "../shared/ledger/errors.ts";
import { groupKeyOfLease } from "../shared/ledger/lease.ts";
import { ledgerName } from "../shared/ledger/lease-name.ts";
import { reportVerdict } from "../shared/reconcile/record.ts";
import { restMs, Throttle } from "../shared/reconcile/throttle.ts";
import { noteLedger } from "../shared/transaction/ledger-age.ts";
import { forgetLedger, knownLedger } from "../shared/transaction/ledger-copy.ts";
import { type GroupKey, groupPathOf } from "../shared/workloads/statefulsets.ts";
import { decide, type LedgerHoldings } from "./decide.ts";
import { listGroups, listLedgers, name, observeVanished } from "./observe.ts";

/**
 * Creates the ledgers that groups lack, so that no function waits for a new one to age, and removes those of groups that have
 * vanished, by uid and resourceVersion. Writes nothing in shadow mode (rule R16). A group's failure is reported, and holds up
 * no other; nor does a namespace that may not be read. Throws, having tried them all: the first error that means that the sweep
 * was not whole.
 */
export async function sweep(context: Context): Promise<void> {
  if (context.mode === "shadow") return;
  const scopes = context.namespaces?.map((namespace) => ({ ...context, namespaces: [namespace] })) ?? [context];
  const swept = await Promise.allSettled(scopes.map(sweepScope));
  const failed = swept.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

async function sweepScope(context: Context): Promise<void> {
  const attempts = new Attempts(context);
  // The groups are listed first, so that a ledger that is created in between does not count as a stray one.
  const groups = await listGroups(context);
  const leases = await listLedgers(context);
  const byPath = new Map(leases.map((lease) => [`${lease.metadata.namespace}/${lease.metadata.name}`, lease]));
  for (const key of groups.values()) {
    const lease = byPath.get(`${key.namespace}/${ledgerName(key.group)}`);
    await attempts.make(key, async () => {
      await keepLiving(context, key, lease);
      throttle.restUntil(context.memoryOf(key), context.cluster.monotonicMs() + restMs);
    });
  }
  for (const lease of leases) {
    const key = groupKeyOfLease(lease);
    if (key === undefined || groups.has(groupPathOf(key))) continue;
    await attempts.make(key, () => endVanished(context, key, lease));
  }
  attempts.end();
}

/** Groups for which it was recently checked whether they still have a StatefulSet. */
const throttle = new Throttle();

/** The same for one group, after an event: at once, or when half a minute has passed since the last time. Throws ClusterError. */
export async function reconcileLedger(context: Context, key: GroupKey): Promise<ReconcileResult> {
  const memory = context.memoryOf(key);
  const nowMs = context.cluster.monotonicMs();
  if (context.mode === "shadow") return { requeueAfterMs: undefined, pendingActs: undefined };
  const postponed = throttle.postpone(memory, nowMs);
  if (postponed !== undefined) return postponed;
  const attempts = new Attempts(context);
  // By what is known without a request. Before a ledger is removed, its group is observed again.
  const isLiving = (await context.cache.read(key, membersNeed)).workloads.length > 0;
  await attempts.make(key, async () => {
    if (isLiving && knownLedger(context, memory) !== undefined) return;
    const lease = await find(context.cluster, "leases", { namespace: key.namespace, name: ledgerName(key.group) });
    if (isLiving) await keepLiving(context, key, lease);
    else if (lease !== undefined) await endVanished(context, key, lease);
  });
  attempts.end();
  throttle.restUntil(memory, nowMs + restMs);
  return { requeueAfterMs: undefined, pendingActs: undefined };
}

const notInspected: LedgerHoldings = { open: [], claims: [], besides: [] };

async function keepLiving(context: Context, key: GroupKey, lease: LeaseObject | undefined): Promise<void> {
  const { kind } = decide({ key, isLiving: true, ledger: lease && notInspected });
  const createdUid = kind === "make" ? await context.protocol.createLedger(context.cluster, key) : undefined;
  const uid = createdUid?.uid ?? lease?.metadata.uid;
  // The process knows it from now on, so that it is no longer new when a function needs it (rule R4).
  if (uid !== undefined) noteLedger(context.cluster, uid);
}

async function endVanished(context: Context, key: GroupKey, lease: LeaseObject): Promise<void> {
  try {
    const verdict = decide(await observeVanished(context, key, lease));
    if (verdict.kind === "collect") await collect(context, key, lease);
    if (verdict.kind !== "wait") return;
    const { guard, zone, message } = verdict;
    reportVerdict(context, name, key, { guard, zone, message });
  } catch (error) {
    // Another client has written, removed or recreated the ledger meanwhile: it is in use, or gone.
    if (!hasCode(error, 404, 409)) throw error;
  }
}

async function collect(context: Context, key: GroupKey, { metadata }: LeaseObject): Promise<void> {
  const { name: object, uid, resourceVersion } = metadata;
  await context.cluster.delete("leases", { namespace: key.namespace, name: object }, { uid, resourceVersion });
  forgetLedger(context.memoryOf(key));
  const reason = `${key.group} has no StatefulSet any more, and its ledger holds nothing`;
  context.reporter.act({ key, function: name, action: "collect", object, zone: "", result: "done", reason });
}

/** After this many groups in a row without an answer the API server counts as away, and the others are left to the next sweep. */
const awayAfterFailures = 3;
const sweepFailed = "sweep failed: ";

/** The steps for one group after the other: each may fail alone, and the same failure is reported once. */
class Attempts {
  readonly #context: Context;
  readonly #failures: unknown[] = [];
  #unanswered = 0;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Throws ClusterError when the API server no longer answers. */
  async make(key: GroupKey, attempt: () => Promise<void>): Promise<void> {
    const { sentEvents } = this.#context.memoryOf(key);
    try {
      await attempt();
      this.#unanswered = 0;
      for (const identity of sentEvents) if (identity.startsWith(sweepFailed)) sentEvents.delete(identity);
    } catch (error) {
      const cause = error instanceof ClusterError ? apiMessage(error) : messageOf(error);
      const identity = `${sweepFailed}${cause}`;
      const message = `the ledger of ${key.group} waits for the next sweep: ${cause}`;
      if (isNewEvent(this.#context, key, identity)) this.#context.reporter.problem(key, name, message, error);
      this.#failures.push(error);
      this.#unanswered = isTransient(error) ? this.#unanswered + 1 : 0;
      if (this.#unanswered >= awayAfterFailures) throw error;
    }
  }

  /** Throws the errors that mean that not all was done. A broken Lease, or a namespace that is being deleted, is none of them. */
  end(): void {
    const severe = this.#failures.find(
      (error) => !(error instanceof LedgerUnreadable) && (isRightMissing(error) || !hasCode(error, 403)),
    );
    if (severe !== undefined) throw severe;
  }
}

/** What a sweep does to the ledgers themselves (rule R4): made ahead of need, and taken away once nobody needs them. */

import { parseStoredBudget, selects } from "../group/governing.ts";
import { groupKeyOf, readGroup } from "../group/whose-ledger.ts";
import {
  ClusterError,
  hasCode,
  isRightMissing,
  isTransient,
  type LeaseObject,
  wordsOf,
} from "../kubernetes/cluster.ts";
import { messageOf } from "../kubernetes/errors.ts";
import { parseLedger } from "../ledger/contents.ts";
import { LedgerUnreadable } from "../ledger/errors.ts";
import { ledgerName } from "../ledger/name.ts";
import type { Ledger } from "../ledger/reservation.ts";
import { type GroupKey, groupPathOf, parseStatefulSet } from "../objects/statefulsets.ts";
import { ledgerGroup, managedBy, read } from "../objects/vocabulary.ts";
import { listBudgets } from "../views/view.ts";
import type { Context } from "./definition.ts";
import { noteLedger } from "./ledger-access.ts";
import { observeGroup } from "./observation.ts";
import { isNews } from "./record.ts";

/**
 * Creates the ledgers that the groups lack, so that a rollout need not wait for a new one to age, and removes empty ledgers
 * of groups that have vanished, by uid and resourceVersion. `settle` runs a pass over a vanished group whose ledger still
 * holds reservations. Writes nothing in shadow mode (rule R16). What fails for one group is said, as `by`, and holds up no
 * other. Throws, having tried them all: the first ClusterError that means that the sweep was not whole.
 */
export async function sweepLedgers(
  context: Context,
  groups: readonly GroupKey[],
  settle: (key: GroupKey) => Promise<unknown>,
  by: string,
): Promise<void> {
  if (context.mode === "shadow") return;
  const attempts = new Attempts(context, by);
  const leases = await listLedgers(context);
  await createMissing(context, groups, leases, attempts);
  for (const { key, lease } of vanished(groups, leases)) {
    // What is a budget's is for those who judge evictions to remove; what is another's, for its function.
    if (readGroup(key.group).kind !== "labelled") continue;
    await attempts.make(key, () =>
      removeLedger(context, key, lease, async ({ reservations }) => {
        if (reservations.length > 0) await settle(key);
        return reservations.length === 0;
      }),
    );
  }
  attempts.end();
}

/**
 * The same for whoever judges evictions: the ledgers of all StatefulSets that a budget selects are made ahead of need, and those
 * made of a budget (rule R1) removed once it selects nothing any more and every pod that was reserved is gone or back.
 */
export async function sweepBudgetLedgers(context: Context, by: string): Promise<void> {
  if (context.mode === "shadow") return;
  // A namespace that may not be read holds up no other.
  const scopes = context.namespaces?.map((namespace) => ({ ...context, namespaces: [namespace] })) ?? [context];
  const swept = await Promise.allSettled(scopes.map((scope) => sweepScope(scope, by)));
  const failed = swept.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

async function sweepScope(context: Context, by: string): Promise<void> {
  const attempts = new Attempts(context, by);
  const groups = await listGovernedGroups(context);
  const leases = await listLedgers(context);
  await createMissing(context, groups, leases, attempts);
  for (const { key, lease } of vanished(groups, leases)) {
    if (readGroup(key.group).kind !== "budget") continue;
    await attempts.make(key, () =>
      removeLedger(context, key, lease, async (ledger) => {
        const { open, zones } = await observeGroup(context, ledger, { permitSinceMs: undefined, consistent: true });
        // A StatefulSet whose template the budget does not select may have pods that it does.
        return open.length === 0 && zones.length === 0;
      }),
    );
  }
  attempts.end();
}

/** So many groups in a row that fail for want of an answer, and the API server is away: the others are left to the next sweep. */
const awayAfterFailures = 3;

/** What a sweep does for one group after the other: each may fail alone, and it is said once while the same is the matter. */
class Attempts {
  readonly #context: Context;
  readonly #by: string;
  readonly #failures: unknown[] = [];
  #unanswered = 0;

  constructor(context: Context, by: string) {
    this.#context = context;
    this.#by = by;
  }

  /** Throws ClusterError when the API server does not answer any more. */
  async make(key: GroupKey, attempt: () => Promise<void>): Promise<void> {
    const { announced } = this.#context.memoryOf(key);
    try {
      await attempt();
      this.#unanswered = 0;
      for (const identity of announced) if (identity.startsWith(sweepFailed)) announced.delete(identity);
    } catch (error) {
      const cause = error instanceof ClusterError ? wordsOf(error) : messageOf(error);
      const identity = `${sweepFailed}${cause}`;
      const sentence = `the ledger of ${key.group} waits for the next sweep: ${cause}`;
      if (isNews(this.#context, key, identity)) this.#context.reporter.problem(key, this.#by, sentence, error);
      this.#failures.push(error);
      this.#unanswered = isTransient(error) ? this.#unanswered + 1 : 0;
      if (this.#unanswered >= awayAfterFailures) throw error;
    }
  }

  /** Throws what says that the sweep was not whole; a broken Lease, or a namespace that is ending, is no matter of the sweep. */
  end(): void {
    const severe = this.#failures.find(
      (error) => !(error instanceof LedgerUnreadable) && (isRightMissing(error) || !hasCode(error, 403)),
    );
    if (severe !== undefined) throw severe;
  }
}

const sweepFailed = "sweep failed: ";

/** The groups whose ledgers keep the budgets that there are. */
async function listGovernedGroups({ cluster, namespaces }: Context): Promise<GroupKey[]> {
  const groups = new Map<string, GroupKey>();
  for (const namespace of namespaces ?? [undefined]) {
    const [budgets, statefulSets] = await Promise.all([
      listBudgets(cluster, namespace),
      cluster.list("statefulsets", namespace === undefined ? {} : { namespace }),
    ]);
    const stored = budgets.map(parseStoredBudget);
    for (const statefulSet of statefulSets.items.map(parseStatefulSet)) {
      for (const budget of stored) {
        if (budget.namespace !== statefulSet.namespace || !selects(budget, statefulSet.podLabels)) continue;
        const key = groupKeyOf(statefulSet, budget.name);
        groups.set(groupPathOf(key), key);
      }
    }
  }
  return [...groups.values()];
}

async function listLedgers({ cluster, namespaces }: Context): Promise<LeaseObject[]> {
  const scopes = namespaces?.map((namespace) => ({ namespace })) ?? [{}];
  const labelSelector = `${managedBy.key}=sluice`;
  const lists = await Promise.all(scopes.map((scope) => cluster.list("leases", { ...scope, labelSelector })));
  return lists.flatMap((list) => list.items);
}

async function createMissing(
  context: Context,
  groups: readonly GroupKey[],
  leases: readonly LeaseObject[],
  attempts: Attempts,
): Promise<void> {
  const present = new Map(leases.map(({ metadata }) => [`${metadata.namespace}/${metadata.name}`, metadata.uid]));
  for (const key of groups) {
    await attempts.make(key, async () => {
      const known = present.get(`${key.namespace}/${ledgerName(key.group)}`);
      const uid = known ?? (await context.protocol.createLedger(context.cluster, key))?.uid;
      // Known from now on, it is no longer new by the time that it is needed.
      if (uid !== undefined) noteLedger(context.cluster, uid);
    });
  }
}

function vanished(
  groups: readonly GroupKey[],
  leases: readonly LeaseObject[],
): { readonly key: GroupKey; readonly lease: LeaseObject }[] {
  const living = new Set(groups.map(groupPathOf));
  return leases.flatMap((lease) => {
    const group = read(ledgerGroup, lease.metadata);
    const { namespace = "", name } = lease.metadata;
    // A Lease of another name is not that group's ledger (rule R1), whatever it says, and not ours to remove.
    if (group === undefined || ledgerName(group) !== name || living.has(groupPathOf({ namespace, group }))) return [];
    return [{ key: { namespace, group }, lease }];
  });
}

/** `mayGo` says whether nobody needs the ledger any more. */
async function removeLedger(
  context: Context,
  key: GroupKey,
  lease: LeaseObject,
  mayGo: (ledger: Ledger) => Promise<boolean>,
): Promise<void> {
  const { name, uid, resourceVersion } = lease.metadata;
  try {
    const ledger = parseLedger(key, lease);
    // Rule R10a: only the function that made a claim knows when it is over.
    if (!(await mayGo(ledger)) || ledger.claims.length > 0) return;
    await context.cluster.delete("leases", { namespace: key.namespace, name }, { uid, resourceVersion });
  } catch (error) {
    // Written, removed or made anew meanwhile: somebody needs it, or nobody does any more.
    if (hasCode(error, 404, 409)) return;
    throw error;
  }
}

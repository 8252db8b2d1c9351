/**
 * Changes of a size as the API server makes them: it asks our webhook about every change, also about our own. It asks again,
 * under another uid of the review, if the object has changed in storage meanwhile (rule R19).
 */

import type { Context } from "../../../functions/shared/contract/context.ts";
import { createMemory } from "../../../functions/shared/contract/memory.ts";
import { type Cluster, ClusterError, hasCode } from "../../../functions/shared/kubernetes/cluster.ts";
import { changeClaim, type KnownClaim } from "../../../functions/shared/ledger/claim.ts";
import type { joinScaleDown, SizeChange } from "../../../functions/shared/scaling/size-changes.ts";
import { Conflict, waitForLedger } from "../../../functions/shared/transaction/ledger-copy.ts";
import { podNameOf } from "../../../functions/shared/workloads/pods.ts";
import { type GroupKey, parseStatefulSet } from "../../../functions/shared/workloads/statefulsets.ts";
import type { Draw } from "../draw.ts";
import { observeLedger, writeClaim } from "./writing.ts";

/** What a review contains of a change. */
export type SentChange = Omit<SizeChange, "pods">;

/** A process of ours that answers reviews of sizes. True allows the change. */
export interface Reviewer {
  readonly isAlive: () => boolean;
  review(change: SentChange, uid: string): Promise<boolean>;
}

/** How long the API server waits for a webhook. */
const timeoutMs = 10_000;

export class SizeReviews {
  readonly #draw: Draw;
  readonly #reviewers: Reviewer[] = [];
  #made = 0;

  constructor(draw: Draw) {
    this.#draw = draw;
  }

  add(reviewer: Reviewer): void {
    this.#reviewers.push(reviewer);
  }

  /** The answer of one of our processes, by the clock of the caller; false if none answers in time. */
  async ask(change: SentChange, cluster: Pick<Cluster, "sleep">): Promise<boolean> {
    const alive = this.#reviewers.filter((one) => one.isAlive());
    if (alive.length === 0) return false;
    const answer = this.#draw.pick(alive).review(change, `size-review-${++this.#made}`);
    const over = cluster.sleep(timeoutMs).then(() => false);
    return Promise.race([answer, over]);
  }

  /** Scales as a user does with `kubectl scale`: to the size that a claim aims at, or to a smaller one. */
  async scaleByHand({ zone, members }: KnownClaim, { namespace }: GroupKey, cluster: Cluster): Promise<void> {
    const less = this.#draw.whole(0, 1);
    for (let tried = 0; tried < 3; tried++) {
      const set = parseStatefulSet(await cluster.get("statefulsets", { namespace, name: zone }));
      const { uid, start, replicas: from, resourceVersion } = set;
      const to = (members[0]?.first ?? start) - start - less;
      if (
        to < 1 ||
        to >= from ||
        !(await this.ask({ zone, uid, from: { start, replicas: from }, to: { start, replicas: to } }, cluster))
      )
        return;
      try {
        const body = { metadata: { uid, resourceVersion }, spec: { replicas: to } };
        await cluster.patch("statefulsets", { namespace, name: zone }, body);
        return;
      } catch (error) {
        if (!hasCode(error, 409)) throw error;
      }
    }
  }
}

export interface ReviewOptions {
  readonly context: Context;
  readonly key: GroupKey;
  readonly join: typeof joinScaleDown;
  /** Called when a change was reviewed, with the claims of the ledger at that time. */
  readonly onReviewed: (change: SizeChange, lines: readonly string[], joins: boolean) => void;
  readonly log: (what: string) => void;
}

/**
 * Reviews a change as one process does: reads the ledger, and allows a change that joins a claim by a write that renews the
 * claim's stamp.
 */
export async function reviewSize(options: ReviewOptions, sent: SentChange): Promise<boolean> {
  // A review has a memory of its own, because its process goes on with its own work meanwhile.
  const context = { ...options.context, memoryOf: createMemory() };
  try {
    const observed = await observeLedger(context, options.key);
    if (observed === undefined) return false;
    const { claims } = observed.ledger;
    const pods = await podsThatLeave(context.cluster, options.key, sent);
    const change = { ...sent, pods };
    const joining = options.join(claims, change);
    const joins = joining.kind === "joins";
    options.log(
      `review of ${change.zone} from ${change.from.replicas} to ${change.to.replicas}: ${joins ? "joins" : "is held"}`,
    );
    options.onReviewed(
      change,
      claims.map(({ line }) => line),
      joins,
    );
    // Without a claim no function has told the pods.
    if (!joins) return false;
    const { claim } = joining;
    const stampMs = context.cluster.serverTimeMs();
    const renewed = changeClaim(claim, { stampMs, sinceMs: claim.sinceMs ?? claim.stampMs });
    const deadlineMs = await writeClaim(context, observed, claim, renewed);
    return context.cluster.monotonicMs() <= deadlineMs;
  } catch (error) {
    if (error instanceof ClusterError || error instanceof Conflict || waitForLedger(error) !== undefined) return false;
    throw error;
  }
}

async function podsThatLeave(
  cluster: Cluster,
  { namespace }: GroupKey,
  { zone, from, to }: SentChange,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (let ordinal = to.start + to.replicas; ordinal < from.start + from.replicas; ordinal++) {
    const name = podNameOf({ statefulSet: zone, ordinal });
    try {
      found.set(name, (await cluster.get("pods", { namespace, name })).metadata.uid);
    } catch (error) {
      if (!hasCode(error, 404)) throw error;
    }
  }
  return found;
}

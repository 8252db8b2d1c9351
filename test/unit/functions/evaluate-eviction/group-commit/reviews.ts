/** Processes that decide evictions in a fake cluster in virtual time, beside the rollout process of {@link Harness}. */

import { decide, type EvictionSnapshot } from "../../../../../functions/evaluate-eviction/decide.ts";
import { evaluateEviction } from "../../../../../functions/evaluate-eviction/function.ts";
import { type BatchDecider, GroupCommit } from "../../../../../functions/evaluate-eviction/group-commit/commit.ts";
import type { EvictionReview } from "../../../../../functions/evaluate-eviction/group-commit/queue.ts";
import type { Eviction } from "../../../../../functions/evaluate-eviction/group-commit/sort-decisions.ts";
import { name, observe } from "../../../../../functions/evaluate-eviction/observe.ts";
import type {
  AdmissionAnswer,
  AdmissionHandler,
  AdmissionRequest,
} from "../../../../../functions/shared/admission/definition.ts";
import { openHandler } from "../../../../../functions/shared/admission/shadow.ts";
import { createListReader } from "../../../../../functions/shared/cache/listing.ts";
import type { Context } from "../../../../../functions/shared/contract/context.ts";
import { createMemory } from "../../../../../functions/shared/contract/memory.ts";
import type { Cluster } from "../../../../../functions/shared/kubernetes/cluster.ts";
import type { Reservation } from "../../../../../functions/shared/ledger/reservation.ts";
import { createWorldCluster } from "../../../../fake-cluster/world-cluster.ts";
import { askedOf } from "../../../../support/asked-eviction.ts";
import { explaining } from "../../../../support/explained.ts";
import {
  type Call,
  counting,
  Harness,
  type Interference,
  key,
  namespace,
  played,
} from "../../../shared/reconcile/harness.ts";

type GroupOptions = ConstructorParameters<typeof Harness>[0];

/** Time that the API server waits for a webhook, less what the server keeps back. */
const patienceMs = 9_000;

/** Settings by which a review that must wait is refused at once, unless a test sets others. */
const atOnce = { evictionWaitMs: 0 };

/** A process that decides evictions. */
export class Replica {
  readonly calls: Call[] = [];
  interfere: Interference = () => {};
  readonly harness: Harness;
  readonly cluster: Cluster;
  readonly context: Context;
  readonly commit: GroupCommit<EvictionSnapshot>;
  readonly handler: AdmissionHandler;

  constructor(
    harness: Harness,
    changes: (cluster: Cluster) => Partial<Context> = () => ({}),
    decider: Partial<BatchDecider<EvictionSnapshot>> = {},
  ) {
    this.harness = harness;
    this.cluster = counting(createWorldCluster(harness.world), this.calls, () => this.interfere);
    this.context = {
      ...harness.context,
      cluster: this.cluster,
      cache: createListReader(this.cluster, undefined),
      memoryOf: createMemory(),
      settings: atOnce,
      ...changes(this.cluster),
    };
    this.commit = new GroupCommit(this.context, { name, observe, decide, ...decider });
    this.handler = explaining(name, openHandler(evaluateEviction, this.context));
  }

  /** A review for the current pod of that name. */
  submit(pod: string, changes: Partial<EvictionReview> & Partial<Eviction> = {}): Promise<AdmissionAnswer> {
    const { dryRun = false, deadlineMs = this.cluster.monotonicMs() + patienceMs, ...more } = changes;
    const eviction = { name: pod, uid: this.uidOf(pod), isPinned: true, pin: [], ...more };
    return this.commit.submit(key, { eviction, dryRun, deadlineMs });
  }

  /** A review of an eviction, as the server passes it to the function. */
  review(pod: string, changes: Partial<AdmissionRequest> = {}): Promise<AdmissionAnswer> {
    const deadlineMs = this.cluster.monotonicMs() + patienceMs;
    return this.handler.review(askedOf({ namespace, name: pod }, { uid: "review", deadlineMs, ...changes }));
  }

  /** Lets time pass until all reviews are answered. Resolves to the guards in the order of the reviews. */
  async guards(...asked: readonly Promise<AdmissionAnswer>[]): Promise<string[]> {
    const answers = await played(this.harness.timeline, Promise.all(asked));
    return answers.map(({ guard }) => guard);
  }

  async answer(asked: Promise<AdmissionAnswer>): Promise<AdmissionAnswer> {
    return played(this.harness.timeline, asked);
  }

  uidOf(pod: string): string {
    return this.harness.world.store.get("pods", { namespace, name: pod }).metadata.uid;
  }

  /** The calls so far as words: `patch leases`. */
  get requests(): string[] {
    return this.calls.filter(({ verb }) => verb !== "watch").map(({ verb, resource }) => `${verb} ${resource}`);
  }

  count(request: string): number {
    return this.requests.filter((other) => other === request).length;
  }

  get writes(): string[] {
    return this.requests.filter((word) => !/^(get|list) /.test(word));
  }
}

/** A budget for the group in {@link Harness}, unless its selector says otherwise. */
export function addBudget(harness: Harness, spec: object = { maxUnavailable: 1 }, budgetName = "budget"): void {
  harness.world.store.create("zoneawarepoddisruptionbudgets", namespace, {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: budgetName },
    spec: { selector: { matchLabels: { "rollout-group": key.group } }, ...spec },
  });
}

/** A healthy group under a budget, with a ledger that has been used and is old enough (rule R4). */
export async function governedGroup(spec?: object, group: GroupOptions = { replicas: 4 }): Promise<Harness> {
  const harness = new Harness(group);
  addBudget(harness, spec);
  await harness.run(true);
  await harness.goOn(60_000);
  await harness.run();
  await harness.goOn(6_000);
  harness.forget();
  return harness;
}

/** The open reservations of the ledger as words: `group-a-0 by evaluate-eviction`. */
export function reserved(harness: Harness): string[] {
  return harness.ledger.reservations.map(({ statefulSet, ordinal, by }) => `${statefulSet}-${ordinal} by ${by}`).sort();
}

export function reservationOf(harness: Harness, pod: string): Reservation | undefined {
  return harness.ledger.reservations.find(({ statefulSet, ordinal }) => `${statefulSet}-${ordinal}` === pod);
}

/** Processes that judge evictions over a small world in virtual time, beside the one that rolls out in {@link Passes}. */

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
import {
  type Call,
  counting,
  type Interference,
  key,
  namespace,
  Passes,
  played,
} from "../../../shared/reconcile/passes.ts";

type GroupOptions = ConstructorParameters<typeof Passes>[0];

/** How long the API server waits for a webhook, less what the door keeps back. */
const patienceMs = 9_000;

/** Settings by which a review that has to wait is refused at once, unless a test gives other settings. */
const atOnce = { evictionWaitMs: 0 };

/** One process that judges evictions. */
export class Replica {
  readonly calls: Call[] = [];
  interfere: Interference = () => {};
  readonly passes: Passes;
  readonly cluster: Cluster;
  readonly context: Context;
  readonly commit: GroupCommit<EvictionSnapshot>;
  readonly judge: AdmissionHandler;

  constructor(
    passes: Passes,
    changes: (cluster: Cluster) => Partial<Context> = () => ({}),
    gate: Partial<BatchDecider<EvictionSnapshot>> = {},
  ) {
    this.passes = passes;
    this.cluster = counting(createWorldCluster(passes.world), this.calls, () => this.interfere);
    this.context = {
      ...passes.context,
      cluster: this.cluster,
      cache: createListReader(this.cluster, undefined),
      memoryOf: createMemory(),
      settings: atOnce,
      ...changes(this.cluster),
    };
    this.commit = new GroupCommit(this.context, { name, observe, decide, ...gate });
    this.judge = openHandler(evaluateEviction, this.context);
  }

  /** A petition for the pod of that name as it stands now. */
  submit(pod: string, changes: Partial<EvictionReview> & Partial<Eviction> = {}): Promise<AdmissionAnswer> {
    const { dryRun = false, deadlineMs = this.cluster.monotonicMs() + patienceMs, ...more } = changes;
    const eviction = { name: pod, uid: this.uidOf(pod), isPinned: true, pin: [], ...more };
    return this.commit.submit(key, { eviction, dryRun, deadlineMs });
  }

  /** A review of an eviction, as the door gives it to the function. */
  review(pod: string, changes: Partial<AdmissionRequest> = {}): Promise<AdmissionAnswer> {
    const deadlineMs = this.cluster.monotonicMs() + patienceMs;
    return this.judge.review(askedOf({ namespace, name: pod }, { uid: "review", deadlineMs, ...changes }));
  }

  /** Lets time go on until all are answered: guards, in the order of the questions. */
  async guards(...asked: readonly Promise<AdmissionAnswer>[]): Promise<string[]> {
    const answers = await played(this.passes.timeline, Promise.all(asked));
    return answers.map(({ guard }) => guard);
  }

  async answer(asked: Promise<AdmissionAnswer>): Promise<AdmissionAnswer> {
    return played(this.passes.timeline, asked);
  }

  uidOf(pod: string): string {
    return this.passes.world.store.get("pods", { namespace, name: pod }).metadata.uid;
  }

  /** The calls so far as words: `patch leases`. */
  get words(): string[] {
    return this.calls.filter(({ verb }) => verb !== "watch").map(({ verb, resource }) => `${verb} ${resource}`);
  }

  count(words: string): number {
    return this.words.filter((other) => other === words).length;
  }

  get writes(): string[] {
    return this.words.filter((word) => !/^(get|list) /.test(word));
  }
}

/** A budget for the group in {@link Passes}, unless its selector says otherwise. */
export function addBudget(passes: Passes, spec: object = { maxUnavailable: 1 }, budgetName = "budget"): void {
  passes.world.store.create("zoneawarepoddisruptionbudgets", namespace, {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: budgetName },
    spec: { selector: { matchLabels: { "rollout-group": key.group } }, ...spec },
  });
}

/** A whole group under a budget, with a ledger that has been decided on and is old beyond doubt (rule R4). */
export async function governedGroup(spec?: object, group: GroupOptions = { replicas: 4 }): Promise<Passes> {
  const passes = new Passes(group);
  addBudget(passes, spec);
  await passes.run(true);
  await passes.goOn(60_000);
  await passes.run();
  await passes.goOn(6_000);
  passes.forget();
  return passes;
}

/** The open reservations of the ledger as words: `group-a-0 by evaluate-eviction`. */
export function reserved(passes: Passes): string[] {
  return passes.ledger.reservations.map(({ statefulSet, ordinal, by }) => `${statefulSet}-${ordinal} by ${by}`).sort();
}

export function reservationOf(passes: Passes, pod: string): Reservation | undefined {
  return passes.ledger.reservations.find(({ statefulSet, ordinal }) => `${statefulSet}-${ordinal}` === pod);
}

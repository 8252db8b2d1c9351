/**
 * The other half of an eviction: an API server that asks one of several webhook processes, waits ten seconds for it at most, pins
 * what the answer pins, and carries the deletion out when it gets to it; and the people and machines that drain nodes.
 */
import { evaluateEviction } from "../../functions/evaluate-eviction/function.ts";
import { pinningPath, plainPaths } from "../../functions/evaluate-eviction/observe.ts";
import { type Cluster, ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import {
  type AdmissionAnswer,
  type AdmissionRequest,
  type Context,
  createMemory,
  type Judge,
} from "../../functions/shared/pass/definition.ts";
import { silentReporter } from "../../functions/shared/pass/reporter.ts";
import type { Views } from "../../functions/shared/views/view.ts";
import type { StoredPod } from "../world/objects.ts";
import type { World } from "../world/world.ts";
import type { Draw } from "./draw.ts";
import type { Plan } from "./plan.ts";
import type { Wrappers } from "./replica.ts";
import { type CallFaults, type Process, runIn } from "./simulated-cluster.ts";

/** One process that answers reviews. */
export interface Webhook {
  readonly process: Process;
  readonly judge: Judge;
  readonly monotonicMs: () => number;
  /** Asked for dry runs alone: whatever it writes is a trace (invariant E2). */
  readonly isDry: boolean;
}

/** Opens the shipped function over a connection that fails. */
export function openWebhook(options: {
  readonly process: Process;
  readonly cluster: Cluster;
  readonly views: Views;
  readonly wrappers: Wrappers;
  readonly isDry: boolean;
  readonly log: (who: string, what: string) => void;
}): Webhook {
  const { process, wrappers, isDry, log } = options;
  const cluster = wrappers.cluster?.(options.cluster) ?? options.cluster;
  const context: Context = {
    cluster,
    views: wrappers.views?.(options.views) ?? options.views,
    protocol: wrappers.protocol?.(protocol) ?? protocol,
    reporter: { ...silentReporter, conflict: () => log(process.name, "conflict on the ledger") },
    mode: "act",
    namespaces: undefined,
    memoryOf: createMemory(),
  };
  return { process, judge: evaluateEviction.open(context), monotonicMs: () => cluster.monotonicMs(), isDry };
}

export interface EvictionsOptions {
  readonly world: World;
  readonly draw: Draw;
  readonly plan: Plan;
  readonly namespace: string;
  readonly webhooks: () => readonly Webhook[];
  readonly faults: () => CallFaults;
  readonly wrappers: Wrappers;
  /** The API server is about to carry an eviction out. */
  readonly onArrived: (name: string, uid: string | undefined, guard: string) => void;
  /** Code of a webhook goes on. */
  readonly onResume: () => void;
  readonly log: (who: string, what: string) => void;
}

interface Asked {
  readonly name: string;
  readonly dryRun: boolean;
  /** Our own registration, a mutating one: its answer may pin the uid. */
  readonly isPinned: boolean;
}

/** How long the API server waits for a webhook. */
const webhookTimeoutMs = 10_000;
const again = 429;

export class Evictions {
  readonly #options: EvictionsOptions;
  #reviews = 0;

  constructor(options: EvictionsOptions) {
    this.#options = options;
  }

  /** One eviction by name, as kubectl sends it. `done` hears the HTTP status, or 0 when no answer came. */
  evict(name: string, dryRun: boolean, done: (code: number) => void): void {
    const { world, draw, plan, webhooks, log } = this.#options;
    world.timeline.after(this.#latencyMs(), () => {
      const asked = webhooks().filter(({ process, isDry }) => process.alive && isDry === dryRun);
      if (asked.length === 0) return done(500);
      const webhook = draw.pick(asked);
      // Registered as rollout-operator's users have it, the webhook validates, and can pin nothing.
      const isPinned = !draw.chance(plan.unpinned);
      this.#review(webhook, { name, dryRun, isPinned }, (answer) => {
        if (answer === undefined) {
          log("api-server", `the review of ${name} by ${webhook.process.name} broke`);
          return done(500);
        }
        const said = answer.allowed ? answer.guard : `${answer.guard}: ${answer.sentence}`;
        log(webhook.process.name, `evict ${name}${dryRun ? " (dry run)" : ""}: ${said}`);
        if (!answer.allowed) return done(answer.code);
        if (dryRun) return done(201);
        this.#carryOut(name, answer, done);
      });
    });
  }

  #review(
    webhook: Webhook,
    { name, dryRun, isPinned }: Asked,
    then: (answer: AdmissionAnswer | undefined) => void,
  ): void {
    const { world, wrappers, onResume } = this.#options;
    let isOver = false;
    const end = (answer: AdmissionAnswer | undefined) => {
      if (isOver) return;
      isOver = true;
      giveUp();
      then(answer);
    };
    const giveUp = world.timeline.after(this.#options.plan.webhookTimeoutMs ?? webhookTimeoutMs, () => end(undefined));
    // What is sent to a process that is stopped waits there, and is read when it goes on.
    runIn(webhook.process, () => {
      onResume();
      const request = this.#requestTo(webhook, name, dryRun, isPinned);
      webhook.judge.review(wrappers.request?.(request) ?? request).then(
        (answer) => {
          // What a process has not sent before it dies never leaves it.
          if (!webhook.process.alive) return;
          world.timeline.after(this.#latencyMs(), () => end(wrappers.answer?.(answer) ?? answer));
        },
        (error: unknown) => {
          if (!(error instanceof ClusterError)) throw error;
          world.timeline.after(this.#latencyMs(), () => end(undefined));
        },
      );
    });
  }

  #requestTo(webhook: Webhook, name: string, dryRun: boolean, isPinned: boolean): AdmissionRequest {
    const { namespace } = this.#options;
    return {
      uid: `review-${++this.#reviews}`,
      operation: "CREATE",
      resource: { group: "", version: "v1", resource: "pods" },
      user: "",
      subresource: "eviction",
      namespace,
      name,
      dryRun,
      object: { metadata: { name, namespace } },
      oldObject: null,
      path: isPinned ? pinningPath : plainPaths[0],
      deadlineMs: webhook.monotonicMs() + 0.9 * webhookTimeoutMs,
    };
  }

  #carryOut(name: string, answer: Extract<AdmissionAnswer, { allowed: true }>, done: (code: number) => void): void {
    const { world, draw, plan, namespace, onArrived, log } = this.#options;
    const uid = pinnedUid(answer.patch);
    // The API server may be slow after the webhook has answered, or its client may have gone: then it does nothing at all.
    if (draw.chance(plan.loseEvictions)) {
      done(0);
      return;
    }
    const wayMs = draw.chance(plan.slowEvictions) ? draw.between(1_000, plan.slowEvictionMs) : this.#latencyMs();
    world.timeline.after(wayMs, () => {
      if (plan.isRefused || this.#isHeldByDisruptionBudget()) return done(again);
      onArrived(name, uid, answer.guard);
      try {
        world.store.delete("pods", { namespace, name }, uid === undefined ? {} : { preconditions: { uid } });
        log("api-server", `pod ${name} is evicted`);
        done(201);
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
        log("api-server", `pod ${name} is not evicted: ${error.code}`);
        done(error.code);
      }
    });
  }

  #isHeldByDisruptionBudget(): boolean {
    const { items } = this.#options.world.store.list("poddisruptionbudgets", { namespace: this.#options.namespace });
    return items.some(({ status }) => (status?.disruptionsAllowed ?? 0) === 0);
  }

  #latencyMs(): number {
    const { draw, faults } = this.#options;
    return faults().latencyMs * (0.3 + 1.4 * draw.random());
  }

  /** Asks for a pod until it is gone, as drains do, `tries` times at most, every `retryMs`. */
  pursue(pod: StoredPod, tries: number, dryRun = false): void {
    const { world, plan } = this.#options;
    const { name, uid, namespace } = pod.metadata;
    this.evict(name, dryRun, (code) => {
      const current = world.store.find("pods", { namespace, name });
      const isGone = current?.metadata.uid !== uid || current.metadata.deletionTimestamp !== undefined;
      if (dryRun || isGone || code === 404 || tries <= 1) return;
      world.timeline.after(plan.retryMs, () => this.pursue(pod, tries - 1));
    });
  }

  /** One pod, or a whole node: drawn among those that there are. */
  disturb(tries: number): void {
    const { world, draw, plan, namespace, log } = this.#options;
    const pods = world.store.list("pods", { namespace }).items;
    if (pods.length === 0) return;
    const pod = draw.pick(pods);
    const isDry = draw.chance(plan.dryRuns);
    const isWhole = !isDry && draw.chance(plan.wholeNodes);
    if (isWhole) log("user", `drains node ${pod.spec.nodeName}`);
    const drained = isWhole ? pods.filter((one) => one.spec.nodeName === pod.spec.nodeName) : [pod];
    for (const one of drained) this.pursue(one, isDry ? 1 : tries, isDry);
  }
}

function pinnedUid(patch: readonly object[] = []): string | undefined {
  const [operation] = patch as readonly { readonly value?: { readonly preconditions?: { readonly uid?: string } } }[];
  return operation?.value?.preconditions?.uid;
}

/**
 * The outer half of an eviction. The API server asks one of several webhook processes and waits at most ten seconds. It pins
 * what the answer pins, and carries the deletion out at once or later. Users and machines drain nodes.
 */
import { evaluateEviction } from "../../functions/evaluate-eviction/function.ts";
import { pinningPath, plainPaths } from "../../functions/evaluate-eviction/observe.ts";
import type {
  AdmissionAnswer,
  AdmissionHandler,
  AdmissionRequest,
} from "../../functions/shared/admission/definition.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../functions/shared/contract/reporter.ts";
import { ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import type { StoredPod } from "../fake-cluster/objects.ts";
import { askedOf } from "../support/asked-eviction.ts";
import { undrainedOf } from "../support/checkers/liveness.ts";
import type { Actor } from "./actor.ts";
import type { Checker } from "./checker.ts";
import { podsOf } from "./claims/asked.ts";
import { besideOf } from "./other-operator/beside.ts";
import { isOfOperator } from "./other-operator/periods.ts";
import type { Connection, Role } from "./roles.ts";
import type { SeedRun } from "./seed.ts";
import { type Process, runIn } from "./simulated-cluster.ts";
import { olderWrappers } from "./versions/older.ts";
import { isLoose } from "./workloads.ts";

/** A process that answers reviews. */
interface Webhook {
  readonly process: Process;
  readonly handler: AdmissionHandler;
  /** Arrival of the oldest unanswered review of each pod, by the pod's name. */
  readonly arrivals: Map<string, number>;
  readonly serverTimeMs: () => number;
  readonly monotonicMs: () => number;
  /** True if it gets dry runs only: it must not write anything (invariant E2). */
  readonly isDry: boolean;
}

interface Asked {
  readonly name: string;
  readonly dryRun: boolean;
  /** True for our own mutating registration, whose answer may pin the uid. */
  readonly isPinned: boolean;
}

/** How long the API server waits for a webhook. */
const webhookTimeoutMs = 10_000;
const again = 429;

export class Evictions implements Actor {
  readonly name = "evictions";
  readonly disturbances = { evict: () => this.#disturb(this.#run.draw.whole(1, 30)) };
  readonly roles: readonly Role[];
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  readonly #webhooks: Webhook[] = [];
  #reviews = 0;
  /** The pod that a user drains at the end, until it has gone. */
  #drained: StoredPod | undefined;

  constructor(run: SeedRun) {
    this.#run = run;
    const { plan, world, violate } = run;
    const asked = { watches: "reviews" } as const;
    const webhook: Role = {
      ...asked,
      name: "webhook",
      count: plan.webhooks,
      inPeace: "first",
      terms: "eviction",
      diesAfterWrite: true,
      decidesEvictions: true,
      open: (connection) => this.#open(connection, false),
    };
    const dry: Role = {
      ...asked,
      name: "dry",
      count: plan.dryRuns > 0 ? 1 : 0,
      inPeace: "all",
      isSpared: true,
      open: (connection) => this.#open(connection, true),
    };
    const older: Role = {
      ...webhook,
      name: "older-webhook",
      count: 1,
      inPeace: "none",
      open: (connection) => this.#open(connection, false, olderWrappers(run.wrappers)),
    };
    const versions = plan.versions?.older === true ? [webhook, older] : [webhook];
    this.roles = plan.budget === undefined ? [] : [...versions, dry];
    const tracesNothing: Checker = {
      invariants: ["E2"],
      onWritten: ({ process, role }, verb, resource) => {
        if (role === dry) violate("E2", `${process.name} did ${verb} ${resource}, and was asked for dry runs alone`);
      },
    };
    this.checkers = [tracesNothing, { invariants: ["L1"], missing: () => undrainedOf(world, this.#drained) }];
  }

  /** Opens the shipped function over a connection with faults. */
  #open(connection: Connection, isDry: boolean, wrappers = this.#run.wrappers): undefined {
    const { process, cache } = connection;
    const { log } = this.#run;
    const beside = besideOf(this.#run, connection);
    const direct = beside?.cluster ?? connection.cluster;
    const cluster = wrappers.cluster?.(direct) ?? direct;
    const arrivals = new Map<string, number>();
    const wrapped = wrappers.protocol?.(protocol) ?? protocol;
    const context: Context = {
      cluster,
      cache: wrappers.cache?.(cache) ?? cache,
      protocol: wrappers.arrivals?.(wrapped, (pod) => arrivals.get(pod)) ?? wrapped,
      settings: { evictionWaitMs: this.#run.plan.evictionWaitMs },
      reporter: {
        ...silentReporter,
        conflict: () => log(process.name, "conflict on the ledger"),
        parked: ({ parked, ended }) => log(process.name, `${parked} reviews wait: ${ended?.outcome ?? "one more"}`),
      },
      mode: "act",
      namespaces: undefined,
      memoryOf: createMemory(),
      ...podsOf(this.#run, connection),
      ...beside?.context,
    };
    const opened = evaluateEviction.open(context);
    const handler = beside?.answering(opened) ?? opened;
    const [monotonicMs, serverTimeMs] = [() => cluster.monotonicMs(), () => cluster.serverTimeMs()];
    this.#webhooks.push({ process, handler, arrivals, monotonicMs, serverTimeMs, isDry });
  }

  /** The webhooks that can be asked. Dry runs end with the faults. */
  #asked(dryRun: boolean): Webhook[] {
    const isOver = dryRun && !this.#run.isFaulty();
    return this.#webhooks.filter(({ process, isDry }) => process.alive && isDry === dryRun && !isOver);
  }

  /** Lets one webhook stay, and drains without a limit of time, so that every eviction comes to its end. */
  makePeace(): void {
    const { world, draw, plan, namespace, log } = this.#run;
    if (plan.budget === undefined) return;
    // A StatefulSet that Sluice does not roll may have a pod that never becomes ready, and then its zone is never whole.
    const pods = world.store.list("pods", { namespace }).items.filter(({ metadata }) => !isLoose(metadata.name));
    const pod = pods.length > 0 ? draw.pick(pods) : undefined;
    if (pod === undefined) return;
    this.#drained = plan.isBlocked || plan.isRefused ? undefined : pod;
    log("user", `drains ${pod.metadata.name} to the end`);
    // If another webhook refuses every eviction, users drain all pods, and the rollout must end nevertheless.
    const drained = plan.isRefused ? pods : [pod];
    for (const one of drained) this.#pursue(one, Number.POSITIVE_INFINITY);
  }

  /**
   * Drains once more, because a rollout may have taken that pod. Claims have ended by now, and a webhook that only refuses
   * learns that from this drain.
   */
  atRest(): void {
    const { claims, zones } = this.#run.plan;
    // No budget lets a pod of the only zone go: a rollout would have to take it, and no rollout is left.
    if (claims !== undefined && zones > 1) this.makePeace();
  }

  /** Sends an eviction by name as kubectl does. `done` receives the HTTP status, or 0 if no answer came. */
  #evict(name: string, dryRun: boolean, done: (code: number) => void): void {
    const { world, draw, plan, namespace, checkers, log } = this.#run;
    world.timeline.after(this.#latencyMs(), () => {
      const asked = this.#asked(dryRun);
      if (asked.length === 0) return done(500);
      const webhook = draw.pick(asked);
      // A webhook that is registered as for rollout-operator validates, and cannot pin anything.
      const isPinned = !draw.chance(plan.unpinned);
      this.#review(webhook, { name, dryRun, isPinned }, (answer) => {
        if (answer === undefined) {
          log("api-server", `the review of ${name} by ${webhook.process.name} broke`);
          return done(500);
        }
        const outcome = answer.allowed ? answer.guard : `${answer.guard}: ${answer.message}`;
        if (answer.allowed && !dryRun) checkers.allowed({ namespace, name }, pinnedUid(answer.patch), answer.guard);
        log(webhook.process.name, `evict ${name}${dryRun ? " (dry run)" : ""}: ${outcome}`);
        if (!answer.allowed) return done(answer.code);
        if (dryRun) return done(201);
        this.#carryOut(name, answer, done);
      });
    });
  }

  #review(webhook: Webhook, asked: Asked, then: (answer: AdmissionAnswer | undefined) => void): void {
    const { world, draw, plan, log } = this.#run;
    const timeoutMs = plan.webhookTimeoutMs ?? webhookTimeoutMs;
    const gone = new AbortController();
    let isOver = false;
    const end = (answer: AdmissionAnswer | undefined) => {
      if (isOver) return;
      isOver = true;
      giveUp();
      then(answer);
    };
    const leave = (why: string) => () => {
      if (isOver) return;
      log("api-server", `${why}: the API server waits no more for the review of ${asked.name}`);
      gone.abort();
      end(undefined);
    };
    const isLeft = draw.chance(plan.givesUp);
    const leftMs = isLeft ? draw.between(100, timeoutMs) : timeoutMs;
    const giveUp = world.timeline.after(leftMs, leave(isLeft ? "its client gives up" : "time is over"));
    const uid = `review-${++this.#reviews}`;
    const sendsAgain = draw.chance(plan.sendsAgain);
    const first = new AbortController();
    this.#send(webhook, asked, { uid, signal: first.signal }, (answer) => first.signal.aborted || end(answer));
    gone.signal.addEventListener("abort", () => first.abort(), { once: true });
    if (!sendsAgain) return;
    // The connection of the first review breaks: only the second one gets an answer.
    world.timeline.after(draw.between(10, 5_000), () => {
      if (isOver) return;
      log("api-server", `sends the review of ${asked.name} again`);
      first.abort();
      this.#send(webhook, asked, { uid, signal: gone.signal }, end);
    });
  }

  /** A request to a stopped process waits until the process goes on. */
  #send(
    webhook: Webhook,
    { name, dryRun, isPinned }: Asked,
    about: Pick<AdmissionRequest, "uid" | "signal">,
    end: (answer: AdmissionAnswer | undefined) => void,
  ): void {
    const { world, wrappers, onResume, namespace, plan, checkers } = this.#run;
    const { process, arrivals } = webhook;
    runIn(process, () => {
      onResume();
      const path = isPinned ? pinningPath : plainPaths[0];
      const deadlineMs = webhook.monotonicMs() + 0.9 * (plan.statedTimeoutMs ?? webhookTimeoutMs);
      const request = askedOf({ namespace, name }, { ...about, dryRun, path, deadlineMs });
      if (!arrivals.has(name)) arrivals.set(name, webhook.serverTimeMs());
      webhook.handler.review(wrappers.request?.(request) ?? request).then(
        (answer) => {
          arrivals.delete(name);
          checkers.explained({ function: evaluateEviction.name, guard: answer.guard });
          // A process that dies before it has sent the answer never sends it.
          if (!process.alive) return;
          world.timeline.after(this.#latencyMs(), () => end(wrappers.answer?.(answer) ?? answer));
        },
        (error: unknown) => {
          if (!(error instanceof ClusterError)) throw error;
          world.timeline.after(this.#latencyMs(), () => end(undefined));
        },
      );
    });
  }

  #carryOut(name: string, answer: Extract<AdmissionAnswer, { allowed: true }>, done: (code: number) => void): void {
    const { world, draw, plan, namespace, checkers, log } = this.#run;
    const uid = pinnedUid(answer.patch);
    // The API server may do nothing after the webhook has answered, because it was slow or its client has gone.
    if (draw.chance(plan.loseEvictions)) {
      done(0);
      return;
    }
    const wayMs = draw.chance(plan.slowEvictions) ? draw.between(1_000, plan.slowEvictionMs) : this.#latencyMs();
    world.timeline.after(wayMs, () => {
      if (plan.isRefused || this.#isBlockedByDisruptionBudget()) return done(again);
      const preconditions = pinnedIn(answer.patch);
      const { resourceVersion } = preconditions;
      const now = world.store.find("pods", { namespace, name })?.metadata.resourceVersion;
      // A pinned revision that is not the pod's any more takes nothing.
      if (resourceVersion === undefined || resourceVersion === now)
        checkers.evicted({ namespace, name }, uid, answer.guard);
      try {
        world.store.delete("pods", { namespace, name }, uid === undefined ? {} : { preconditions });
        log("api-server", `pod ${name} is evicted`);
        done(201);
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
        log("api-server", `pod ${name} is not evicted: ${error.code}`);
        done(error.code);
      }
    });
  }

  #isBlockedByDisruptionBudget(): boolean {
    const { items } = this.#run.world.store.list("poddisruptionbudgets", { namespace: this.#run.namespace });
    return items.some(({ status }) => (status?.disruptionsAllowed ?? 0) === 0);
  }

  #latencyMs(): number {
    const { draw, faults } = this.#run;
    return faults().latencyMs * (0.3 + 1.4 * draw.random());
  }

  /** Evicts a pod again and again until it is gone, as drains do: at most `tries` times, every `retryMs`. */
  #pursue(pod: StoredPod, tries: number, dryRun = false): void {
    const { world, plan } = this.#run;
    const { name, uid, namespace } = pod.metadata;
    this.#evict(name, dryRun, (code) => {
      const current = world.store.find("pods", { namespace, name });
      const isGone = current?.metadata.uid !== uid || current.metadata.deletionTimestamp !== undefined;
      if (dryRun || isGone || code === 404 || tries <= 1) return;
      world.timeline.after(plan.retryMs, () => this.#pursue(pod, tries - 1));
    });
  }

  /** Drains an existing pod, or a whole node. */
  #disturb(tries: number): void {
    const { world, draw, plan, namespace, log } = this.#run;
    // rollout-operator's own pods leave in ways of their own.
    const pods = world.store.list("pods", { namespace }).items.filter((one) => !isOfOperator(one));
    if (pods.length === 0) return;
    const pod = draw.pick(pods);
    const isDry = draw.chance(plan.dryRuns);
    const isWhole = !isDry && draw.chance(plan.wholeNodes);
    if (isWhole) log("user", `drains node ${pod.spec.nodeName}`);
    const drained = isWhole ? pods.filter((one) => one.spec.nodeName === pod.spec.nodeName) : [pod];
    for (const one of drained) this.#pursue(one, isDry ? 1 : tries, isDry);
  }
}

function pinnedUid(patch: readonly object[] = []): string | undefined {
  const [operation] = patch as readonly { readonly value?: { readonly preconditions?: { readonly uid?: string } } }[];
  return operation?.value?.preconditions?.uid;
}

/** The preconditions that the answer pins: the uid, and for a pod that is down also its revision. */
function pinnedIn(patch: readonly object[] = []): { readonly uid?: string; readonly resourceVersion?: string } {
  const uid = pinnedUid(patch);
  const last = patch.at(-1) as { readonly path?: string; readonly value?: unknown } | undefined;
  const isRevision = last?.path?.endsWith("/resourceVersion") === true;
  return { ...(uid === undefined ? {} : { uid }), ...(isRevision ? { resourceVersion: String(last.value) } : {}) };
}

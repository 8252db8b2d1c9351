/** One seed: a world, some replicas of the function, everything that can go wrong, and the checkers that watch. */
import { advanceZoneRollout } from "../../functions/advance-zone-rollout/function.ts";
import type { LeaseObject } from "../../functions/shared/cluster.ts";
import type { FunctionDefinition } from "../../functions/shared/definition.ts";
import { type LedgerUnreadable, parseLedger } from "../../functions/shared/reservation.ts";
import type { GroupKey } from "../../functions/shared/statefulsets.ts";
import type { GroupView } from "../../functions/shared/views.ts";
import type { StoredPod } from "../world/objects.ts";
import { VirtualTimeline } from "../world/timeline.ts";
import { createWorld, type World } from "../world/world.ts";
import { BudgetPast } from "./checkers/budgets.ts";
import { checkLedgerWrite } from "./checkers/ledger-write.ts";
import { describePod, missingOf } from "./checkers/liveness.ts";
import { Past } from "./checkers/past.ts";
import { TrueWorldChecker } from "./checkers/true-world.ts";
import { type Connection, connectProcess } from "./connection.ts";
import { createDraw, type Draw } from "./draw.ts";
import { Evictions, openWebhook, type Webhook } from "./evictions.ts";
import { type Disturbance, disturbances, drawPlan, type Plan } from "./plan.ts";
import { createRecycler } from "./recycler.ts";
import { type Replica, startReplica } from "./replica.ts";
import type { SimulationOptions, SimulationResult, Violation } from "./seed.ts";
import { type CallFaults, type CallObserver, noFaults, type Process } from "./simulated-cluster.ts";
import { RevisionClock } from "./stale-views.ts";
import { Users } from "./users.ts";

type ProcessKind = "replica" | "recycler" | "webhook" | "dry";

const namespace = "db";
const group = "group";
const key = { namespace, group };
/** How long a world at peace may take to converge. */
const livenessMs = 45 * 60_000;

/** Runs one seed to its end: faults, then peace, then the question whether everything ended well (L1). */
export async function simulate(seed: number, options: SimulationOptions = {}): Promise<SimulationResult> {
  return new Simulation(seed, options).run();
}

/** Ticks come after the last microtask, and cost far less than `setImmediate`. */
function microtasksDone(): Promise<void> {
  return new Promise((resolve) => queueMicrotask(() => process.nextTick(resolve)));
}

class Simulation {
  readonly #seed: number;
  readonly #options: SimulationOptions;
  readonly #draw: Draw;
  readonly #plan: Plan;
  readonly #timeline = new VirtualTimeline();
  readonly #world: World;
  readonly #users: Users;
  readonly #violations: Violation[] = [];
  readonly #history: string[] = [];
  readonly #revisions = new RevisionClock();
  readonly #lastViews = new Map<string, GroupView>();
  readonly #checker: TrueWorldChecker;
  readonly #recycler: FunctionDefinition;
  readonly #tell = (who: string, what: string) => this.#log(who, what);
  /** Every reservation that was ever written: pod uid, function and stamp. */
  readonly #written = new Set<string>();
  readonly #startMs = this.#timeline.nowMs();
  readonly #evictions: Evictions;
  #webhooks: (Webhook & { stop: () => void })[] = [];
  #replicas: { process: Process; definition: FunctionDefinition; replica: Replica; stop: () => void }[] = [];
  #processesMade = 0;
  #taken = 0;
  #faulty = true;
  #slowUntilMs = 0;
  #recycleUntilMs = Number.POSITIVE_INFINITY;
  #resumed = false;
  /** The pod that somebody drains at the end, until it has gone. */
  #drained: StoredPod | undefined;

  constructor(seed: number, options: SimulationOptions) {
    this.#seed = seed;
    this.#options = options;
    this.#draw = createDraw(seed);
    const plan = drawPlan(this.#draw);
    this.#plan = options.aim?.(plan, this.#draw) ?? plan;
    const { readyAfterMs, goneAfterMs, controllerDelayMs } = this.#plan;
    this.#world = createWorld({
      timeline: this.#timeline,
      seed: seed + 1,
      controllerDelayMs: () =>
        this.#timeline.nowMs() < this.#slowUntilMs ? 15_000 : controllerDelayMs * this.#draw.between(0.2, 2),
      readyAfterMs: () => readyAfterMs * this.#draw.between(0.5, 1.5),
      goneAfterMs: () => goneAfterMs * this.#draw.between(0.2, 1.5),
      keepVersions: true,
    });
    this.#users = new Users({
      world: this.#world,
      draw: this.#draw,
      plan: this.#plan,
      namespace,
      group,
      log: this.#tell,
    });
    const past = new Past(this.#world);
    const budgets = new BudgetPast(this.#world, namespace);
    this.#checker = new TrueWorldChecker({
      world: this.#world,
      past,
      budgets,
      namespace,
      skewMs: this.#plan.skewMs,
      violate: (invariant, sentence) => this.#violate(invariant, sentence),
    });
    this.#evictions = this.#createEvictions();
    this.#recycler = createRecycler(
      this.#draw,
      () => this.#faulty && this.#timeline.nowMs() < this.#recycleUntilMs,
      this.#plan.recycleEveryMs,
    );
    this.#listen();
  }

  #createEvictions(): Evictions {
    return new Evictions({
      world: this.#world,
      draw: this.#draw,
      plan: this.#plan,
      namespace,
      webhooks: () => this.#webhooks,
      faults: () => this.#faults(),
      wrappers: this.#options.wrappers ?? {},
      onArrived: (name, uid, guard) => {
        this.#taken++;
        const taker = guard === "out-of-scope" ? "ungoverned" : "eviction";
        this.#checker.onArrived("api-server", taker, { namespace, name }, uid === undefined ? {} : { uid });
      },
      onResume: () => {
        this.#resumed = true;
      },
      log: (who, what) => this.#log(who, what),
    });
  }

  async run(): Promise<SimulationResult> {
    this.#world.settle();
    for (let index = 0; index < this.#plan.processes; index++) this.#startProcess(advanceZoneRollout);
    for (let index = 0; index < this.#plan.recyclers; index++) this.#startProcess(this.#recycler);
    if (this.#plan.budget !== undefined) {
      for (let index = 0; index < this.#plan.webhooks; index++) this.#startWebhook(false);
      if (this.#plan.dryRuns > 0) this.#startWebhook(true);
    }
    await this.#runFor(this.#draw.between(11_000, 15_000));
    this.#recycleUntilMs = this.#timeline.nowMs() + this.#plan.recycleForMs;
    this.#users.changeTemplates();
    for (const kind of disturbances) this.#planDisturbance(kind);
    await this.#runFor(this.#plan.safetyMs);
    this.#faulty = false;
    this.#log("simulation", "faults stop");
    if (this.#violations.length === 0) {
      this.#users.makePeace();
      this.#keepOneReplica();
      this.#drainInPeace();
      await this.#converge();
    }
    for (const { stop } of [...this.#replicas, ...this.#webhooks]) stop();
    this.#world.stop();
    return {
      seed: this.#seed,
      violations: this.#violations,
      history: this.#history,
      taken: this.#taken,
      virtualMs: this.#timeline.nowMs() - this.#startMs,
    };
  }

  #faults(): CallFaults {
    return this.#faulty ? this.#plan.faults : { ...noFaults, latencyMs: this.#plan.faults.latencyMs };
  }

  #startProcess(definition: FunctionDefinition): void {
    const kind = definition === advanceZoneRollout ? "replica" : "recycler";
    let replica: Replica | undefined;
    const { process, cluster, views, stop } = this.#connect(kind, (changed) => replica?.wake(changed, false));
    const { sweepMs } = this.#plan;
    const wrappers = this.#options.wrappers ?? {};
    replica = startReplica({
      process,
      draw: this.#draw,
      cluster,
      views,
      wrappers,
      sweepMs,
      log: this.#tell,
      definition,
    });
    this.#replicas.push({ process, definition, replica, stop });
  }

  #startWebhook(isDry: boolean): void {
    const { process, cluster, views, stop } = this.#connect(isDry ? "dry" : "webhook", () => undefined);
    const { sweepMs } = this.#plan;
    const wrappers = this.#options.wrappers ?? {};
    const webhook = openWebhook({ process, cluster, views, wrappers, isDry, sweepMs, log: this.#tell });
    this.#webhooks.push({ ...webhook, stop });
  }

  #connect(kind: ProcessKind, onChange: (changed: GroupKey) => void): Connection {
    const process: Process = { name: `${kind}-${++this.#processesMade}`, alive: true };
    this.#log("simulation", `${process.name} starts`);
    return connectProcess({
      process,
      world: this.#world,
      draw: this.#draw,
      plan: this.#plan,
      faults: () => this.#faults(),
      observer: this.#observerOf(kind, process),
      revisions: this.#revisions,
      judgesEvictions: kind === "webhook",
      onResume: () => {
        this.#resumed = true;
      },
      onChange,
      onView: (view) => this.#lastViews.set(process.name, view),
    });
  }

  #observerOf(kind: ProcessKind, process: Process): CallObserver {
    const isRollout = kind === "replica";
    return {
      onDeleteSent: (replica, resource, at, preconditions) => {
        if (resource !== "pods") return;
        this.#checker.noteSent(preconditions);
        if (isRollout) this.#checker.onSent(replica, at, preconditions);
      },
      onDeleteArrived: (replica, resource, at, preconditions) => {
        if (resource !== "pods") return;
        this.#taken++;
        this.#checker.onArrived(replica, "rollout", at, preconditions);
      },
      onPatched: (replica, resource, after) => {
        if (resource === "leases") this.#checkWrite(replica, after as LeaseObject);
      },
      onWritten: (who, verb, resource) => {
        if (kind === "dry") this.#violate("E2", `${who} did ${verb} ${resource}, and was asked for dry runs alone`);
        // The cruellest moment: the reservation stands, and nobody has heard of it.
        if (kind !== "webhook" || verb !== "patch" || !this.#faulty || !this.#draw.chance(this.#plan.dieAfterWrite))
          return;
        this.#killWebhook(process);
      },
      log: (who, what) => this.#log(who, what),
    };
  }

  #killWebhook(process = this.#draw.pick(this.#webhooks)?.process): void {
    const index = this.#webhooks.findIndex((webhook) => webhook.process === process);
    const victim = this.#webhooks[index];
    if (victim === undefined || victim.isDry) return;
    victim.stop();
    this.#webhooks.splice(index, 1);
    this.#log("simulation", `${victim.process.name} is killed`);
    this.#timeline.after(this.#draw.between(100, 20_000), () => {
      if (this.#faulty) this.#startWebhook(false);
    });
  }

  /** kill -9: nothing of the process goes on; what it has sent may still arrive. */
  #crash(): void {
    const index = this.#draw.whole(0, this.#replicas.length - 1);
    const victim = this.#replicas[index];
    if (victim === undefined) return;
    victim.stop();
    this.#replicas.splice(index, 1);
    this.#log("simulation", `${victim.process.name} is killed`);
    this.#timeline.after(this.#draw.between(100, 20_000), () => {
      if (this.#faulty) this.#startProcess(victim.definition);
    });
  }

  /** What one healthy process cannot bring to its end, no number of them may: all others are killed for good. */
  #keepOneReplica(): void {
    const rollouts = this.#replicas.filter(({ definition }) => definition === advanceZoneRollout);
    const kept = rollouts.length > 0 ? this.#draw.pick(rollouts) : undefined;
    for (const replica of this.#replicas) if (replica !== kept) replica.stop();
    this.#replicas = kept === undefined ? [] : [kept];
    if (kept === undefined) this.#startProcess(advanceZoneRollout);
  }

  /** One webhook stays too, and whoever drains has all the time in the world: every eviction comes to its end. */
  #drainInPeace(): void {
    if (this.#plan.budget === undefined) return;
    const [kept, ...others] = this.#webhooks.filter(({ isDry }) => !isDry);
    for (const webhook of others) webhook.stop();
    this.#webhooks = kept === undefined ? [] : [kept];
    if (kept === undefined) this.#startWebhook(false);
    const pods = this.#world.store.list("pods", { namespace }).items;
    const pod = pods.length > 0 ? this.#draw.pick(pods) : undefined;
    if (pod === undefined) return;
    this.#drained = this.#plan.isHeld || this.#plan.isRefused ? undefined : pod;
    this.#log("user", `drains ${pod.metadata.name} to the end`);
    // Where nothing that is allowed may happen, everybody drains everything, and the rollout is to end all the same.
    const drained = this.#plan.isRefused ? pods : [pod];
    for (const one of drained) this.#evictions.pursue(one, Number.POSITIVE_INFINITY);
  }

  #planDisturbance(kind: Disturbance): void {
    const everyMs = this.#plan.every[kind];
    if (everyMs === 0) return;
    this.#timeline.after(-Math.log(1 - this.#draw.random()) * everyMs, () => {
      if (!this.#faulty) return;
      if (kind === "crash") this.#crash();
      else if (kind === "crashWebhook") this.#killWebhook();
      else if (kind === "evict") this.#evictions.disturb(this.#draw.whole(1, 30));
      else if (kind === "slowController") {
        this.#log("world", "the StatefulSet controller is slow for 20 s");
        this.#slowUntilMs = this.#timeline.nowMs() + 20_000;
      } else this.#users.disturb(kind);
      this.#planDisturbance(kind);
    });
  }

  /** The world's changes as events that may be lost, doubled, late and out of order. */
  #listen(): void {
    const { store } = this.#world;
    const told = () => {
      this.#revisions.note(this.#timeline.nowMs(), store.revision);
      if (this.#plan.watching) this.#resumed = true;
      for (const { replica } of this.#replicas) {
        const copies = this.#draw.chance(this.#plan.doubleEvents) ? 2 : 1;
        for (let copy = 0; copy < copies; copy++) {
          if (this.#draw.chance(this.#plan.loseEvents)) continue;
          this.#timeline.after(this.#draw.between(1, 200), () => replica.wake(key, false));
        }
      }
    };
    store.onChange("pods", (change) => {
      if (this.#options.verbose) this.#log("pod", describePod(this.#world, change.final.metadata));
      told();
    });
    store.onChange("statefulsets", told);
    store.onChange("leases", () => this.#revisions.note(this.#timeline.nowMs(), store.revision));
  }

  async #runFor(ms: number): Promise<void> {
    const endMs = this.#timeline.nowMs() + ms;
    for (;;) {
      const nextMs = this.#timeline.nextAtMs();
      if (nextMs === undefined || nextMs > endMs || this.#violations.length > 0) return;
      await this.#step();
    }
  }

  async #step(): Promise<void> {
    this.#resumed = false;
    this.#timeline.step();
    // Whatever the step resolved goes on until it waits again: after all microtasks, before the next event.
    if (this.#resumed || this.#plan.watching) await microtasksDone();
  }

  async #converge(): Promise<void> {
    const endMs = this.#timeline.nowMs() + livenessMs;
    let checkMs = 0;
    for (;;) {
      const nextMs = this.#timeline.nextAtMs();
      if (this.#violations.length > 0) return;
      if (this.#timeline.nowMs() >= checkMs) {
        const missing = missingOf(this.#world, key, this.#drained);
        if (missing === undefined) return;
        if (nextMs === undefined || nextMs > endMs) {
          this.#violate("L1", missing);
          return;
        }
        checkMs = this.#timeline.nowMs() + 2_000;
      }
      await this.#step();
    }
  }

  #checkWrite(replica: string, after: LeaseObject): void {
    try {
      const all = parseLedger(key, after).reservations;
      // An eviction whose answer came too late gives back what it had renewed: that was decided when it was first written.
      const made = all.filter(({ uid, by, stampMs }) => !this.#written.has(`${uid} ${by} ${stampMs}`));
      for (const { uid, by, stampMs } of made) this.#written.add(`${uid} ${by} ${stampMs}`);
      this.#checker.noteWritten(made, all);
      const view = this.#lastViews.get(replica);
      if (view !== undefined) checkLedgerWrite(view, all, made, (...said) => this.#violate(...said));
    } catch (error) {
      this.#violate("R2", (error as LedgerUnreadable).message);
    }
  }

  #violate(invariant: string, sentence: string): void {
    this.#violations.push({ invariant, sentence, atMs: this.#timeline.nowMs() - this.#startMs });
    this.#log("CHECKER", `${invariant} is violated: ${sentence}`);
  }

  #log(who: string, what: string): void {
    if (!this.#options.verbose) return;
    const seconds = ((this.#timeline.nowMs() - this.#startMs) / 1000).toFixed(3).padStart(9);
    this.#history.push(`${seconds}  ${who.padEnd(12)} ${what}`);
  }
}

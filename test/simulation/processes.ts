/** The processes of one seed: they are started, killed, stopped for a while and told the wrong time. */
import { advanceZoneRollout } from "../../functions/advance-zone-rollout/function.ts";
import { keepLedgers } from "../../functions/keep-ledgers/function.ts";
import type { KindName } from "../../functions/shared/ledger/claim.ts";
import type { GroupKey } from "../../functions/shared/objects/statefulsets.ts";
import type { FunctionDefinition } from "../../functions/shared/pass/definition.ts";
import type { GroupView } from "../../functions/shared/views/view.ts";
import type { World } from "../world/world.ts";
import { type Connection, connectProcess } from "./connection.ts";
import type { Draw } from "./draw.ts";
import { openWebhook, type Webhook } from "./evictions.ts";
import type { Plan } from "./plan.ts";
import { createRecycler } from "./recycler.ts";
import { type Replica, startReplica, type Wrappers } from "./replica.ts";
import {
  type CallFaults,
  type CallObserver,
  newProcess,
  type Process,
  runIn,
  type ServerClock,
} from "./simulated-cluster.ts";
import { RevisionClock } from "./stale-views.ts";

export type ProcessKind = "replica" | "recycler" | "keeper" | "webhook" | "dry" | "taker";

export interface ProcessesOptions {
  readonly world: World;
  readonly draw: Draw;
  readonly plan: Plan;
  readonly wrappers: Wrappers;
  /** False once the faults have stopped. */
  readonly isFaulty: () => boolean;
  readonly faults: () => CallFaults;
  readonly observerOf: (kind: ProcessKind, process: Process) => CallObserver;
  /** A process has started that makes claims of a kind. */
  readonly openTaker: (kind: KindName, connection: Connection) => void;
  /** Code of a process goes on. */
  readonly onResume: () => void;
  readonly log: (who: string, what: string) => void;
}

interface Running {
  readonly process: Process;
  readonly clock: ServerClock;
  stop(): void;
}

export class Processes {
  readonly revisions = new RevisionClock();
  readonly #options: ProcessesOptions;
  readonly #recycler: FunctionDefinition;
  /** By the name of a process, and by group. */
  readonly #lastViews = new Map<string, Map<string, GroupView>>();
  #webhooks: (Webhook & Running)[] = [];
  #replicas: (Running & { readonly definition: FunctionDefinition; readonly replica: Replica })[] = [];
  #takers: (Running & { readonly claims: KindName })[] = [];
  #made = 0;
  /** How far the clocks of all API servers have been set off the true time. */
  #allOffMs = 0;
  #recycleUntilMs = Number.POSITIVE_INFINITY;

  constructor(options: ProcessesOptions) {
    const { world, draw, plan, isFaulty } = options;
    this.#options = options;
    this.#recycler = createRecycler(
      draw,
      () => isFaulty() && world.timeline.nowMs() < this.#recycleUntilMs,
      plan.recycleEveryMs,
    );
  }

  start(): void {
    const { plan } = this.#options;
    for (let index = 0; index < plan.processes; index++) this.#startReplica(advanceZoneRollout);
    for (let index = 0; index < plan.recyclers; index++) this.#startReplica(this.#recycler);
    for (let index = 0; index < plan.keepers; index++) this.#startReplica(keepLedgers);
    for (const kind of plan.claims?.kinds ?? []) for (let index = 0; index < 2; index++) this.#startTaker(kind);
    if (plan.budget === undefined) return;
    for (let index = 0; index < plan.webhooks; index++) this.#startWebhook(false);
    if (plan.dryRuns > 0) this.#startWebhook(true);
  }

  /** From now on the other function has as long as the plan says. */
  limitRecycling(): void {
    this.#recycleUntilMs = this.#options.world.timeline.nowMs() + this.#options.plan.recycleForMs;
  }

  webhooks(): readonly Webhook[] {
    return this.#webhooks;
  }

  /** The view of a group that a process was last handed: it may look at another one before it writes. */
  lastView(name: string, group: string): GroupView | undefined {
    return this.#lastViews.get(name)?.get(group);
  }

  /** An event reaches each replica, or is lost, doubled, late and out of order. */
  tell(key: GroupKey): void {
    const { draw, plan, world } = this.#options;
    for (const { replica, process } of this.#replicas) {
      const copies = draw.chance(plan.doubleEvents) ? 2 : 1;
      for (let copy = 0; copy < copies; copy++) {
        if (draw.chance(plan.loseEvents)) continue;
        world.timeline.after(draw.between(1, 200), () => runIn(process, () => replica.wake(key, false)));
      }
    }
  }

  #startReplica(definition: FunctionDefinition): void {
    const { draw, plan, wrappers, log } = this.#options;
    const kind = kindOf(definition);
    let replica: Replica | undefined;
    const connection = this.#connect(kind, (changed) => replica?.wake(changed, false));
    const { process, cluster, views, clock, stop } = connection;
    const { sweepMs, sweepsAtOnce } = plan;
    replica = startReplica({ process, draw, cluster, views, wrappers, sweepMs, sweepsAtOnce, log, definition });
    this.#replicas.push({ process, clock, definition, replica, stop });
  }

  #startTaker(claims: KindName): void {
    const connection = this.#connect("taker", () => undefined);
    const { process, clock, stop } = connection;
    this.#takers.push({ process, clock, claims, stop });
    this.#options.openTaker(claims, connection);
  }

  #startWebhook(isDry: boolean): void {
    const { wrappers, log } = this.#options;
    const { process, cluster, views, clock, stop } = this.#connect(isDry ? "dry" : "webhook", () => undefined);
    const webhook = openWebhook({ process, cluster, views, wrappers, isDry, log });
    this.#webhooks.push({ ...webhook, clock, stop });
  }

  #connect(kind: ProcessKind, onChange: (changed: GroupKey) => void): Connection & { readonly clock: ServerClock } {
    const { world, draw, plan, wrappers, faults, observerOf, onResume, log } = this.#options;
    const process = newProcess(`${kind}-${++this.#made}`);
    const clock: ServerClock = { skewMs: this.#allOffMs + plan.skewMs * (draw.chance(0.5) ? 1 : -1) };
    log("simulation", `${process.name} starts`);
    const views = new Map<string, GroupView>();
    this.#lastViews.set(process.name, views);
    const connection = connectProcess({
      process,
      world,
      draw,
      plan,
      wrappers,
      faults,
      clock,
      observer: observerOf(kind, process),
      revisions: this.revisions,
      judgesEvictions: kind === "webhook",
      onResume,
      onChange,
      onView: ({ group }, view) => views.set(group, view),
    });
    return { ...connection, clock };
  }

  killWebhook(process = this.#anyWebhook()): void {
    const { draw, world, isFaulty, log } = this.#options;
    const index = this.#webhooks.findIndex((webhook) => webhook.process === process);
    const victim = this.#webhooks[index];
    if (victim === undefined || victim.isDry) return;
    victim.stop();
    this.#webhooks.splice(index, 1);
    log("simulation", `${victim.process.name} is killed`);
    world.timeline.after(draw.between(100, 20_000), () => {
      if (isFaulty()) this.#startWebhook(false);
    });
  }

  #anyWebhook(): Process | undefined {
    return this.#webhooks.length > 0 ? this.#options.draw.pick(this.#webhooks).process : undefined;
  }

  /** kill -9: nothing of the process goes on; what it has sent may still arrive. */
  crash(): void {
    const { draw, world, isFaulty, log } = this.#options;
    if (this.#takers.length > 0 && draw.chance(0.7)) {
      this.killTaker(draw.pick(this.#takers).process);
      return;
    }
    const index = draw.whole(0, this.#replicas.length - 1);
    const victim = this.#replicas[index];
    if (victim === undefined) return;
    victim.stop();
    this.#replicas.splice(index, 1);
    log("simulation", `${victim.process.name} is killed`);
    world.timeline.after(draw.between(100, 20_000), () => {
      if (isFaulty()) this.#startReplica(victim.definition);
    });
  }

  killTaker(process: Process): void {
    const { draw, world, isFaulty, log } = this.#options;
    const victim = this.#takers.find((taker) => taker.process === process);
    if (victim === undefined) return;
    victim.stop();
    this.#takers = this.#takers.filter((taker) => taker !== victim);
    log("simulation", `${victim.process.name} is killed`);
    world.timeline.after(draw.between(100, 20_000), () => {
      if (isFaulty()) this.#startTaker(victim.claims);
    });
  }

  /** kill -STOP, and -CONT after 1 to 60 s: what it has sent arrives, what is sent to it waits, its clock goes on. */
  pause(): void {
    const { draw, world, log } = this.#options;
    const running = [...this.#replicas, ...this.#takers, ...this.#webhooks].filter(
      ({ process }) => process.backlog === undefined,
    );
    if (running.length === 0) return;
    const { process } = draw.pick(running);
    process.backlog = [];
    log("simulation", `${process.name} is stopped`);
    world.timeline.after(draw.between(1_000, 60_000), () => this.#goOn(process));
  }

  #goOn(process: Process): void {
    const { world, log } = this.#options;
    const backlog = process.backlog ?? [];
    process.backlog = undefined;
    if (process.alive) log("simulation", `${process.name} goes on`);
    for (const go of backlog) world.timeline.after(0, () => runIn(process, go));
  }

  /** The clock of the API server that one process talks to is set; it stays within what the protocol lets clocks differ by. */
  stepClock(): void {
    const { draw, log } = this.#options;
    const running = [...this.#replicas, ...this.#takers, ...this.#webhooks];
    if (running.length === 0) return;
    const { process, clock } = draw.pick(running);
    clock.skewMs = this.#allOffMs + draw.between(-14_000, 14_000);
    log("simulation", `the clock that ${process.name} is told by is ${(clock.skewMs / 1000).toFixed(1)} s off`);
  }

  /** The clocks of all API servers are set, by as much. */
  stepAllClocks(byMs: number): void {
    this.#options.log("simulation", `all clocks are set by ${(byMs / 1000).toFixed(0)} s`);
    this.#allOffMs += byMs;
    for (const { clock } of [...this.#replicas, ...this.#takers, ...this.#webhooks]) clock.skewMs += byMs;
  }

  /** What one healthy process of each function cannot bring to its end, no number of them may: all others are killed for good. */
  keepOne(): void {
    const { draw, plan } = this.#options;
    for (const { process } of [...this.#replicas, ...this.#takers, ...this.#webhooks]) this.#goOn(process);
    const functions = [advanceZoneRollout, keepLedgers];
    const kept = functions.flatMap((definition) => {
      const running = this.#replicas.filter((replica) => replica.definition === definition);
      return running.length > 0 ? [draw.pick(running)] : [];
    });
    for (const replica of this.#replicas) if (!kept.includes(replica)) replica.stop();
    this.#replicas = kept;
    for (const { stop } of this.#takers) stop();
    this.#takers = [];
    for (const kind of plan.claims?.kinds ?? []) this.#startTaker(kind);
    for (const definition of functions)
      if (!kept.some((replica) => replica.definition === definition)) this.#startReplica(definition);
    if (plan.budget === undefined) return;
    const [webhook, ...others] = this.#webhooks.filter(({ isDry }) => !isDry);
    for (const other of others) other.stop();
    this.#webhooks = webhook === undefined ? [] : [webhook];
    if (webhook === undefined) this.#startWebhook(false);
  }

  stop(): void {
    for (const { stop } of [...this.#replicas, ...this.#takers, ...this.#webhooks]) stop();
  }
}

function kindOf(definition: FunctionDefinition): ProcessKind {
  if (definition === advanceZoneRollout) return "replica";
  return definition === keepLedgers ? "keeper" : "recycler";
}

/** Starts, kills and stops the processes of one seed, those of all actors, and sets their clocks. */

import type { GroupView } from "../../functions/shared/cache/cache.ts";
import type { ObjectRef } from "../../functions/shared/contract/keys.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import type { Actor } from "./actor.ts";
import { viewKey } from "./checker.ts";
import { connectProcess } from "./connection.ts";
import type { Connection, Role, WatchSource } from "./roles.ts";
import type { SeedRun } from "./seed.ts";
import { newProcess, type Process, type ProcessClocks, runIn } from "./simulated-cluster.ts";
import type { RevisionClock } from "./stale-views.ts";

interface Running {
  readonly role: Role;
  readonly process: Process;
  readonly clock: ProcessClocks;
  readonly trigger: ((key: GroupKey) => void) | undefined;
  readonly onEvent: Connection["onEvent"];
  stop(): void;
}

export class Processes implements Actor {
  readonly name = "processes";
  readonly disturbances = {
    crash: () => this.#crash(),
    crashWebhook: () => this.#crashWebhook(),
    stopProcess: () => this.#pause(),
    clock: () => this.#stepClock(),
    uninstall: () => this.#uninstall(),
  };
  readonly #run: SeedRun;
  readonly #revisions: RevisionClock;
  readonly #roles: readonly Role[];
  #running: readonly Running[] = [];
  #made = 0;
  /** Until then the roles that are installed together are away. */
  #awayUntilMs = 0;
  /** How far the clocks of all API servers are off the true time, in milliseconds. */
  #allOffMs = 0;

  constructor(run: SeedRun, revisions: RevisionClock, roles: readonly Role[]) {
    this.#run = run;
    this.#revisions = revisions;
    this.#roles = roles;
  }

  start(): void {
    for (const role of this.#roles) for (let index = 0; index < role.count; index++) this.#start(role);
  }

  /** Sends an event to each process that gets events. It may be lost, doubled, late or out of order. */
  report(key: GroupKey, by: ObjectRef): void {
    const { draw, plan, world } = this.#run;
    for (const { trigger, onEvent, process, role } of this.#running) {
      if (role.watches !== "events") continue;
      const take = () => {
        onEvent?.(by.resource, by);
        trigger?.(key);
      };
      const deliver = () => runIn(process, take);
      const copies = draw.chance(plan.doubleEvents) ? 2 : 1;
      for (let copy = 0; copy < copies; copy++) {
        if (draw.chance(plan.loseEvents)) continue;
        world.timeline.after(draw.between(1, 200), deliver);
      }
    }
  }

  #start(role: Role): void {
    const { draw, plan, checkers, log } = this.#run;
    const process = newProcess(`${role.name}-${++this.#made}`);
    const offMs = plan.skewMs * (draw.chance(0.5) ? 1 : -1);
    const clock: ProcessClocks = { skewMs: this.#allOffMs + offMs, wallSkewMs: -offMs };
    log("simulation", `${process.name} starts`);
    const views = new Map<string, GroupView>();
    const caller = { process, role, views };
    const observer = checkers.observe(caller);
    let trigger: Running["trigger"];
    const connection = connectProcess(this.#run, {
      process,
      clock,
      observer: {
        ...observer,
        onWritten: (...call) => {
          observer.onWritten(...call);
          this.#written(role, process, call[1]);
        },
      },
      revisions: this.#revisions,
      decidesEvictions: role.decidesEvictions ?? false,
      comesAndGoes: role.watches === "events",
      onChange: (key) => trigger?.(key),
      onVerdict: (key, verdict) => {
        checkers.explained(verdict);
        checkers.verdict(caller, key, verdict.zone);
      },
      onView: (key, view) => views.set(viewKey(key), view),
    });
    trigger = role.open(connection);
    this.#running = [
      ...this.#running,
      { role, process, clock, trigger, onEvent: connection.onEvent, stop: connection.stop },
    ];
  }

  /** Kills a process at the worst moment: its reservation stands in the ledger, and no other process has learnt of it. */
  #written(role: Role, process: Process, verb: string): void {
    const { draw, plan, isFaulty } = this.#run;
    if (role.diesAfterWrite !== true || verb !== "patch" || !isFaulty() || !draw.chance(plan.dieAfterWrite)) return;
    const victim = this.#running.find((running) => running.process === process);
    if (victim !== undefined) this.#kill(victim);
  }

  #of(watches: WatchSource): readonly Running[] {
    return this.#running.filter(({ role }) => role.watches === watches);
  }

  /** All processes, in an order in which a new process does not move those of other sources. */
  #all(): readonly Running[] {
    return [...this.#of("events"), ...this.#of("itself"), ...this.#of("reviews")];
  }

  #crash(): void {
    const { draw } = this.#run;
    const own = this.#of("itself");
    if (own.length > 0 && draw.chance(0.7)) {
      this.#kill(draw.pick(own));
      return;
    }
    const onEvent = this.#of("events");
    const victim = onEvent[draw.whole(0, onEvent.length - 1)];
    if (victim !== undefined) this.#kill(victim);
  }

  #crashWebhook(): void {
    const asked = this.#of("reviews");
    const victim = asked.length > 0 ? this.#run.draw.pick(asked) : undefined;
    if (victim !== undefined && victim.role.isSpared !== true) this.#kill(victim);
  }

  /** Does kill -9: the process stops for good, but what it has sent may still arrive. */
  #kill(victim: Running): void {
    const { draw, world, isFaulty, log } = this.#run;
    this.#end([victim]);
    log("simulation", `${victim.process.name} is killed`);
    world.timeline.after(draw.between(100, 20_000), () => {
      if (isFaulty() && !this.#isAway(victim.role)) this.#start(victim.role);
    });
  }

  #isAway({ isInstalledApart = false }: Role): boolean {
    return isInstalledApart && this.#run.world.timeline.nowMs() < this.#awayUntilMs;
  }

  /** Ends all processes of these roles for longer than two sweeps, so that none notes what happens meanwhile. */
  #uninstall(): void {
    const { draw, plan, world, isFaulty, log } = this.#run;
    const roles = this.#roles.filter(({ isInstalledApart }) => isInstalledApart);
    if (roles.length === 0 || roles.some((role) => this.#isAway(role))) return;
    const awayMs = plan.sweepMs * draw.between(2.2, 5);
    this.#awayUntilMs = world.timeline.nowMs() + awayMs;
    log("user", `uninstalls ${roles.map(({ name }) => name).join(", ")} for ${(awayMs / 1000).toFixed(0)} s`);
    this.#end(this.#all().filter(({ role }) => roles.includes(role)));
    world.timeline.after(awayMs, () => {
      if (isFaulty()) for (const role of roles) for (let index = 0; index < role.count; index++) this.#start(role);
    });
  }

  #end(ended: readonly Running[]): void {
    for (const { stop } of ended) stop();
    this.#running = this.#running.filter((running) => !ended.includes(running));
  }

  /**
   * Does kill -STOP, and kill -CONT after 1 to 60 s unless the plan says otherwise: what the process has sent arrives, what is
   * sent to it waits, and its clock goes on.
   */
  #pause(): void {
    const { draw, world, log, plan } = this.#run;
    const [least, most] = plan.stoppedMs ?? [1_000, 60_000];
    const running = this.#all().filter(({ process }) => process.backlog === undefined);
    if (running.length === 0) return;
    const { process } = draw.pick(running);
    process.backlog = [];
    log("simulation", `${process.name} is stopped`);
    world.timeline.after(draw.between(least, most), () => this.#goOn(process));
  }

  #goOn(process: Process): void {
    const { world, log } = this.#run;
    const backlog = process.backlog ?? [];
    process.backlog = undefined;
    if (process.alive) log("simulation", `${process.name} goes on`);
    for (const go of backlog) world.timeline.after(0, () => runIn(process, go));
  }

  /** Sets the clock of a process's API server, within the difference that the protocol allows. */
  #stepClock(): void {
    const { draw, log } = this.#run;
    const running = this.#all();
    if (running.length === 0) return;
    const { process, clock } = draw.pick(running);
    clock.skewMs = this.#allOffMs + draw.between(-14_000, 14_000);
    log("simulation", `the clock that ${process.name} is told by is ${(clock.skewMs / 1000).toFixed(1)} s off`);
  }

  /** Sets the clocks of all API servers by the same time. */
  stepAllClocks(byMs: number): void {
    this.#run.log("simulation", `all clocks are set by ${(byMs / 1000).toFixed(0)} s`);
    this.#allOffMs += byMs;
    for (const { clock } of this.#running) clock.skewMs += byMs;
  }

  /** Keeps as many processes of each role as the role says, and kills all others for good. */
  makePeace(): void {
    const { draw } = this.#run;
    for (const { process } of this.#all()) this.#goOn(process);
    const kept = this.#roles.flatMap((role) => {
      const running = this.#running.filter((one) => one.role === role);
      const [first] = running;
      if (first === undefined || role.inPeace === "new" || role.inPeace === "none") return [];
      if (role.inPeace === "all") return running;
      return [role.inPeace === "any" ? draw.pick(running) : first];
    });
    this.#end(this.#all().filter((running) => !kept.includes(running)));
    this.#running = kept;
    // Roles without a process left start after the roles that begin anew.
    for (const role of this.#roles) if (role.inPeace === "new") this.#start(role);
    for (const role of this.#roles) {
      if (role.inPeace !== "any" && role.inPeace !== "first") continue;
      if (!kept.some((running) => running.role === role)) this.#start(role);
    }
  }

  stop(): void {
    for (const { stop } of this.#all()) stop();
  }
}

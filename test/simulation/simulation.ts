/** Runs one seed: a world and its actors, first with troubles and then in peace, while checkers watch. */
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld, type World } from "../fake-cluster/world.ts";
import type { Actor } from "./actor.ts";
import { openActors, troublesOf } from "./actors.ts";
import { Checkers } from "./checker.ts";
import { withClaims } from "./claims/anywhere.ts";
import { Controllers } from "./controllers.ts";
import { createDraw, type Draw } from "./draw.ts";
import { drawPlan } from "./draw-plan.ts";
import { useLightAborts } from "./light-abort.ts";
import { microtasksDone } from "./microtasks.ts";
import { Pasts } from "./pasts.ts";
import { disturbances, type Plan } from "./plan.ts";
import { withScaling } from "./scaling/anywhere.ts";
import type { SeedRun, SimulationOptions, SimulationResult, Violation } from "./seed.ts";
import { type CallFaults, noFaults } from "./simulated-cluster.ts";
import { withSkipLabels } from "./skip-labels/anywhere.ts";
import { StopHooks } from "./skip-labels/stop-hooks.ts";
import { withSuspension } from "./suspension/anywhere.ts";

useLightAborts();

/** Time within which a world at peace must converge. */
const livenessMs = 45 * 60_000;

/** Runs one seed to its end: faults, then peace, then the check that everything ended well (L1). */
export async function simulate(seed: number, options: SimulationOptions = {}): Promise<SimulationResult> {
  return new Simulation(seed, options).run();
}

/** Adds what some seeds of the default plan have besides. */
function withMore(plan: Plan, seed: number): Plan {
  return [withClaims, withScaling, withSkipLabels, withSuspension].reduce((now, more) => more(now, seed), plan);
}

class Simulation {
  readonly #seed: number;
  readonly #options: SimulationOptions;
  readonly #draw: Draw;
  readonly #plan: Plan;
  /** The faults that calls still meet at peace: their latency. */
  readonly #peace: CallFaults;
  readonly #timeline = new VirtualTimeline();
  readonly #world: World;
  readonly #checkers: Checkers;
  readonly #actors: readonly Actor[];
  readonly #violations: Violation[] = [];
  readonly #history: string[] = [];
  readonly #startMs = this.#timeline.nowMs();
  #faulty = true;
  #resumed = false;

  constructor(seed: number, options: SimulationOptions) {
    this.#seed = seed;
    this.#options = options;
    this.#draw = createDraw(seed);
    const plan = drawPlan(this.#draw, seed);
    this.#plan = options.aim?.(plan, this.#draw) ?? withMore(plan, seed);
    this.#peace = { ...noFaults, latencyMs: this.#plan.faults.latencyMs };
    const common = { timeline: this.#timeline, draw: this.#draw, plan: this.#plan, log: this.#log };
    const controllers = new Controllers(common);
    const stopHooks = new StopHooks(common);
    this.#world = this.#createWorld(controllers, stopHooks);
    stopHooks.watch(this.#world);
    const pasts = new Pasts(this.#world);
    this.#checkers = new Checkers({ world: this.#world, pasts, violate: this.#violate, log: this.#log });
    const run = this.#openRun(pasts, stopHooks);
    pasts.sets(run.namespace);
    this.#actors = [controllers, ...openActors(run, options.more?.(run))];
    for (const { checkers = [] } of this.#actors) this.#checkers.register(checkers);
  }

  #createWorld(controllers: Controllers, stopHooks: StopHooks): World {
    const { readyAfterMs, goneAfterMs } = this.#plan;
    return createWorld({
      timeline: this.#timeline,
      seed: this.#seed + 1,
      controllerDelayMs: () => controllers.delayMs(),
      readyAfterMs: () => readyAfterMs * this.#draw.between(0.5, 1.5),
      goneAfterMs: (pod) => stopHooks.endsAfterMs(pod) ?? goneAfterMs * this.#draw.between(0.2, 1.5),
      keepVersions: true,
    });
  }

  #openRun(pasts: Pasts, stopHooks: StopHooks): SeedRun {
    return {
      world: this.#world,
      draw: this.#draw,
      plan: this.#plan,
      namespace: "db",
      group: "group",
      wrappers: this.#options.wrappers ?? {},
      pasts,
      stopHooks,
      checkers: this.#checkers,
      isFaulty: () => this.#faulty,
      faults: () => (this.#faulty ? this.#plan.faults : this.#peace),
      onResume: () => {
        this.#resumed = true;
      },
      violate: this.#violate,
      log: this.#log,
      isVerbose: this.#options.verbose ?? false,
    };
  }

  async run(): Promise<SimulationResult> {
    // From here on this code is a microtask, whatever the caller is: see `microtasksDone`.
    await undefined;
    this.#world.settle();
    for (const actor of this.#actors) actor.start?.();
    await this.#runFor(this.#draw.between(11_000, 15_000));
    for (const actor of this.#actors) actor.begin?.();
    this.#planDisturbances();
    await this.#runFor(this.#plan.safetyMs);
    this.#faulty = false;
    this.#log("simulation", "faults stop");
    if (this.#violations.length === 0) {
      for (const actor of this.#actors) actor.makePeace?.();
      await this.#converge();
      for (const actor of this.#actors) actor.atRest?.();
      await this.#converge();
    }
    for (const actor of this.#actors) actor.stop?.();
    this.#world.stop();
    return {
      seed: this.#seed,
      violations: this.#violations,
      history: this.#history,
      taken: this.#checkers.taken,
      virtualMs: this.#timeline.nowMs() - this.#startMs,
    };
  }

  /** Each kind of disturbance has times of its own, drawn in the order of the list of kinds. */
  #planDisturbances(): void {
    const troubles = troublesOf(this.#actors);
    for (const kind of disturbances) {
      const disturb = troubles.get(kind);
      if (disturb !== undefined) this.#planDisturbance(this.#plan.every[kind], disturb);
    }
  }

  #planDisturbance(everyMs: number, disturb: () => void): void {
    if (everyMs === 0) return;
    this.#timeline.after(-Math.log(1 - this.#draw.random()) * everyMs, () => {
      if (!this.#faulty) return;
      disturb();
      this.#planDisturbance(everyMs, disturb);
    });
  }

  async #runFor(ms: number): Promise<void> {
    const endMs = this.#timeline.nowMs() + ms;
    for (;;) {
      const nextMs = this.#timeline.nextAtMs();
      if (nextMs === undefined || nextMs > endMs || this.#violations.length > 0) return;
      if (this.#step()) await microtasksDone();
    }
  }

  /** True if code of a process goes on. It then runs until it waits again: after all microtasks and before the next event. */
  #step(): boolean {
    this.#resumed = false;
    this.#timeline.step();
    return this.#resumed;
  }

  async #converge(): Promise<void> {
    const endMs = this.#timeline.nowMs() + livenessMs;
    let checkMs = 0;
    for (;;) {
      const nextMs = this.#timeline.nextAtMs();
      if (this.#violations.length > 0) return;
      if (this.#timeline.nowMs() >= checkMs) {
        const missing = this.#checkers.missing();
        if (missing === undefined) return;
        if (nextMs === undefined || nextMs > endMs) {
          this.#violate("L1", missing);
          return;
        }
        checkMs = this.#timeline.nowMs() + 2_000;
      }
      if (this.#step()) await microtasksDone();
    }
  }

  readonly #violate = (invariant: string, message: string): void => {
    this.#violations.push({ invariant, message, atMs: this.#timeline.nowMs() - this.#startMs });
    this.#log("CHECKER", `${invariant} is violated: ${message}`);
  };

  readonly #log = (who: string, what: string): void => {
    if (this.#options.verbose !== true) return;
    const seconds = ((this.#timeline.nowMs() - this.#startMs) / 1000).toFixed(3).padStart(9);
    this.#history.push(`${seconds}  ${who.padEnd(12)} ${what}`);
  };
}

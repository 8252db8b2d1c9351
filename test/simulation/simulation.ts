/** One seed: a world, some replicas of the function, everything that can go wrong, and the checkers that watch. */
import type { LeaseObject } from "../../functions/shared/kubernetes/cluster.ts";
import type { GroupView } from "../../functions/shared/views/view.ts";
import { BudgetPast } from "../stage/checkers/budgets.ts";
import { CollectedChecker } from "../stage/checkers/collected.ts";
import { checkLedgerWrite } from "../stage/checkers/ledger-write.ts";
import { describePod, describeSet, missingOf } from "../stage/checkers/liveness.ts";
import { Past } from "../stage/checkers/past.ts";
import { groupLabel, ledgerGroupOf, readReservations, setNameOf } from "../stage/checkers/raw.ts";
import { TrueWorldChecker } from "../stage/checkers/true-world.ts";
import type { StoredPod, StoredStatefulSet } from "../world/objects.ts";
import { VirtualTimeline } from "../world/timeline.ts";
import { createWorld, type World } from "../world/world.ts";
import { Claims } from "./claims/claims.ts";
import { createDraw, type Draw } from "./draw.ts";
import { Evictions } from "./evictions.ts";
import { useLightAborts } from "./light-abort.ts";
import { microtasksDone } from "./microtasks.ts";
import { type Disturbance, disturbances, drawPlan, type Plan } from "./plan.ts";
import { Processes, type ProcessKind } from "./processes.ts";
import type { SimulationOptions, SimulationResult, Violation } from "./seed.ts";
import { seenView } from "./seen-view.ts";
import { type CallFaults, type CallObserver, noFaults, type Process } from "./simulated-cluster.ts";
import { Users } from "./users.ts";
import { looseSets, neighbourGroup } from "./workloads.ts";
import { Written } from "./written.ts";

useLightAborts();

const namespace = "db";
const group = "group";
/** How long a world at peace may take to converge. */
const livenessMs = 45 * 60_000;
/** Bookmarks come about every minute, to whatever watch is still there. */
const bookmarkEveryMs = 60_000;
/** A reservation that was written this long ago is nobody's to act on any more: rule R9, and ten seconds for an answer. */
const actedMs = 20_000;

/** Runs one seed to its end: faults, then peace, then the question whether everything ended well (L1). */
export async function simulate(seed: number, options: SimulationOptions = {}): Promise<SimulationResult> {
  return new Simulation(seed, options).run();
}

class Simulation {
  readonly #seed: number;
  readonly #options: SimulationOptions;
  readonly #draw: Draw;
  readonly #plan: Plan;
  /** What calls still meet when the faults have stopped. */
  readonly #peace: CallFaults;
  readonly #timeline = new VirtualTimeline();
  readonly #world: World;
  readonly #users: Users;
  readonly #violations: Violation[] = [];
  readonly #history: string[] = [];
  readonly #checker: TrueWorldChecker;
  readonly #budgets: BudgetPast;
  readonly #processes: Processes;
  readonly #evictions: Evictions;
  readonly #collected: CollectedChecker;
  readonly #claims: Claims;
  readonly #tell = (who: string, what: string) => this.#log(who, what);
  readonly #written = new Written();
  readonly #startMs = this.#timeline.nowMs();
  #taken = 0;
  #faulty = true;
  #slowUntilMs = 0;
  #writtenMs = 0;
  #resumed = false;
  readonly #onResume = () => {
    this.#resumed = true;
  };
  /** The pod that somebody drains at the end, until it has gone. */
  #drained: StoredPod | undefined;

  constructor(seed: number, options: SimulationOptions) {
    this.#seed = seed;
    this.#options = options;
    this.#draw = createDraw(seed);
    const plan = drawPlan(this.#draw);
    this.#plan = options.aim?.(plan, this.#draw) ?? plan;
    this.#peace = { ...noFaults, latencyMs: this.#plan.faults.latencyMs };
    this.#world = this.#createWorld();
    const past = new Past(this.#world);
    this.#users = new Users({
      world: this.#world,
      draw: this.#draw,
      plan: this.#plan,
      namespace,
      group,
      onLedgerEdited: (lease) => {
        this.#written.note(readReservations(lease as never) ?? []);
        this.#claims.checker.noteEdited(lease);
      },
      log: this.#tell,
    });
    this.#budgets = new BudgetPast(this.#world, namespace);
    this.#checker = new TrueWorldChecker({
      world: this.#world,
      past,
      budgets: this.#budgets,
      namespace,
      skewMs: this.#plan.every.clock > 0 ? 14_000 : this.#plan.skewMs,
      violate: (invariant, sentence) => this.#violate(invariant, sentence),
    });
    this.#claims = new Claims({
      world: this.#world,
      draw: this.#draw,
      plan: this.#plan,
      namespace,
      group,
      rules: options.wrappers?.claims,
      isFaulty: () => this.#faulty,
      violate: (invariant, sentence) => this.#violate(invariant, sentence),
      log: this.#tell,
    });
    this.#processes = this.#createProcesses();
    this.#evictions = this.#createEvictions();
    this.#collected = new CollectedChecker(this.#world, (...said) => this.#violate(...said));
    this.#listen();
  }

  #createWorld(): World {
    const { readyAfterMs, goneAfterMs, controllerDelayMs } = this.#plan;
    return createWorld({
      timeline: this.#timeline,
      seed: this.#seed + 1,
      controllerDelayMs: () =>
        this.#timeline.nowMs() < this.#slowUntilMs ? 15_000 : controllerDelayMs * this.#draw.between(0.2, 2),
      readyAfterMs: () => readyAfterMs * this.#draw.between(0.5, 1.5),
      goneAfterMs: () => goneAfterMs * this.#draw.between(0.2, 1.5),
      keepVersions: true,
    });
  }

  #createProcesses(): Processes {
    return new Processes({
      world: this.#world,
      draw: this.#draw,
      plan: this.#plan,
      wrappers: this.#options.wrappers ?? {},
      isFaulty: () => this.#faulty,
      faults: () => this.#faults(),
      observerOf: (kind, process) => this.#observerOf(kind, process),
      openTaker: (kind, connection) => this.#claims.open(kind, connection),
      onResume: this.#onResume,
      log: this.#tell,
    });
  }

  #createEvictions(): Evictions {
    return new Evictions({
      world: this.#world,
      draw: this.#draw,
      plan: this.#plan,
      namespace,
      webhooks: () => this.#processes.webhooks(),
      faults: () => this.#faults(),
      wrappers: this.#options.wrappers ?? {},
      onArrived: (name, uid, guard) => {
        this.#taken++;
        const taker = guard === "out-of-scope" ? "ungoverned" : "eviction";
        this.#checker.onArrived("api-server", taker, { namespace, name }, uid === undefined ? {} : { uid });
      },
      onResume: this.#onResume,
      log: this.#tell,
    });
  }

  async run(): Promise<SimulationResult> {
    // From here on this is a microtask, whoever called: see `microtasksDone`.
    await undefined;
    this.#world.settle();
    this.#processes.start();
    this.#sendBookmarks();
    await this.#runFor(this.#draw.between(11_000, 15_000));
    this.#processes.limitRecycling();
    this.#users.workloads.changeTemplates();
    for (const kind of disturbances) this.#planDisturbance(kind);
    await this.#runFor(this.#plan.safetyMs);
    this.#faulty = false;
    this.#log("simulation", "faults stop");
    if (this.#violations.length === 0) {
      this.#users.makePeace();
      this.#processes.keepOne();
      this.#drainInPeace();
      await this.#converge();
    }
    this.#processes.stop();
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
    return this.#faulty ? this.#plan.faults : this.#peace;
  }

  #observerOf(kind: ProcessKind, process: Process): CallObserver {
    const isRollout = kind === "replica";
    return {
      onDeleteSent: (replica, resource, at, preconditions) => {
        if (resource !== "pods") return;
        this.#checker.noteSent(preconditions);
        if (isRollout) this.#checker.onSent(replica, at, preconditions);
        this.#claims.checker.onDeletionSent(replica, at.name, preconditions.uid);
      },
      onDeleteArrived: (replica, resource, at, preconditions) => {
        if (resource === "leases") this.#collected.onArrived(replica, at, preconditions);
        if (kind === "taker" && at.name.startsWith("volume-"))
          this.#claims.checker.onVolumeDeleted(at.name, preconditions.uid);
        if (resource !== "pods") return;
        this.#taken++;
        this.#checker.onArrived(replica, "rollout", at, preconditions);
      },
      onPatched: (replica, resource, after) => {
        if (resource === "leases") this.#checkWrite(replica, after as LeaseObject);
        if (kind === "taker" && resource === "statefulsets") this.#claims.checker.onScaled(after as StoredStatefulSet);
      },
      onWritten: (who, verb, resource) => {
        if (kind === "dry") this.#violate("E2", `${who} did ${verb} ${resource}, and was asked for dry runs alone`);
        // The cruellest moment: the reservation stands, and nobody has heard of it.
        if (kind !== "webhook" && kind !== "taker") return;
        if (verb !== "patch" || !this.#faulty || !this.#draw.chance(this.#plan.dieAfterWrite)) return;
        if (kind === "taker") this.#processes.killTaker(process);
        else this.#processes.killWebhook(process);
      },
      log: this.#tell,
    };
  }

  /** One webhook stays, and whoever drains has all the time in the world: every eviction comes to its end. */
  #drainInPeace(): void {
    if (this.#plan.budget === undefined) return;
    // A StatefulSet that nobody rolls may have a pod that never becomes ready: its zone is never whole.
    const pods = this.#world.store.list("pods", { namespace }).items.filter(({ metadata }) => {
      return !this.#isLoose(metadata.name);
    });
    const pod = pods.length > 0 ? this.#draw.pick(pods) : undefined;
    if (pod === undefined) return;
    this.#drained = this.#plan.isHeld || this.#plan.isRefused ? undefined : pod;
    this.#log("user", `drains ${pod.metadata.name} to the end`);
    // Where nothing that is allowed may happen, everybody drains everything, and the rollout is to end all the same.
    const drained = this.#plan.isRefused ? pods : [pod];
    for (const one of drained) this.#evictions.pursue(one, Number.POSITIVE_INFINITY);
  }

  #isLoose(name: string): boolean {
    return name.startsWith(`${looseSets}-`);
  }

  #planDisturbance(kind: Disturbance): void {
    const everyMs = this.#plan.every[kind];
    if (everyMs === 0) return;
    this.#timeline.after(-Math.log(1 - this.#draw.random()) * everyMs, () => {
      if (!this.#faulty) return;
      this.#disturb(kind);
      this.#planDisturbance(kind);
    });
  }

  #disturb(kind: Disturbance): void {
    if (kind === "crash") this.#processes.crash();
    else if (kind === "crashWebhook") this.#processes.killWebhook();
    else if (kind === "stopProcess") this.#processes.pause();
    else if (kind === "clock") this.#processes.stepClock();
    else if (kind === "farClock") this.#stepFar();
    else if (kind === "evict") this.#evictions.disturb(this.#draw.whole(1, 30));
    else if (kind === "slowController") {
      this.#log("world", "the StatefulSet controller is slow for 20 s");
      this.#slowUntilMs = this.#timeline.nowMs() + 20_000;
    } else this.#users.disturb(kind);
  }

  /** Clocks go back by minutes at any time, and forward only where the protocol can bear it: see `farClock` in plan.ts. */
  #stepFar(): void {
    const isQuiet = this.#timeline.nowMs() - this.#writtenMs > actedMs;
    const byMs = this.#draw.between(100_000, 400_000) * (isQuiet && this.#draw.chance(0.5) ? 1 : -1);
    this.#processes.stepAllClocks(byMs);
    this.#timeline.after(this.#draw.between(2_000, 40_000), () => this.#stepBack(byMs));
  }

  #stepBack(byMs: number): void {
    // A clock that was behind goes forward when it is put right: the same holds for that.
    if (byMs < 0 && this.#faulty && this.#timeline.nowMs() - this.#writtenMs <= actedMs)
      this.#timeline.after(1_000, () => this.#stepBack(byMs));
    else this.#processes.stepAllClocks(-byMs);
  }

  #sendBookmarks(): void {
    const { store } = this.#world;
    this.#timeline.after(bookmarkEveryMs * this.#draw.between(0.9, 1.1), () => {
      for (const resource of ["pods", "statefulsets", "zoneawarepoddisruptionbudgets", "poddisruptionbudgets"] as const)
        store.sendBookmarks(resource);
      this.#sendBookmarks();
    });
  }

  /** The world's changes as events. */
  #listen(): void {
    const { store } = this.#world;
    const { revisions } = this.#processes;
    const told = (groups: Iterable<string | undefined>) => {
      revisions.note(this.#timeline.nowMs(), store.revision);
      for (const name of groups) if (name !== undefined) this.#processes.tell({ namespace, group: name });
    };
    store.onChange("pods", ({ final }) => {
      if (this.#options.verbose) this.#log("pod", describePod(this.#world, final.metadata));
      const set = store.find("statefulsets", { namespace, name: setNameOf(final.metadata.name) });
      told([set?.metadata.labels?.[groupLabel]]);
    });
    store.onChange("statefulsets", ({ previous, final }) => {
      if (this.#options.verbose) this.#log("set", describeSet(this.#world, final.metadata));
      told(new Set([previous, final].map((set) => set?.metadata.labels?.[groupLabel])));
    });
    store.onChange("leases", () => revisions.note(this.#timeline.nowMs(), store.revision));
  }

  async #runFor(ms: number): Promise<void> {
    const endMs = this.#timeline.nowMs() + ms;
    for (;;) {
      const nextMs = this.#timeline.nextAtMs();
      if (nextMs === undefined || nextMs > endMs || this.#violations.length > 0) return;
      if (this.#step()) await microtasksDone();
    }
  }

  /** True when code of a process goes on: it does so until it waits again, after all microtasks and before the next event. */
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
        const missing =
          this.#claims.checker.missing() ??
          missingOf(this.#world, {
            namespace,
            isLoose: (name) => this.#isLoose(name),
            ledgers: [group, neighbourGroup].map((name) => `sluice-${name}`),
            drained: this.#drained,
            absent: this.#users.workloads.missing(),
          });
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

  #checkWrite(replica: string, after: LeaseObject): void {
    const all = readReservations(after as never);
    if (all === undefined) {
      this.#violate("R2", `${replica} has written a ledger that cannot be read`);
      return;
    }
    const made = this.#written.made(all);
    this.#written.note(all);
    if (made.length > 0) this.#writtenMs = this.#timeline.nowMs();
    const writtenGroup = ledgerGroupOf(after as never);
    this.#checker.noteWritten(writtenGroup, made, all);
    const view: GroupView | undefined = this.#processes.lastView(replica, writtenGroup);
    const seen = view && seenView(view, this.#world, this.#budgets, namespace);
    this.#claims.checker.onWritten(replica, after, made, seen);
    if (seen !== undefined && made.length > 0) checkLedgerWrite(seen, all, made, (...said) => this.#violate(...said));
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

/** The functions that events trigger: the shipped ones, and a function beside them that takes any pod it likes. */
import { advanceZoneRollout } from "../../functions/advance-zone-rollout/function.ts";
import { keepLedgers } from "../../functions/keep-ledgers/function.ts";
import type { FunctionDefinition } from "../../functions/shared/contract/definition.ts";
import type { Actor } from "./actor.ts";
import type { Checker } from "./checker.ts";
import { podsOf } from "./claims/asked.ts";
import { DeclaredChanges } from "./declared-changes.ts";
import { besideOf } from "./other-operator/beside.ts";
import { CollectedLedgers, MadeReservations, TakenPods } from "./promises.ts";
import { createRecycler } from "./recycler.ts";
import { startReplica } from "./replica.ts";
import type { Connection, Role } from "./roles.ts";
import type { SeedRun } from "./seed.ts";
import { olderWrappers } from "./versions/older.ts";

export class Functions implements Actor {
  readonly name = "functions";
  readonly roles: readonly Role[];
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  #recycleUntilMs = Number.POSITIVE_INFINITY;

  constructor(run: SeedRun) {
    const { draw, plan, world, isFaulty, namespace } = run;
    this.#run = run;
    const isActive = () => isFaulty() && world.timeline.nowMs() < this.#recycleUntilMs;
    const recycler = createRecycler(draw, isActive, plan.recycleEveryMs);
    const eventDriven = { watches: "events" } as const;
    this.roles = [
      {
        ...eventDriven,
        name: "replica",
        count: plan.processes,
        inPeace: "any",
        isRollout: true,
        open: this.#opener(advanceZoneRollout),
      },
      { ...eventDriven, name: "recycler", count: plan.recyclers, inPeace: "none", open: this.#opener(recycler) },
      {
        ...eventDriven,
        name: "older",
        count: plan.versions?.older === true ? 1 : 0,
        inPeace: "none",
        isRollout: true,
        open: this.#opener(advanceZoneRollout, olderWrappers(run.wrappers)),
      },
      { ...eventDriven, name: "keeper", count: plan.keepers, inPeace: "any", open: this.#opener(keepLedgers) },
    ];
    this.checkers = [
      new TakenPods(run, namespace),
      new MadeReservations(run),
      new CollectedLedgers(run),
      new DeclaredChanges(run),
    ];
  }

  /** From now on the other function takes pods for as long as the plan says. */
  begin(): void {
    const { world, plan } = this.#run;
    this.#recycleUntilMs = world.timeline.nowMs() + plan.recycleForMs;
  }

  #opener(definition: FunctionDefinition, wrappers = this.#run.wrappers) {
    return (connection: Connection) => {
      const { draw, plan, log } = this.#run;
      const beside = besideOf(this.#run, connection);
      const cluster = beside?.cluster ?? connection.cluster;
      const replica = startReplica(
        { ...connection, cluster },
        {
          ...plan,
          draw,
          wrappers,
          log,
          definition,
          beside,
          ...podsOf(this.#run, connection),
        },
      );
      return (key: Parameters<typeof replica.trigger>[0]) => replica.trigger(key, false);
    };
  }
}

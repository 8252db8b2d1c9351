/** The budgets of one seed as users write them: for zones or partitions, valid or not, and a PodDisruptionBudget. */
import type { World } from "../fake-cluster/world.ts";
import type { Actor } from "./actor.ts";
import type { Draw } from "./draw.ts";
import type { Plan, PlannedBudget } from "./plan.ts";
import type { SeedRun } from "./seed.ts";
import { drawn } from "./users.ts";
import { appLabel, looseSets, neighbourGroup, type Workloads } from "./workloads.ts";

const budgetName = "budget";

export class Budgets implements Actor {
  readonly name = "budgets";
  readonly disturbances;
  readonly #world: World;
  readonly #draw: Draw;
  readonly #plan: Plan;
  readonly #namespace: string;
  readonly #group: string;
  readonly #log: (who: string, what: string) => void;

  constructor(run: SeedRun, workloads: Workloads) {
    this.#world = run.world;
    this.#draw = run.draw;
    this.#plan = run.plan;
    this.#namespace = run.namespace;
    this.#group = run.group;
    this.#log = run.log;
    this.disturbances = {
      zoneBudget: drawn(run, workloads, { first: () => this.#disturb() }),
      podDisruptionBudget: drawn(run, workloads, {
        first: () => this.#writeDisruptionBudget(run.draw.pick([0, 0, 3])),
      }),
    };
    const { budget, neighbours, isBlocked } = run.plan;
    this.#writeBudget(budget, { selector: this.#selector });
    if (budget !== undefined && neighbours.group && !neighbours.spanned) this.#writeNeighbour(neighbourGroup, budget);
    if (budget !== undefined && neighbours.loose) this.#writeNeighbour(looseSets, budget);
    if (isBlocked) this.#writeDisruptionBudget(0);
  }

  get #selector(): object {
    const { byApp, spanned } = this.#plan.neighbours;
    const label = byApp || spanned ? { [appLabel]: this.#group } : { "rollout-group": this.#group };
    return { matchLabels: label };
  }

  #writeNeighbour(name: string, { maxUnavailable }: PlannedBudget): void {
    const label = name === looseSets ? { [appLabel]: looseSets } : { "rollout-group": name };
    const spec = {
      selector: { matchLabels: label },
      maxUnavailable: typeof maxUnavailable === "number" ? maxUnavailable : 1,
    };
    this.#write("zoneawarepoddisruptionbudgets", name, { spec });
  }

  #writeBudget(budget: PlannedBudget | undefined, more: object = {}): void {
    if (budget === undefined) return;
    const { maxUnavailable, isPartitioned, delaySeconds } = budget;
    const limit =
      typeof maxUnavailable === "number"
        ? { maxUnavailable, maxUnavailablePercentage: null }
        : { maxUnavailablePercentage: Number.parseInt(maxUnavailable, 10), maxUnavailable: null };
    const partitions = { podNamePartitionRegex: isPartitioned ? "[a-z]+-[a-z]+-([0-9]+)" : null };
    const delay = delaySeconds > 0 ? { crossZoneEvictionDelay: `${delaySeconds}s` } : {};
    this.#write("zoneawarepoddisruptionbudgets", budgetName, { spec: { ...limit, ...partitions, ...delay, ...more } });
  }

  #writeDisruptionBudget(disruptionsAllowed: number): void {
    const selector = { matchLabels: { "rollout-group": this.#group } };
    this.#write("poddisruptionbudgets", "held", {
      spec: { selector },
      status: { disruptionsAllowed, observedGeneration: 1_000 },
    });
  }

  /** Does what `kubectl apply` does: patches the object, or creates it. */
  #write(resource: "zoneawarepoddisruptionbudgets" | "poddisruptionbudgets", name: string, body: object): void {
    const { store } = this.#world;
    const key = { namespace: this.#namespace, name };
    if (store.find(resource, key) === undefined)
      store.create(resource, this.#namespace, { metadata: { name }, ...body });
    store.patch(resource, key, body);
    if (resource === "poddisruptionbudgets") store.patch(resource, key, body, "status");
  }

  #disturb(): void {
    const { budget } = this.#plan;
    if (budget === undefined) return;
    const key = { namespace: this.#namespace, name: budgetName };
    const draw = this.#draw;
    const isThere = this.#world.store.find("zoneawarepoddisruptionbudgets", key) !== undefined;
    if (draw.chance(0.15) && isThere) {
      this.#log("user", "deletes the budget");
      this.#world.store.delete("zoneawarepoddisruptionbudgets", key, {});
    } else if (draw.chance(0.2)) {
      this.#log("user", "makes the budget invalid");
      this.#writeBudget(budget, { selector: this.#selector, podNameRegexGroup: 7, podNamePartitionRegex: "(" });
    } else if (draw.chance(0.25)) {
      const matchLabels = draw.pick([
        { [appLabel]: "nothing" },
        { [appLabel]: this.#group },
        { "rollout-group": this.#group },
      ]);
      this.#log("user", `lets the budget select ${JSON.stringify(matchLabels)}`);
      this.#writeBudget(budget, {
        podNameRegexGroup: null,
        selector: { matchLabels: { ...noLabels, ...matchLabels } },
      });
    } else {
      const maxUnavailable = draw.pick([0, 1, 2, 3]);
      this.#log("user", `makes the budget ${maxUnavailable}`);
      this.#writeBudget({ ...budget, maxUnavailable }, { selector: this.#selector, podNameRegexGroup: null });
    }
  }

  /** Restores the budget of the plan. A budget that spans two groups is narrowed to its own group. */
  makePeace(): void {
    const selector = { matchLabels: { ...noLabels, "rollout-group": this.#group } };
    this.#writeBudget(this.#plan.budget, { podNameRegexGroup: null, selector });
    const isThere = this.#world.store.list("poddisruptionbudgets", { namespace: this.#namespace }).items.length > 0;
    if (isThere && !this.#plan.isBlocked) this.#writeDisruptionBudget(3);
  }
}

/** Removes both labels, because a merge patch keeps the labels that it does not name. */
const noLabels = { [appLabel]: null, "rollout-group": null };

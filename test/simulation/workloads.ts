/** The workloads of one seed as their users mean them to be: the group, its neighbours, and StatefulSets that are made again. */
import { ClusterError, type ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredStatefulSet } from "../world/objects.ts";
import type { World } from "../world/world.ts";
import type { Draw } from "./draw.ts";
import type { Plan } from "./plan.ts";

/** The label that a budget may select by instead of `rollout-group`: on pods, and on StatefulSets where the plan says so. */
export const appLabel = "app";
export const neighbourGroup = "other";
export const looseSets = "loose";

export interface WorkloadsOptions {
  readonly world: World;
  readonly draw: Draw;
  readonly plan: Plan;
  readonly namespace: string;
  readonly group: string;
  readonly log: (who: string, what: string) => void;
}

export class Workloads {
  readonly #options: WorkloadsOptions;
  /** StatefulSets that were deleted and are to be made again, by name. */
  readonly #absent = new Map<string, StoredStatefulSet>();
  #version = 1;
  #zonesMade = 0;

  constructor(options: WorkloadsOptions) {
    this.#options = options;
    const { plan } = options;
    for (let zone = 0; zone < plan.zones; zone++) this.addZone();
    if (plan.neighbours.group)
      this.#addNeighbours(neighbourGroup, plan.neighbours.spanned ? options.group : "elsewhere");
    if (plan.neighbours.loose) this.#addNeighbours(looseSets, looseSets, {});
  }

  /** How many StatefulSets the group has, with those that are to be made again. */
  get zones(): number {
    return this.members().length + this.#absent.size;
  }

  /** The StatefulSets that are there. */
  all(): ObjectKey[] {
    const { world, namespace } = this.#options;
    return world.store.list("statefulsets", { namespace }).items.map(({ metadata }) => metadata);
  }

  /** Those of groups: nobody rolls the others. */
  members(): ObjectKey[] {
    return this.all().filter(({ name }) => !name.startsWith(`${looseSets}-`));
  }

  addZone(): void {
    const { group, plan } = this.#options;
    this.#add(group, String.fromCharCode(97 + this.#zonesMade++), plan.replicas, group);
  }

  #addNeighbours(group: string, app: string, labels?: Readonly<Record<string, string>>): void {
    for (const zone of ["a", "b"]) this.#add(group, zone, 2, app, labels);
  }

  #add(
    group: string,
    zone: string,
    replicas: number,
    app: string,
    labels: Readonly<Record<string, string>> = { "rollout-group": group },
  ): void {
    const { world, plan, namespace } = this.#options;
    const { maxUnavailable, minReadySeconds, podManagementPolicy } = plan;
    world.addGroup({
      namespace,
      group,
      zones: [zone],
      replicas,
      maxUnavailable,
      minReadySeconds,
      podManagementPolicy,
      image: `app:${this.#version}`,
      labels: plan.neighbours.labelled ? { ...labels, [appLabel]: app } : labels,
      podLabels: { [appLabel]: app },
    });
  }

  /** A new template for every zone, as a deployment tool applies it: one after another. */
  changeTemplates(image = `app:${++this.#version}`): void {
    this.#options.log("user", `every template: ${image}`);
    for (const key of this.members()) this.#options.world.changeTemplate(key, image);
  }

  changeTemplate(key: ObjectKey): void {
    this.#options.log("user", `template of ${key.name} alone`);
    this.#options.world.changeTemplate(key, `app:${++this.#version}`);
  }

  rollBack(): void {
    this.changeTemplates(`app:${Math.max(1, this.#version - 1)}`);
  }

  /** Deletes a StatefulSet, and makes one of the same name 0.1 s to 4 minutes later: `kubectl replace`, or volumes that grow. */
  recreate(key: ObjectKey): void {
    const { world, draw, plan, log } = this.#options;
    const set = world.store.find("statefulsets", key);
    if (set === undefined || this.#absent.has(key.name)) return;
    const policy = draw.pick(plan.propagation);
    const afterMs = 100 * 2400 ** draw.random();
    log("user", `deletes StatefulSet ${key.name} (${policy}), to make it again in ${(afterMs / 1000).toFixed(1)} s`);
    this.#absent.set(key.name, set);
    world.removeStatefulSet(key, policy);
    world.timeline.after(afterMs, () => this.#makeAgain(key));
  }

  /** As often as it takes: one that is still being deleted keeps its name. */
  #makeAgain(key: ObjectKey): void {
    const { world, namespace, log } = this.#options;
    const set = this.#absent.get(key.name);
    if (set === undefined) return;
    const { name, labels, annotations = {} } = set.metadata;
    const containers = set.spec.template.spec.containers.map((one) => ({ ...one, image: `app:${this.#version}` }));
    const template = { ...set.spec.template, spec: { ...set.spec.template.spec, containers } };
    const isLoose = name.startsWith(`${looseSets}-`);
    const spec = isLoose ? set.spec : { ...set.spec, template };
    try {
      world.store.create("statefulsets", namespace, { metadata: { name, labels, annotations }, spec });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      world.timeline.after(1_000, () => this.#makeAgain(key));
      return;
    }
    log("user", `makes StatefulSet ${name} again`);
    this.#absent.delete(name);
  }

  /** Moves a StatefulSet to another group, and back; its pods keep the labels that they have. */
  relabel(key: ObjectKey): void {
    const { world, draw, group, log } = this.#options;
    const to = this.#isAway(key) ? this.#homeOf(key.name) : draw.pick([neighbourGroup, `${group}-2`]);
    log("user", `labels StatefulSet ${key.name} as of group ${to}`);
    world.store.patch("statefulsets", key, { metadata: { labels: { "rollout-group": to } } });
  }

  /** By its label, and not by who moved it: one that was made again has the label that it was deleted with. */
  #isAway(key: ObjectKey): boolean {
    const group = this.#options.world.store.get("statefulsets", key).metadata.labels?.["rollout-group"];
    return group !== undefined && group !== this.#homeOf(key.name);
  }

  #homeOf(name: string): string {
    const { group } = this.#options;
    return name.startsWith(`${group}-`) ? group : neighbourGroup;
  }

  /** The template's own label: pods of it are selected by a budget, or are not. */
  relabelTemplate(key: ObjectKey): void {
    const { world, log } = this.#options;
    const { spec } = world.store.get("statefulsets", key);
    const before = spec.template.metadata?.labels?.[appLabel] ?? "";
    const app = before.startsWith("not-") ? before.slice("not-".length) : `not-${before}`;
    log("user", `labels the template of ${key.name} as ${appLabel}=${app}`);
    world.store.patch("statefulsets", key, { spec: { template: { metadata: { labels: { [appLabel]: app } } } } });
  }

  /** What a user may have left behind is put right; what is to be made again will be. */
  makePeace(): void {
    const { world, plan } = this.#options;
    for (const key of this.members()) {
      world.pause(key, false);
      world.annotate(key, { "rollout-max-unavailable": String(plan.maxUnavailable) });
      world.store.patch("statefulsets", key, { spec: { updateStrategy: { type: "OnDelete" } } });
      if (this.#isAway(key)) this.relabel(key);
      const labels = world.store.get("statefulsets", key).spec.template.metadata?.labels ?? {};
      if (labels[appLabel]?.startsWith("not-")) this.relabelTemplate(key);
      // A partition that only one zone has is never free (as rollout-operator has it): zones of one size end that.
      if (plan.budget?.isPartitioned === true) world.scale(key, plan.replicas);
    }
    for (const [name, set] of this.#absent) this.#absent.set(name, this.#sane(set));
    this.changeTemplates();
  }

  #sane(set: StoredStatefulSet): StoredStatefulSet {
    const { plan } = this.#options;
    const { name, labels } = set.metadata;
    // One that is still on its way out may have been moved back already, and is made again as it was before.
    const home = labels?.["rollout-group"] === undefined ? undefined : this.#homeOf(name);
    const app = set.spec.template.metadata?.labels?.[appLabel]?.replace(/^not-/, "") ?? "";
    const template = {
      ...set.spec.template,
      metadata: { ...set.spec.template.metadata, labels: { ...set.spec.template.metadata?.labels, [appLabel]: app } },
    };
    return {
      ...set,
      metadata: {
        ...set.metadata,
        ...(home === undefined ? {} : { labels: { ...labels, "rollout-group": home } }),
        annotations: { "rollout-max-unavailable": String(plan.maxUnavailable) },
      },
      spec: {
        ...set.spec,
        template,
        updateStrategy: { type: "OnDelete" },
        ...(plan.budget?.isPartitioned === true ? { replicas: plan.replicas } : {}),
      },
    };
  }

  /** The names of StatefulSets that are still to be made again. */
  missing(): string[] {
    return [...this.#absent.keys()];
  }
}

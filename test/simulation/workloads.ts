/**
 * The workloads of one seed as their users want them: the group, its neighbours, and StatefulSets that are deleted and made
 * again.
 */
import { ClusterError, type ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredStatefulSet } from "../fake-cluster/objects.ts";
import { unrolledOf } from "../support/checkers/liveness.ts";
import type { Actor } from "./actor.ts";
import type { Checker } from "./checker.ts";
import type { SeedRun } from "./seed.ts";
import { templates } from "./suspension/raw.ts";
import { drawn } from "./users.ts";

/** The label that a budget may select by instead of `rollout-group`. Pods have it, and StatefulSets where the plan says so. */
export const appLabel = "app";
export const neighbourGroup = "other";
export const looseSets = "loose";

/** True for a StatefulSet without a group, and for its pods. */
export function isLoose(name: string): boolean {
  return name.startsWith(`${looseSets}-`);
}

export class Workloads implements Actor {
  readonly name = "workloads";
  readonly disturbances;
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  /** Deleted StatefulSets that will be made again, by name. */
  readonly #absent = new Map<string, StoredStatefulSet>();
  #version = 1;
  #zonesMade = 0;

  constructor(run: SeedRun) {
    this.#run = run;
    const { plan, world, namespace } = run;
    this.checkers = [
      { invariants: ["L1"], missing: () => unrolledOf(world, { namespace, isLoose, absent: this.absent() }) },
    ];
    this.disturbances = this.#disturbances();
    for (let zone = 0; zone < plan.zones; zone++) this.#addZone();
    if (plan.neighbours.group) this.#addNeighbours(neighbourGroup, plan.neighbours.spanned ? run.group : "elsewhere");
    if (plan.neighbours.loose) this.#addNeighbours(looseSets, looseSets, {});
  }

  #disturbances() {
    const { world, draw, plan, log } = this.#run;
    const to = (deed: (set: ObjectKey) => void) => drawn(this.#run, this, { set: deed });
    return {
      changeTemplate: to((set) => {
        if (draw.chance(0.7)) this.#changeTemplates();
        else this.#changeTemplate(set);
      }),
      rollBack: to(() => this.#changeTemplates(`app:${Math.max(1, this.#version - 1)}`)),
      brokenTemplate: to(() => this.#changeTemplates(`app:broken-${draw.pick(plan.causes)}`)),
      scale: to((set) => {
        const replicas = draw.whole(0, 4);
        log("user", `scales ${set.name} to ${replicas}`);
        world.scale(set, replicas);
      }),
      pause: to((set) => {
        const paused = draw.chance(0.5);
        log("user", `${paused ? "pauses" : "resumes"} ${set.name}`);
        world.pause(set, paused);
      }),
      budget: to((set) => this.#limit(set, ["1", "2", "3", "50%"])),
      malformed: to((set) => this.#limit(set, ["many", "-1", "0%", ""])),
      strategy: to((set) => {
        const type = draw.chance(0.5) ? "RollingUpdate" : "OnDelete";
        log("user", `update strategy of ${set.name}: ${type}`);
        world.store.patch("statefulsets", set, { spec: { updateStrategy: { type } } });
      }),
      removeZone: to((set) => {
        if (this.#zones < 2) return;
        log("user", `deletes StatefulSet ${set.name}`);
        world.removeStatefulSet(set);
      }),
      addZone: to(() => {
        if (this.#zones > 4) return;
        log("user", "adds a zone");
        this.#addZone();
      }),
      recreate: to((set) => this.#recreate(set)),
      relabel: to((set) => this.#relabel(set)),
      relabelTemplate: to((set) => this.#relabelTemplate(set)),
    };
  }

  /** Begins the first rollout: a new template for every zone. */
  begin(): void {
    this.#changeTemplates();
  }

  /** Number of StatefulSets of the group, including those that will be made again. */
  get #zones(): number {
    return this.members().length + this.#absent.size;
  }

  /** The existing StatefulSets that have a group: Sluice does not roll the others. */
  members(): ObjectKey[] {
    const { world, namespace } = this.#run;
    const all = world.store.list("statefulsets", { namespace }).items.map(({ metadata }) => metadata);
    return all.filter(({ name }) => !isLoose(name));
  }

  #addZone(): void {
    const { group, plan } = this.#run;
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
    const { world, plan, namespace } = this.#run;
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
      ...(plan.suspension !== undefined && group === this.#run.group
        ? { volumes: templates.slice(0, plan.suspension.volumes) }
        : {}),
    });
  }

  /** Changes the template of every zone, one after another, as a deployment tool does. */
  #changeTemplates(image = `app:${++this.#version}`): void {
    this.#run.log("user", `every template: ${image}`);
    for (const key of this.members()) this.#run.world.changeTemplate(key, image);
  }

  #changeTemplate(key: ObjectKey): void {
    this.#run.log("user", `template of ${key.name} alone`);
    this.#run.world.changeTemplate(key, `app:${++this.#version}`);
  }

  #limit(set: ObjectKey, choices: readonly string[]): void {
    const { world, draw, log } = this.#run;
    const text = draw.pick(choices);
    log("user", `budget of ${set.name}: ${JSON.stringify(text)}`);
    world.annotate(set, { "rollout-max-unavailable": text });
  }

  /** Deletes a StatefulSet, and makes one of the same name 0.1 s to 4 minutes later, as `kubectl replace` does. */
  #recreate(key: ObjectKey): void {
    const { world, draw, plan, log } = this.#run;
    const set = world.store.find("statefulsets", key);
    if (set === undefined || this.#absent.has(key.name)) return;
    const policy = draw.pick(plan.propagation);
    const afterMs = 100 * 2400 ** draw.random();
    log("user", `deletes StatefulSet ${key.name} (${policy}), to make it again in ${(afterMs / 1000).toFixed(1)} s`);
    this.#absent.set(key.name, set);
    world.removeStatefulSet(key, policy);
    world.timeline.after(afterMs, () => this.#makeAgain(key));
  }

  /** Tries again until the name is free: a StatefulSet that is still being deleted keeps it. */
  #makeAgain(key: ObjectKey): void {
    const { world, namespace, log } = this.#run;
    const set = this.#absent.get(key.name);
    if (set === undefined) return;
    const { name, labels, annotations = {} } = set.metadata;
    const containers = set.spec.template.spec.containers.map((one) => ({ ...one, image: `app:${this.#version}` }));
    const template = { ...set.spec.template, spec: { ...set.spec.template.spec, containers } };
    const spec = isLoose(name) ? set.spec : { ...set.spec, template };
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

  /** Moves a StatefulSet to another group, or back. Its pods keep their labels. */
  #relabel(key: ObjectKey): void {
    const { world, draw, group, log } = this.#run;
    const to = this.#isAway(key) ? this.#homeOf(key.name) : draw.pick([neighbourGroup, `${group}-2`]);
    log("user", `labels StatefulSet ${key.name} as of group ${to}`);
    world.store.patch("statefulsets", key, { metadata: { labels: { "rollout-group": to } } });
  }

  /**
   * True by the current label, no matter which client set it: a StatefulSet that was made again has the label that it had when
   * it was deleted.
   */
  #isAway(key: ObjectKey): boolean {
    const group = this.#run.world.store.get("statefulsets", key).metadata.labels?.["rollout-group"];
    return group !== undefined && group !== this.#homeOf(key.name);
  }

  #homeOf(name: string): string {
    const { group } = this.#run;
    return name.startsWith(`${group}-`) ? group : neighbourGroup;
  }

  /** Toggles the template's label by which a budget selects the pods. */
  #relabelTemplate(key: ObjectKey): void {
    const { world, log } = this.#run;
    const { spec } = world.store.get("statefulsets", key);
    const before = spec.template.metadata?.labels?.[appLabel] ?? "";
    const app = before.startsWith("not-") ? before.slice("not-".length) : `not-${before}`;
    log("user", `labels the template of ${key.name} as ${appLabel}=${app}`);
    world.store.patch("statefulsets", key, { spec: { template: { metadata: { labels: { [appLabel]: app } } } } });
  }

  /** Repairs what users have done to StatefulSets, also to those that will be made again. */
  makePeace(): void {
    const { world, plan } = this.#run;
    for (const key of this.members()) {
      world.pause(key, false);
      world.annotate(key, { "rollout-max-unavailable": String(plan.maxUnavailable) });
      world.store.patch("statefulsets", key, { spec: { updateStrategy: { type: "OnDelete" } } });
      if (this.#isAway(key)) this.#relabel(key);
      const labels = world.store.get("statefulsets", key).spec.template.metadata?.labels ?? {};
      if (labels[appLabel]?.startsWith("not-")) this.#relabelTemplate(key);
      // A partition that only one zone has is never free, as in rollout-operator, so all zones get the same size.
      if (plan.budget?.isPartitioned === true) world.scale(key, plan.replicas);
    }
    for (const [name, set] of this.#absent) this.#absent.set(name, this.#sane(set));
    this.#changeTemplates();
  }

  #sane(set: StoredStatefulSet): StoredStatefulSet {
    const { plan } = this.#run;
    const { name, labels } = set.metadata;
    // A StatefulSet that is still being deleted may already have been moved back, and would be made again with its old group.
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

  /** Names of the StatefulSets that are still to be made again. */
  absent(): string[] {
    return [...this.#absent.keys()];
  }
}

/**
 * L2: our processes write no object more than 20 times in a minute unless another client changes something that concerns it.
 * Otherwise two functions that undo each other's annotations could go on for ever, and no promise about deletions would show
 * it.
 *
 * In a ledger each function has its own entries, so the writes of each function count separately. A review writes because a
 * client asked, so its writes do not count.
 */
import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredObject } from "../fake-cluster/objects.ts";
import type { Change } from "../fake-cluster/watch-log.ts";
import type { World } from "../fake-cluster/world.ts";
import { setNameOf } from "../support/checkers/raw.ts";
import type { Actor } from "./actor.ts";
import type { Caller, Checker } from "./checker.ts";
import type { SeedRun } from "./seed.ts";
import { podOf } from "./suspension/raw.ts";

const mostWrites = 20;
const withinMs = 60_000;

const watched: readonly Resource[] = ["persistentvolumeclaims", "statefulsets", "pods", "leases"];

interface Written {
  readonly resource: Resource;
  readonly object: StoredObject;
}

export class Livelock implements Actor {
  readonly name = "livelock";
  readonly checkers: readonly Checker[];

  constructor({ world, violate }: SeedRun) {
    this.checkers = [new LivelockChecker(world, violate, watched)];
  }
}

export class LivelockChecker implements Checker {
  readonly invariants = ["L2"];
  readonly #world: World;
  readonly #violate: SeedRun["violate"];
  readonly #watched: readonly Resource[];
  /** Times of our processes' writes, by the kind and name of the object. */
  readonly #times = new Map<string, number[]>();
  /** Time of the last change by another client, by StatefulSet and by namespace. */
  readonly #others = new Map<string, number>();
  /** The last change; undefined once {@link onWritten} has claimed it for our processes. */
  #last: Written | undefined;

  constructor(world: World, violate: SeedRun["violate"], watched: readonly Resource[]) {
    this.#world = world;
    this.#violate = violate;
    this.#watched = watched;
    for (const resource of ["persistentvolumeclaims", "statefulsets", "pods", "leases"] as const)
      world.store.onChange(resource, (change) => this.#changed(resource, change as unknown as Change<StoredObject>));
  }

  #changed(resource: Resource, { final }: Change<StoredObject>): void {
    if (this.#last !== undefined)
      for (const about of aboutOf(this.#last)) this.#others.set(about, this.#world.timeline.nowMs());
    this.#last = { resource, object: final };
  }

  /** Called right after a process of ours has changed an object. */
  onWritten({ process, role }: Caller, verb: string, resource: Resource): void {
    const written = this.#last;
    if (verb === "create" || role.watches === "reviews" || written?.resource !== resource) return;
    this.#last = undefined;
    if (!this.#watched.includes(resource)) return;
    const { namespace, name } = written.object.metadata;
    const what = `${resource} ${namespace}/${name}`;
    const key = resource === "leases" ? `${what} ${role.name}` : what;
    const nowMs = this.#world.timeline.nowMs();
    // The last entry is the narrowest.
    const othersMs = this.#others.get(aboutOf(written).at(-1) ?? "") ?? 0;
    const sinceMs = Math.max(nowMs - withinMs, othersMs);
    const times = [...(this.#times.get(key) ?? []).filter((ms) => ms >= sinceMs), nowMs];
    this.#times.set(key, times);
    if (times.length > mostWrites)
      this.#violate(
        "L2",
        `${process.name} writes ${what} for the ${times.length}th time in a minute, and no other client has changed anything`,
      );
  }
}

/** What a change concerns: its namespace and its StatefulSet; a ledger concerns the whole namespace. */
function aboutOf({ resource, object }: Written): readonly string[] {
  const { namespace, name } = object.metadata;
  const set =
    resource === "pods"
      ? [setNameOf(name)]
      : resource === "persistentvolumeclaims"
        ? [setNameOf(podOf(object))]
        : resource === "statefulsets"
          ? [name]
          : [];
  return resource === "leases" ? [`${namespace}`] : [`${namespace}`, `${namespace}/${set[0]}`];
}

/** The cluster that the demo plays in, with its referee. */
import type { Journal } from "../stage/journal.ts";
import { groupName, namespace, newImage, type ServedGroup, serveGroup } from "../stage/served-group.ts";
import type { StoredPod } from "../world/objects.ts";
import type { World } from "../world/world.ts";
import type { DemoOptions } from "./options.ts";
import { isUp, Referee, zoneOf } from "./referee.ts";

export interface Stage extends ServedGroup {
  readonly referee: Referee;
}

/** Builds the cluster; the referee sees all of it being made, and judges from when it stands. */
export async function buildStage({ seed, pods, drop }: DemoOptions, journal: Journal): Promise<Stage> {
  const { promise: judged, resolve } = Promise.withResolvers<Referee>();
  const group = await serveGroup({
    seed,
    pods,
    drop,
    onWorld: (world) => resolve(refereeOf(world, journal)),
  });
  const referee = await judged;
  referee.begin();
  tellOfReturns(group.world, journal);
  return { ...group, referee };
}

function refereeOf(world: World, journal: Journal): Referee {
  return new Referee({
    world,
    namespace,
    group: groupName,
    onDeletion: ({ metadata: { name } }, by) =>
      journal.add(zoneOf(name), `${name} ${by === "eviction" ? "is evicted" : "goes"}`),
    onViolation: ({ invariant, sentence }) => journal.add("", `INVARIANT ${invariant} IS BROKEN: ${sentence}`),
  });
}

/** True for a pod of the revision that is wanted. */
export function isNew({ spec }: StoredPod): boolean {
  return spec.containers.some(({ image }) => image === newImage);
}

function tellOfReturns(world: World, journal: Journal): void {
  world.store.onChange("pods", ({ previous, current }) => {
    if (current === undefined || previous === undefined || !isUp(current) || isUp(previous)) return;
    const { name } = current.metadata;
    journal.add(zoneOf(name), `${name} is ready again`);
  });
}

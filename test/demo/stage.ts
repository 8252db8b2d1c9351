/** The cluster that the demo plays in: the embedded world on the real clock, served over HTTP, an hour old when it begins. */
import { setTimeout as sleep } from "node:timers/promises";
import { createLedger } from "../../functions/shared/ledger/lease.ts";
import type { Journal } from "../stage/journal.ts";
import { type ServedWorld, serveWorld } from "../world/http.ts";
import type { StoredPod } from "../world/objects.ts";
import { type Random, seededRandom } from "../world/random.ts";
import { RealTimeline } from "../world/timeline.ts";
import { createWorld, type Group, type World } from "../world/world.ts";
import { createWorldCluster } from "../world/world-cluster.ts";
import type { DemoOptions } from "./options.ts";
import { isUp, Referee, zoneOf } from "./referee.ts";
import { createBudget } from "./registration.ts";

export const namespace = "demo";
export const groupName = "db";
const zones = ["zone-a", "zone-b", "zone-c"];

/** From a pod's deletion until it is gone, and from its replacement's creation until that is Ready, on average. */
const goneAfterMs = 200;
const readyAfterMs = 1_000;
/** A pod is back this long after its deletion. */
export const replacedAfterMs = goneAfterMs + readyAfterMs;
const hourMs = 3_600_000;
/** What the user wants instead of `app:1`. */
export const newImage = "app:2";

export interface Stage {
  readonly world: World;
  readonly group: Group;
  /** How many pods of each zone may be down. */
  readonly budget: number;
  readonly random: Random;
  readonly referee: Referee;
  readonly served: ServedWorld;
  /** The events of watches so far. */
  readonly events: { sent: number; lost: number };
  close(): Promise<void>;
}

/** The real clock, which can be set back while the past is made. */
class StageTimeline extends RealTimeline {
  behindMs = hourMs;

  override nowMs(): number {
    return super.nowMs() - this.behindMs;
  }
}

/**
 * Builds the cluster: three zones of ready pods, their budget and their ledger. All of it is an hour old, since a new ledger
 * permits nothing for 10 s (rule R4), which would be most of what there is to see.
 */
export async function buildStage({ seed, pods, drop }: DemoOptions, journal: Journal): Promise<Stage> {
  const random = seededRandom(seed);
  const timeline = new StageTimeline();
  // Of its own, so that the same events are lost however long pods take.
  const luck = seededRandom(seed + 0x9e3779b9);
  const jitter = () => 0.8 + 0.4 * random();
  let stands = false;
  const world = createWorld({
    timeline,
    seed,
    readyAfterMs: () => (stands ? readyAfterMs * jitter() : 0),
    goneAfterMs: () => goneAfterMs * jitter(),
  });
  const referee = new Referee({
    world,
    namespace,
    group: groupName,
    onDeletion: ({ metadata: { name } }, by) =>
      journal.add(zoneOf(name), `${name} ${by === "eviction" ? "is evicted" : "goes"}`),
    onViolation: ({ invariant, sentence }) => journal.add("", `INVARIANT ${invariant} IS BROKEN: ${sentence}`),
  });
  const group = world.addGroup({ namespace, group: groupName, zones, replicas: pods, maxUnavailable: "25%" });
  const budget = Math.max(1, Math.floor(pods / 4));
  createBudget(world, group, budget);
  while (!world.isSettled()) await sleep(10);
  await createLedger(createWorldCluster(world), { namespace, group: groupName });
  stands = true;
  timeline.behindMs = 0;
  referee.begin();
  tellOfReturns(world, journal);
  const events = { sent: 0, lost: 0 };
  const served = await serveWorld(world, {
    dropWatchEvent() {
      const isLost = luck() < drop;
      events[isLost ? "lost" : "sent"]++;
      return isLost;
    },
  });
  return {
    world,
    group,
    budget,
    random,
    referee,
    served,
    events,
    async close() {
      await served.close();
      world.stop();
      timeline.close();
    },
  };
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

/** A group that is an hour old, in the fake cluster on the real clock, served over HTTP. */
import { setTimeout as sleep } from "node:timers/promises";
import { rolloutGroup } from "../../functions/shared/annotations/table.ts";
import { createLedger } from "../../functions/shared/ledger/lease.ts";
import { type ServedWorld, serveWorld } from "../fake-cluster/http.ts";
import { type Random, seededRandom } from "../fake-cluster/random.ts";
import { RealTimeline } from "../fake-cluster/timeline.ts";
import { createWorld, type World, type WorldGroup } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";

export const namespace = "demo";
export const groupName = "db";
const zones = ["zone-a", "zone-b", "zone-c"];

/** Average times from a pod's deletion until it is gone, and from its replacement's creation until that is Ready. */
const goneAfterMs = 200;
const readyAfterMs = 1_000;
/** Time from a pod's deletion until its replacement is Ready, in milliseconds. */
export const replacedAfterMs = goneAfterMs + readyAfterMs;
const hourMs = 3_600_000;
/** The image that the user wants instead of `app:1`. */
export const newImage = "app:2";

export interface ServedGroupOptions {
  /** Decides which events are lost and how long pods take. */
  readonly seed: number;
  /** Number of pods in each of the three zones. */
  readonly pods: number;
  /** Share of watch events that are lost, from 0 to 1. */
  readonly drop: number;
  /** Receives the world before it has any object. */
  readonly onWorld?: (world: World) => void;
}

export interface ServedGroup {
  readonly world: World;
  readonly group: WorldGroup;
  /** Number of pods of each zone that may be down. */
  readonly budget: number;
  readonly random: Random;
  readonly served: ServedWorld;
  /** Number of watch events so far. */
  readonly events: { sent: number; lost: number };
  close(): Promise<void>;
}

/** The real clock, which can be set back while the past is built. */
class StageTimeline extends RealTimeline {
  behindMs = hourMs;

  override nowMs(): number {
    return super.nowMs() - this.behindMs;
  }
}

/**
 * Builds the cluster: three zones of ready pods, their budget and their ledger. Everything is an hour old, because a new
 * ledger permits nothing for 10 s (rule R4).
 */
export async function serveGroup({ seed, pods, drop, onWorld }: ServedGroupOptions): Promise<ServedGroup> {
  const random = seededRandom(seed);
  const timeline = new StageTimeline();
  // A source of its own, so that the same events are lost however long pods take.
  const luck = seededRandom(seed + 0x9e3779b9);
  const jitter = () => 0.8 + 0.4 * random();
  let stands = false;
  const world = createWorld({
    timeline,
    seed,
    readyAfterMs: () => (stands ? readyAfterMs * jitter() : 0),
    goneAfterMs: () => goneAfterMs * jitter(),
  });
  onWorld?.(world);
  const group = world.addGroup({ namespace, group: groupName, zones, replicas: pods, maxUnavailable: "25%" });
  const budget = Math.max(1, Math.floor(pods / 4));
  createBudget(world, group, budget);
  while (!world.isSettled()) await sleep(10);
  await createLedger(createWorldCluster(world), { namespace, group: groupName });
  stands = true;
  timeline.behindMs = 0;
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
    served,
    events,
    async close() {
      await served.close();
      world.stop();
      timeline.close();
    },
  };
}

/** Creates a budget, so that as many pods of a zone may be down for evictions as for rollouts. */
export function createBudget(world: World, { namespace, group }: WorldGroup, maxUnavailable: number): void {
  const selector = { matchLabels: { [rolloutGroup.key]: group } };
  world.store.create("zoneawarepoddisruptionbudgets", namespace, {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name: group },
    spec: { maxUnavailable, selector },
  });
}

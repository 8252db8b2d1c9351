/** The cluster of the demo, with its referee. */

import {
  prepareDownscale,
  prepareDownscalePath,
  prepareDownscalePort,
} from "../../functions/shared/annotations/scaling.ts";
import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import type { StoredPod } from "../fake-cluster/objects.ts";
import type { World } from "../fake-cluster/world.ts";
import { type IngesterCall, Ingesters } from "../support/ingester.ts";
import type { Journal } from "../support/journal.ts";
import { groupName, namespace, newImage, type ServedGroup, serveGroup } from "../support/served-group.ts";
import type { DemoOptions } from "./options.ts";
import { isUp, Referee, zoneOf } from "./referee.ts";

/** Path by which a pod is told that it leaves. */
export const shutdownPath = "/ingester/prepare-shutdown";

export interface Stage extends ServedGroup {
  readonly referee: Referee;
  /** The programs in the pods. */
  readonly ingesters: Ingesters;
}

/** Builds the cluster. The referee watches from the beginning, and begins to check when everything exists. */
export async function buildStage({ seed, pods, drop }: DemoOptions, journal: Journal): Promise<Stage> {
  const ingesters = await Ingesters.open({ shutdownPath, onCall: (call) => recordCall(call, journal) });
  const { promise: refereed, resolve } = Promise.withResolvers<Referee>();
  const group = await serveGroup({
    seed,
    pods,
    drop,
    onWorld(world) {
      followPods(world, ingesters);
      resolve(refereeOf(world, ingesters, journal));
    },
  });
  for (const statefulSet of group.group.statefulSets) prepareBeforehand(group.world, statefulSet, ingesters.port);
  const referee = await refereed;
  referee.begin();
  recordReturns(group.world, journal);
  return {
    ...group,
    referee,
    ingesters,
    async close() {
      await group.close();
      await ingesters.close();
    },
  };
}

function refereeOf(world: World, ingesters: Ingesters, journal: Journal): Referee {
  return new Referee({
    world,
    namespace,
    group: groupName,
    mayLeave: ({ metadata: { name } }) => ingesters.preparedSince(name, shutdownPath) !== undefined,
    onDeletion: ({ metadata: { name } }, by) =>
      journal.add(
        zoneOf(name),
        `${name} ${by === "eviction" ? "is evicted" : by === "rollout" ? "goes" : "leaves for good"}`,
      ),
    onViolation: ({ invariant, message }) => journal.add("", `INVARIANT ${invariant} IS BROKEN: ${message}`),
  });
}

/** True for a pod with the wanted revision. */
export function isNew({ spec }: StoredPod): boolean {
  return spec.containers.some(({ image }) => image === newImage);
}

function recordReturns(world: World, journal: Journal): void {
  world.store.onChange("pods", ({ previous, current }) => {
    if (current === undefined || previous === undefined || !isUp(current) || isUp(previous)) return;
    const { name } = current.metadata;
    journal.add(zoneOf(name), `${name} is ready again`);
  });
}

/** Runs an HTTP server for each running pod. */
function followPods({ store }: World, ingesters: Ingesters): void {
  store.onChange("pods", ({ previous, current }) => {
    const { name, uid } = (current ?? previous)?.metadata ?? { name: "", uid: "" };
    if (current === undefined) void ingesters.stop({ name, uid });
    else if (isUp(current)) void ingesters.start({ namespace, name, uid, service: groupName });
  });
}

function prepareBeforehand({ store }: World, statefulSet: ObjectKey, port: number): void {
  const labels = { [prepareDownscale.key]: "true" };
  const annotations = { [prepareDownscalePath.key]: shutdownPath, [prepareDownscalePort.key]: String(port) };
  store.patch("statefulsets", statefulSet, { metadata: { labels, annotations } });
}

function recordCall({ pod, method, status }: IngesterCall, journal: Journal): void {
  const text =
    status === undefined ? "breaks the connection off" : status < 300 ? "confirms" : `refuses with ${status}`;
  journal.add(zoneOf(pod), `${pod} is told to ${method === "DELETE" ? "stay" : "leave"}, and ${text}`);
}

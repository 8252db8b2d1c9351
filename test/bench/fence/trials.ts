/** The trials: one fence each, on real machines, with the shipped function and the shipped agents. */
import { loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { fingerprintOf } from "../../../functions/fence-node/fingerprint.ts";
import { parsePeers } from "../../../functions/shared/annotations/fencing-peers.ts";
import { eventually } from "../../controlplane/api.ts";
import { type FencingCluster, namespace, outOfService } from "../../fencing/cluster.ts";
import type { Machine } from "../../fencing/machine.ts";
import type { BoundPod, Pods } from "../../fencing/pods.ts";
import type { FenceCase, FenceFigures, FenceTrial } from "./figures.ts";
import { type Moments, readinessOf, type WatchedObject } from "./moments.ts";

/** Each stretch takes a fraction of it, and one that takes longer has failed. */
const timeoutMs = 240_000;
const key = (name: string) => `sluice.dev/${name}`;
const statefulSets = "/apis/apps/v1/namespaces/default/statefulsets";

export interface FenceBed {
  readonly cluster: FencingCluster;
  readonly pods: Pods;
  readonly moments: Moments;
}

/** The lists that the trials watch. */
export const watchedPaths = {
  nodes: "/api/v1/nodes",
  leases: `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`,
  pods: "/api/v1/namespaces/default/pods",
};

/** How often the pod collector of Kubernetes makes a round, in milliseconds. */
export const podCollectorMs = 20_000;

/**
 * Fences a node once, and resolves when it is up again and nothing of the fence is left. What goes wrong is the trial's failure.
 *
 * @param number of the trial, which no other trial of this cluster has
 * @param restMs before a silent trial begins: drawn, because it would begin at one moment of the collector's round otherwise
 */
export async function runFenceTrial(
  bed: FenceBed,
  fenceCase: FenceCase,
  machine: Machine,
  number: number,
  restMs: number,
): Promise<FenceTrial> {
  if (fenceCase !== "returning") {
    await untilPeersProve(bed.cluster, machine);
    await delay(restMs);
  }
  const [load = 0] = loadavg();
  const about = { fenceCase, node: machine.name, load };
  const name = `fenced-${number}`;
  try {
    const figures =
      fenceCase === "returning"
        ? await fenceReturning(bed, machine, name)
        : await fenceSilent(bed, machine, name, fenceCase === "silent");
    const { overlaps } = bed.cluster;
    return overlaps.length === 0
      ? { ...about, figures, failure: undefined }
      : { ...about, figures: undefined, failure: overlaps.join("; ") };
  } catch (error) {
    return { ...about, figures: undefined, failure: (error as Error).message };
  } finally {
    machine.bootsAgain = true;
    if (!machine.isOn) await machine.boot();
    await bed.cluster.api.delete(`${statefulSets}/${name}`).catch(() => undefined);
  }
}

/** Its agent is armed, and of its peers one at least has not begun another boot since the agent took it over. */
async function untilPeersProve(cluster: FencingCluster, { name }: Machine): Promise<void> {
  await eventually(`the agent of ${name} is armed, and has a peer of its list`, timeoutMs, async () => {
    const { annotations = {} } = (await cluster.agentLease(name)).metadata;
    if (annotations[key("agent-mode")] !== "armed") return undefined;
    for (const peer of parsePeers(annotations[key("agent-peers")] ?? "") ?? []) {
      if (fingerprintOf(await cluster.keyOf(peer.name)) === peer.fingerprint) return true;
    }
    return undefined;
  });
}

type MomentsByName = Readonly<Record<string, Promise<number | undefined>>>;

/** All of these moments. Throws with the names of those that did not come. */
async function inTime<T extends MomentsByName>(moments: T): Promise<Readonly<Record<keyof T, number>>> {
  const times = await Promise.all(
    Object.entries(moments).map(async ([name, moment]) => [name, (await moment) ?? Number.NaN] as const),
  );
  const missing = times.flatMap(([name, atMs]) => (Number.isNaN(atMs) ? [name] : []));
  if (missing.length > 0) throw new Error(`not within ${timeoutMs / 1000} s: ${missing.join(", ")}`);
  return Object.fromEntries(times) as Record<keyof T, number>;
}

/** The node says nothing any more, and its machine stays off once its watchdog has reset it. */
async function fenceSilent(
  bed: FenceBed,
  machine: Machine,
  name: string,
  waitsForUnknown: boolean,
): Promise<FenceFigures> {
  const { cluster, pods } = bed;
  const pod = await pods.startFirstOn(name, machine.name);
  const watched = new WatchedFence(bed, machine, { name, pod });
  machine.bootsAgain = false;
  const resets = machine.resets.length;
  const unknown = watched.unknown();
  const cutMs = performance.now();
  await machine.setConnected(false);
  if (waitsForUnknown) await unknown;
  const evacuation = { taint: watched.tainted(), replaced: watched.replaced(), ready: watched.readyElsewhere() };
  const moments = { unknown, armed: watched.armed(), evidence: watched.evidence("time"), ...evacuation };
  const markedMs = performance.now();
  await cluster.mark(machine.name);
  const at = await inTime(moments);
  const reset = machine.resets[resets];
  if (reset === undefined) throw new Error(`${machine.name} was not reset`);
  const back = watched.back();
  machine.bootsAgain = true;
  await machine.boot();
  const { status } = await inTime({ status: back });
  return {
    cutToUnknownMs: at.unknown - cutMs,
    cutToResetMs: reset.atMs - cutMs,
    markToArmedMs: at.armed - markedMs,
    armedToResetMs: undefined,
    armedToEvidenceMs: at.evidence - at.armed,
    statusToEvidenceMs: undefined,
    evidenceToTaintMs: at.taint - at.evidence,
    taintToReplacedMs: at.replaced - at.taint,
    replacedToReadyMs: at.ready - at.replaced,
    markToReadyElsewhereMs: at.ready - markedMs,
    statusToCleanMs: (await cleanedMs(bed, machine)) - status,
  };
}

/** The node learns of the fence, resets itself, and starts again. Its pod has to stay. */
async function fenceReturning(bed: FenceBed, machine: Machine, name: string): Promise<FenceFigures> {
  const { cluster, pods } = bed;
  const pod = await pods.startFirstOn(name, machine.name);
  const watched = new WatchedFence(bed, machine, { name, pod });
  const resets = machine.resets.length;
  const moments = { armed: watched.armed(), status: watched.back(), evidence: watched.evidence("boot-id") };
  const markedMs = performance.now();
  await cluster.mark(machine.name);
  const at = await inTime(moments);
  const reset = machine.resets[resets];
  if (reset === undefined) throw new Error(`${machine.name} was not reset`);
  const cleanMs = await cleanedMs(bed, machine);
  if ((await pods.of(name))?.metadata.uid !== pod.metadata.uid) throw new Error(`${name}-0 did not stay`);
  return {
    cutToUnknownMs: undefined,
    cutToResetMs: undefined,
    markToArmedMs: at.armed - markedMs,
    armedToResetMs: reset.atMs - at.armed,
    armedToEvidenceMs: undefined,
    statusToEvidenceMs: at.evidence - at.status,
    evidenceToTaintMs: undefined,
    taintToReplacedMs: undefined,
    replacedToReadyMs: undefined,
    markToReadyElsewhereMs: undefined,
    statusToCleanMs: cleanMs - at.status,
  };
}

async function cleanedMs({ cluster }: FenceBed, machine: Machine): Promise<number> {
  await cluster.untilClean(machine);
  const cleanMs = performance.now();
  await cluster.untilUp(machine);
  return cleanMs;
}

/** The moments of one fence of a node with a pod. Each is watched from its call on. */
class WatchedFence {
  readonly #moments: Moments;
  readonly #node: string;
  readonly #bootId: string;
  readonly #pod: { readonly name: string; readonly uid: string };

  constructor(
    { moments }: FenceBed,
    machine: Machine,
    { name, pod }: { readonly name: string; readonly pod: BoundPod },
  ) {
    this.#moments = moments;
    this.#node = machine.name;
    this.#bootId = machine.bootId;
    this.#pod = { name: `${name}-0`, uid: pod.metadata.uid };
  }

  unknown = () => this.#ofNode((node) => readinessOf(node) === "Unknown");
  tainted = () => this.#ofNode(({ spec }) => spec?.taints?.some((taint) => taint.key === outOfService) === true);
  /** The first status of another boot. */
  back = () => this.#ofNode(({ status }) => (status?.nodeInfo?.bootID ?? this.#bootId) !== this.#bootId);
  armed = () => this.#ofLease(`agent-${this.#node}`, "fence-armed", (text) => text.endsWith(` ${this.#bootId}`));
  evidence = (kind: string) => this.#ofLease(`fence-${this.#node}`, "fence-evidence", (text) => text === kind);
  replaced = () => this.#ofReplacement(() => true);
  readyElsewhere = () => this.#ofReplacement((pod) => readinessOf(pod) === "True" && pod.spec?.nodeName !== this.#node);

  #ofNode(matches: (node: WatchedObject) => boolean): Promise<number | undefined> {
    return this.#moments.next("nodes", timeoutMs, (node) => node.metadata.name === this.#node && matches(node));
  }

  #ofLease(lease: string, name: string, matches: (text: string) => boolean): Promise<number | undefined> {
    return this.#moments.next(
      "leases",
      timeoutMs,
      ({ metadata }) => metadata.name === lease && matches(metadata.annotations?.[key(name)] ?? ""),
    );
  }

  #ofReplacement(matches: (pod: WatchedObject) => boolean): Promise<number | undefined> {
    const { name, uid } = this.#pod;
    return this.#moments.next(
      "pods",
      timeoutMs,
      (pod) => pod.metadata.name === name && pod.metadata.uid !== uid && matches(pod),
    );
  }
}

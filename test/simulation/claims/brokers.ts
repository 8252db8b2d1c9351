/**
 * Pods that know whether the others can do without them, as brokers with quorums do. A taker asks them before a restart (R22).
 */

import type { Cluster } from "../../../functions/shared/kubernetes/cluster.ts";
import type { HealthAnswer, OpenLedger, refuseByHealth } from "../../../functions/shared/ledger/health-rule.ts";
import type { World } from "../../fake-cluster/world.ts";
import { isUp, ordinalIn, setNameOf, wantsOrdinal } from "../../support/checkers/raw.ts";

/** Answers are kept for this long. Whether an old one may be used is for the rule to say. */
const keptMs = 60_000;

/** Names of the pods of a zone that are up. */
export function upIn(world: World, namespace: string, zone: string): string[] {
  const set = world.store.find("statefulsets", { namespace, name: zone });
  if (set === undefined) return [];
  const pods = [...world.store.ownedBy("pods", set.metadata.uid)].filter((pod) => {
    return isUp(pod) && wantsOrdinal(set, ordinalIn(pod.metadata.name));
  });
  return pods.map(({ metadata }) => metadata.name);
}

/** Number of pods of a zone that must be up for it to work: more than half of the wanted ones. */
export function quorumOf(world: World, namespace: string, zone: string): number {
  const replicas = world.store.find("statefulsets", { namespace, name: zone })?.spec.replicas ?? 0;
  return Math.floor(replicas / 2) + 1;
}

export interface BrokersOptions {
  readonly world: World;
  readonly namespace: string;
  readonly cluster: Cluster;
  readonly latencyMs: () => number;
  readonly refuse: typeof refuseByHealth;
}

/** The questions and answers of one process. */
export class Brokers {
  readonly #options: BrokersOptions;
  readonly #answers = new Map<string, HealthAnswer>();

  constructor(options: BrokersOptions) {
    this.#options = options;
  }

  /** Whether a pod may be restarted now. Asks the pod unless an answer is kept, and again if the kept one is stale. */
  async letGo(pod: string, ledger: OpenLedger, own?: string): Promise<boolean> {
    const { cluster, refuse } = this.#options;
    const known = this.#answers.get(pod);
    const isKept = known !== undefined && cluster.monotonicMs() - known.askedMs < keptMs;
    const first = isKept ? known : await this.#ask(pod);
    const blocked = refuse(ledger, first, own);
    if (blocked?.guard !== "health-stale") return blocked === undefined;
    return refuse(ledger, await this.#ask(pod), own) === undefined;
  }

  /** The pod answers by what is true when the question reaches it. */
  async #ask(pod: string): Promise<HealthAnswer> {
    const { world, namespace, cluster, latencyMs } = this.#options;
    const askedMs = cluster.monotonicMs();
    await cluster.sleep(latencyMs());
    const zone = setNameOf(pod);
    const others = upIn(world, namespace, zone).filter((name) => name !== pod);
    const isNeeded = others.length < quorumOf(world, namespace, zone);
    await cluster.sleep(latencyMs());
    const answered: HealthAnswer = { health: { state: isNeeded ? "bad" : "good", detail: "quorum" }, askedMs };
    this.#answers.set(pod, answered);
    return answered;
  }
}

/** Nodes that are lost for a while or for good, and pods that break, fail or are deleted. */

import { brokenBy, causes } from "../fake-cluster/kubelet.ts";
import type { StoredPod } from "../fake-cluster/objects.ts";
import { ordinalIn, setNameOf, wantsOrdinal } from "../support/checkers/raw.ts";
import type { Actor } from "./actor.ts";
import type { SeedRun } from "./seed.ts";
import { type Deed, drawn } from "./users.ts";
import type { Workloads } from "./workloads.ts";

const crashLoop = "CrashLoopBackOff";

export class Nodes implements Actor {
  readonly name = "nodes";
  readonly disturbances;
  readonly #run: SeedRun;
  readonly #lost = new Set<string>();
  readonly #gone = new Set<string>();

  constructor(run: SeedRun, workloads: Workloads) {
    this.#run = run;
    const pod = (deed: NonNullable<Deed["pod"]>) => drawn(run, workloads, { pod: deed });
    this.disturbances = {
      loseNode: pod(({ spec }) => this.#lose(spec.nodeName)),
      loseNodeForGood: pod(({ spec }) => this.#loseForGood(spec.nodeName)),
    };
  }

  /** True for a node that is gone for good: nothing mends its pods. */
  isGone(nodeName: string | undefined): boolean {
    return this.#gone.has(nodeName ?? "");
  }

  #lose(nodeName: string | undefined): boolean {
    if (nodeName === undefined) return false;
    const { world, draw, log } = this.#run;
    log("world", `node ${nodeName} is lost for a while`);
    this.#lost.add(nodeName);
    world.kubelet.loseNode(nodeName);
    world.timeline.after(draw.between(5_000, 60_000), () => this.#recover(nodeName));
    return true;
  }

  #loseForGood(nodeName: string | undefined): boolean {
    if (nodeName === undefined) return false;
    const { world, draw, log } = this.#run;
    // At most one node of each zone: a zone without nodes could never come back.
    const zone = nodeName.replace(/-\d+$/, "");
    if ([...this.#gone].some((gone) => gone.startsWith(`${zone}-`))) return true;
    log("world", `node ${nodeName} is gone for good`);
    this.#gone.add(nodeName);
    world.kubelet.loseNodeForGood(nodeName);
    if (draw.chance(0.5)) world.timeline.after(draw.between(1_000, 60_000), () => this.#clear(nodeName));
    return true;
  }

  /** A user deletes the pods of a lost node by force. */
  #clear(nodeName: string): void {
    const { world, log } = this.#run;
    log("user", `deletes the pods of node ${nodeName} by force`);
    for (const pod of world.store.list("pods").items) {
      if (pod.spec.nodeName === nodeName) world.store.delete("pods", pod.metadata, { gracePeriodSeconds: 0 });
    }
  }

  #recover(nodeName: string): void {
    if (!this.#lost.delete(nodeName)) return;
    this.#run.log("world", `node ${nodeName} is back`);
    this.#run.world.kubelet.recoverNode(nodeName);
  }

  makePeace(): void {
    for (const nodeName of [...this.#lost]) this.#recover(nodeName);
    for (const nodeName of this.#gone) this.#clear(nodeName);
  }
}

export class Pods implements Actor {
  readonly name = "pods";
  readonly disturbances;
  readonly #run: SeedRun;
  readonly #workloads: Workloads;
  readonly #nodes: Nodes;

  constructor(run: SeedRun, workloads: Workloads, nodes: Nodes) {
    this.#run = run;
    this.#workloads = workloads;
    this.#nodes = nodes;
    const pod = (deed: (pod: StoredPod) => void) =>
      drawn(run, workloads, {
        pod: (one) => {
          deed(one);
          return true;
        },
      });
    this.disturbances = {
      breakPod: pod((one) => this.#break(one)),
      failPod: pod(({ metadata }) => {
        run.log("world", `pod ${metadata.name} fails`);
        run.world.kubelet.failPod(metadata);
      }),
      deletePod: pod(({ metadata }) => {
        run.log("user", `deletes pod ${metadata.name}`);
        run.world.store.delete("pods", metadata, {});
      }),
    };
  }

  #break(pod: StoredPod): void {
    const { world, draw, log } = this.#run;
    log("world", `pod ${pod.metadata.name} breaks`);
    world.kubelet.breakPod(pod.metadata, draw.pick([crashLoop, "Error", causes.unready]));
    if (draw.chance(0.6)) this.#healLater(pod);
  }

  /** Lets a crashing pod recover by itself, perhaps just when it is about to be replaced. */
  #healLater({ metadata }: StoredPod): void {
    const { world, draw, log } = this.#run;
    world.timeline.after(draw.between(100, 20_000), () => {
      const current = world.store.find("pods", metadata);
      if (current?.metadata.uid !== metadata.uid || current.metadata.deletionTimestamp !== undefined) return;
      // A broken revision does not recover by itself.
      if (this.#nodes.isGone(current.spec.nodeName) || brokenBy(current) !== undefined) return;
      if (current.status.phase === "Failed") return;
      log("world", `pod ${metadata.name} works again`);
      world.kubelet.healPod(metadata);
    });
  }

  /**
   * False for a pod that no StatefulSet wants: if it never becomes ready, it can block an OrderedReady scale-down for ever,
   * and no rollout mends that.
   */
  #isWanted({ metadata }: StoredPod): boolean {
    const name = setNameOf(metadata.name);
    const set = this.#run.world.store.find("statefulsets", { namespace: metadata.namespace, name });
    return set !== undefined && wantsOrdinal(set, ordinalIn(metadata.name));
  }

  #isForsaken({ metadata }: StoredPod): boolean {
    const name = setNameOf(metadata.name);
    const set = this.#run.world.store.find("statefulsets", { namespace: metadata.namespace, name });
    return set === undefined && !this.#workloads.absent().includes(name);
  }

  /** Mends broken pods, because users want sane templates again. */
  makePeace(): void {
    const { world, namespace } = this.#run;
    for (const pod of world.store.list("pods", { namespace }).items) {
      if (pod.metadata.deletionTimestamp !== undefined) continue;
      // Failed pods that no StatefulSet wants can block an OrderedReady scale-down for ever, so a user deletes them. A user
      // also deletes pods whose StatefulSet is gone and will not be made again.
      if (pod.status.phase === "Failed" || this.#isForsaken(pod)) {
        world.store.delete("pods", pod.metadata, {});
        continue;
      }
      const broken = brokenBy(pod) !== undefined;
      // A broken revision stays broken: the rollout must replace it (rule R13).
      if (!broken || !this.#isWanted(pod)) world.kubelet.healPod(pod.metadata);
    }
  }
}

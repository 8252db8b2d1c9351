/** A drain storm: several nodes of every zone are drained at once, by clients that know nothing of each other. */
import { setTimeout as sleep } from "node:timers/promises";
import type { StoredPod } from "../fake-cluster/objects.ts";
import type { Journal } from "../support/journal.ts";
import { evict } from "./eviction.ts";
import { isUp, zoneOf } from "./referee.ts";
import { isNew, type Stage } from "./stage.ts";

/** Wait after a refusal: kubectl waits 5 s, which is too long to watch. */
const retryMs = 500;
/** Interval of the checks whether an evicted pod is gone. */
const pollMs = 50;
/** Interval of the dry runs: the moments in which one more pod may be down are short. */
const askMs = 100;
const nodesOfZone = 2;
const notNow = 429;
/** Codes after which the pod is evicted, gone already, or replaced. */
const goes: ReadonlySet<number> = new Set([201, 404, 409]);

export interface StormOptions {
  readonly stage: Stage;
  readonly journal: Journal;
  readonly signal: AbortSignal;
}

/** The result of the dry run. */
export interface Rehearsal {
  readonly pod: string;
  /** Number of refusals before the pod could go. */
  readonly refused: number;
}

export class Storm {
  /** The pods on the drained nodes when the storm began. */
  readonly pods: readonly StoredPod[];
  readonly nodes: readonly string[];
  readonly startedMs: number;
  endedMs: number | undefined;
  /** Number of refused reviews, including those of the dry run. */
  refused = 0;
  /** Answers that are neither a refusal nor about a pod that has gone: kubectl gives up at these. */
  readonly failures: string[] = [];
  rehearsal: Rehearsal | undefined;
  readonly #options: StormOptions;
  readonly #wanted: ReadonlySet<string>;

  constructor(options: StormOptions) {
    const { stage, journal } = options;
    this.#options = options;
    this.startedMs = journal.nowMs;
    const placed = stage.world.store.list("pods", { namespace: stage.group.namespace }).items;
    this.nodes = stage.group.statefulSets.flatMap(({ name }) => {
      const nodes = placed.filter(({ metadata }) => zoneOf(metadata.name) === name).map(({ spec }) => spec.nodeName);
      return [...new Set(nodes)]
        .filter((node) => node !== undefined)
        .sort()
        .slice(0, nodesOfZone);
    });
    this.pods = placed.filter(({ spec: { nodeName = "" } }) => this.nodes.includes(nodeName));
    this.#wanted = new Set(this.pods.map(({ metadata }) => metadata.uid));
  }

  /** Number of the pods that are gone, whatever took them. */
  get gone(): number {
    return this.pods.filter((pod) => !this.#isThere(pod)).length;
  }

  /** True for a pod that a drain wants to remove. */
  wants({ metadata: { uid } }: StoredPod): boolean {
    return this.#wanted.has(uid);
  }

  /**
   * Resolves when every node is drained, and the dry run was told that its pod could go. Rejects when the signal is aborted.
   */
  async rage(): Promise<void> {
    await Promise.all([this.#drainAll(), this.#rehearse()]);
  }

  async #drainAll(): Promise<void> {
    const { journal } = this.#options;
    journal.add("", `${this.nodes.length} nodes are drained at once: ${this.pods.length} pods of all zones are to go`);
    await Promise.all(this.pods.map((pod) => this.#takeOut(pod)));
    this.endedMs = journal.nowMs;
    journal.add("", `every node is drained; ${this.refused} reviews were refused on the way`);
  }

  /** Asks for one pod until it is gone, as `kubectl drain` does for each. */
  async #takeOut(pod: StoredPod): Promise<void> {
    const { stage, journal, signal } = this.#options;
    while (this.#isThere(pod)) {
      const { code, message } = await evict(stage.served.url, pod.metadata, { dryRun: false, signal });
      if (goes.has(code)) {
        while (this.#isThere(pod)) await sleep(pollMs, undefined, { signal });
        return;
      }
      if (code === notNow) this.refused++;
      else {
        this.failures.push(`${code} ${message}`);
        journal.add("", `the drain of ${pod.spec.nodeName} begins again: ${code} ${message}`);
      }
      await sleep(retryMs, undefined, { signal });
    }
  }

  /**
   * In the middle of the storm a user asks in a dry run, as `kubectl drain --dry-run=server` does, about a pod that neither a
   * drain nor the rollout wants. The user repeats that until the pod could go.
   */
  async #rehearse(): Promise<void> {
    const { stage, journal, signal } = this.#options;
    while (this.gone < this.pods.length / 2) await sleep(pollMs, undefined, { signal });
    for (let refused = 0; ; ) {
      const pod = this.#bystander();
      if (pod !== undefined) {
        stage.referee.noteDryRun(pod);
        const { code } = await evict(stage.served.url, pod.metadata, { dryRun: true, signal });
        if (code === 201) {
          const { name } = pod.metadata;
          this.rehearsal = { pod: name, refused };
          journal.add(zoneOf(name), `a dry run: ${name} could go, and stays`);
          return;
        }
        refused++;
        this.refused++;
      }
      await sleep(askMs, undefined, { signal });
    }
  }

  /** A pod of the zone where most pods are down, because no pod of another zone may go now. */
  #bystander(): StoredPod | undefined {
    const { store } = this.#options.stage.world;
    const pods = store.list("pods").items;
    const upIn = (zone: string) => pods.filter((pod) => zoneOf(pod.metadata.name) === zone && isUp(pod)).length;
    const bystanders = pods.filter((pod) => isUp(pod) && isNew(pod) && !this.wants(pod));
    const inOrder = bystanders.map((pod) => ({ pod, up: upIn(zoneOf(pod.metadata.name)) })).sort((a, b) => a.up - b.up);
    return inOrder[0]?.pod;
  }

  #isThere({ metadata }: StoredPod): boolean {
    return this.#options.stage.world.store.find("pods", metadata)?.metadata.uid === metadata.uid;
  }
}

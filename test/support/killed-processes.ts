/** Processes of functions in virtual time, which are killed before or after any of their writes, and start again. */

import { createListReader } from "../../functions/shared/cache/listing.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import type { ReconcileResult } from "../../functions/shared/contract/definition.ts";
import { createMemory } from "../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../functions/shared/contract/reporter.ts";
import { type Cluster, ClusterError } from "../../functions/shared/kubernetes/cluster.ts";
import { wrapCalls } from "../../functions/shared/kubernetes/wrap-cluster.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import type { Random } from "../fake-cluster/random.ts";
import type { World } from "../fake-cluster/world.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";

export interface Surroundings {
  readonly world: World;
  readonly random: Random;
  /** Adds faults to the cluster that the functions see. */
  readonly wrap: (cluster: Cluster) => Cluster;
  /** True: no process is killed any more, and no machine pauses. */
  isCalm(): boolean;
  /** Called at each kill and each pause. */
  count(what: "kills" | "stalls"): void;
  /** Called with each deletion before it is sent. */
  onDelete(resource: string, name: string): void;
}

export class KilledProcesses {
  readonly #around: Surroundings;

  constructor(around: Surroundings) {
    this.#around = around;
  }

  /** Runs a process that is killed at times and starts again without any memory. Never resolves. */
  async serve(
    run: (context: Context, trigger: { readonly sweep: boolean }) => Promise<ReconcileResult>,
  ): Promise<void> {
    const { world, random, wrap, count } = this.#around;
    const plain = wrap(createWorldCluster(world, { latencyMs: () => 1 + Math.floor(random() * 40) }));
    for (;;) {
      const life = this.#mortal(plain);
      const context: Context = {
        cluster: life.cluster,
        cache: createListReader(life.cluster, undefined),
        protocol,
        reporter: silentReporter,
        mode: "act",
        namespaces: undefined,
        memoryOf: createMemory(),
        settings: { volumeHold: "keep" },
      } as Context;
      while (!life.isDead()) {
        const { pendingActs } = await run(context, { sweep: random() < 0.05 }).catch(() => ({
          pendingActs: undefined,
        }));
        await pendingActs?.catch(() => undefined);
        await plain.sleep(300 + Math.floor(random() * 2_500));
      }
      count("kills");
      await plain.sleep(500 + Math.floor(random() * 2_000));
    }
  }

  /**
   * A connection that dies at one of its next writes, before it is sent or after. From then on the process receives nothing.
   */
  #mortal(cluster: Cluster): { readonly cluster: Cluster; isDead(): boolean } {
    const { random, isCalm, onDelete } = this.#around;
    // Some lives are long, because the ledger lets a new process do nothing for a while (rule R4).
    let left = isCalm() ? Number.POSITIVE_INFINITY : Math.floor(random() ** 2 * 120);
    let isDead = false;
    const dead = (verb: string, resource: string) =>
      new ClusterError({ code: 0, reason: "Dead", message: "killed", verb: verb as "get", resource });
    const mortal = wrapCalls(cluster, async ({ verb, resource, given, writes }, send) => {
      if (isDead) throw dead(verb, resource);
      if (!writes) return send();
      if (isCalm()) left = Number.POSITIVE_INFINITY;
      isDead = left-- <= 0;
      if (isDead && random() < 0.5) throw dead(verb, resource);
      await this.#stall(cluster, given, dead(verb, resource));
      const name = (given[1] as { readonly name?: string } | undefined)?.name;
      if (verb === "delete") onDelete(resource, name ?? "");
      const answer = await send();
      if (isDead) throw dead(verb, resource);
      return answer;
    });
    return { cluster: mortal, isDead: () => isDead };
  }

  /** A machine that pauses right before a request: the client does not send what is too late by then (rule R9). */
  async #stall(cluster: Cluster, given: readonly unknown[], tooLate: ClusterError): Promise<void> {
    const { random, isCalm, count } = this.#around;
    if (isCalm() || random() > 0.02) return;
    count("stalls");
    await cluster.sleep(Math.floor(random() * 30_000));
    const { notAfterMs = Number.POSITIVE_INFINITY } = (given.at(-1) ?? {}) as { readonly notAfterMs?: number };
    if (cluster.monotonicMs() > notAfterMs) throw tooLate;
  }
}

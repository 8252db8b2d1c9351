/** What goes wrong on purpose: programs that are killed, events that are lost, doubled or late, and evictions by the dozen. */
import { setTimeout as delay } from "node:timers/promises";
import { evict } from "../../support/drain-webhook.ts";
import type { Scene } from "../../support/scene.ts";
import type { Answer, Interference } from "./activator.ts";
import type { KnativeCluster } from "./cluster.ts";
import type { Act } from "./stage.ts";

const taken: Answer = { status: 204, headers: {}, body: Buffer.alloc(0) };

/** A third of the requests get lost, though their senders are told that they arrived. */
export const loseAThird: Interference = async (deliver) => (Math.random() < 1 / 3 ? taken : deliver());

/** Each request comes twice, the first time after up to 300 ms and the second up to 300 ms later, in whatever order. */
export const doubleAndShuffle: Interference = async (deliver) => {
  const late = async (): Promise<void> => {
    for (let times = 0; times < 2; times++) {
      await delay(Math.random() * 300);
      // The sender has its answer, and does not send the request again.
      await deliver().catch(() => {});
    }
  };
  void late();
  return taken;
};

export interface Kills {
  adapters: number;
  functions: number;
  replicas: number;
}

/** Kills adapters, functions and replicas that answer reviews, every two seconds or so, until `signal` is aborted. */
export async function killAtRandom(cluster: KnativeCluster, act: Act, signal: AbortSignal): Promise<Kills> {
  const kills = { adapters: 0, functions: 0, replicas: 0 };
  const any = <T>(all: readonly T[]): T | undefined => all[Math.floor(Math.random() * all.length)];
  for (let turn = 0; ; turn++) {
    await delay(1_000 + Math.random() * 2_000, undefined, { signal }).catch(() => {});
    if (signal.aborted) return kills;
    const adapter = any(cluster.adapters(act.namespace));
    const instance = any(act.activator.instances);
    if (turn % 4 === 3) {
      kills.replicas++;
      await act.replicas?.killOne();
    } else if (turn % 2 === 0 && adapter !== undefined) {
      kills.adapters++;
      await adapter.kill(delay(Math.random() * 2_000));
    } else if (instance !== undefined) {
      kills.functions++;
      instance.signal("SIGKILL");
    }
  }
}

/**
 * Evicts pods of the group, any of them, until `signal` is aborted; resolves to how often each status was the answer. Asks
 * again after a 500, which is the answer when the replica that had let the pod go was killed: what that replica reserved would
 * stand until rule R10 drops it.
 */
export async function evictAtRandom({ api, group }: Scene, signal: AbortSignal): Promise<ReadonlyMap<number, number>> {
  const answers = new Map<number, number>();
  const evictOne = async (): Promise<void> => {
    const zone = group.statefulSets[Math.floor(Math.random() * group.statefulSets.length)];
    const pod = `${zone}-${Math.floor(Math.random() * group.pods)}`;
    for (let code = 500; code === 500; ) {
      ({ code } = await evict(api, group.namespace, pod));
      answers.set(code, (answers.get(code) ?? 0) + 1);
      if (code === 500) await delay(500);
    }
  };
  const work = async (): Promise<void> => {
    while (!signal.aborted) {
      await evictOne();
      await delay(200 + Math.random() * 400, undefined, { signal }).catch(() => {});
    }
  };
  await Promise.all(Array.from({ length: 4 }, work));
  return answers;
}

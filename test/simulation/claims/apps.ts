/**
 * The programs in the pods of one seed, as far as claims need them: they can be told to leave, and they restart. As process
 * managers do, they report which process each pod runs.
 */
import type { World } from "../../fake-cluster/world.ts";

export class Apps {
  /** Uids of the pods that were told that they leave. */
  readonly prepared = new Set<string>();
  readonly #world: World;
  /** Number of restarts of each program, by the uid of its pod; undefined while it is down. */
  readonly #restarts = new Map<string, number | undefined>();

  constructor(world: World) {
    this.#world = world;
    world.store.onChange("pods", ({ final, current }) => {
      if (current !== undefined) return;
      this.prepared.delete(final.metadata.uid);
      this.#restarts.delete(final.metadata.uid);
    });
  }

  /** The process that a pod runs now; undefined while it runs none. */
  processOf(uid: string): string | undefined {
    const restarts = this.#restarts.has(uid) ? this.#restarts.get(uid) : 0;
    return restarts === undefined ? undefined : `process ${restarts}`;
  }

  /**
   * Restarts the program of a pod in place: the pod is not ready for `forMs`; for 0, the program is back before a probe fails.
   * Returns false if another pod has that name.
   */
  restart(name: string, namespace: string, uid: string, forMs: number): boolean {
    const { store, kubelet, timeline } = this.#world;
    const isIt = () => {
      const pod = store.find("pods", { namespace, name });
      return pod?.metadata.uid === uid && pod.metadata.deletionTimestamp === undefined;
    };
    if (!isIt()) return false;
    const restarts = (this.#restarts.get(uid) ?? 0) + 1;
    this.#restarts.set(uid, forMs === 0 ? restarts : undefined);
    if (forMs === 0) return true;
    kubelet.breakPod({ namespace, name }, "Error");
    timeline.after(forMs, () => {
      if (!isIt()) return;
      this.#restarts.set(uid, restarts);
      kubelet.healPod({ namespace, name });
    });
    return true;
  }
}

/** The programs in the pods of one seed, as far as claims need them: they can be told to leave, and they restart. */
import type { World } from "../../fake-cluster/world.ts";

export class Apps {
  /** Uids of the pods that were told that they leave. */
  readonly prepared = new Set<string>();
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
    world.store.onChange("pods", ({ final, current }) => {
      if (current === undefined) this.prepared.delete(final.metadata.uid);
    });
  }

  /** Restarts the program of a pod in place: the pod is not ready for `forMs`. Returns false if another pod has that name. */
  restart(name: string, namespace: string, uid: string, forMs: number): boolean {
    const { store, kubelet, timeline } = this.#world;
    const isIt = () => {
      const pod = store.find("pods", { namespace, name });
      return pod?.metadata.uid === uid && pod.metadata.deletionTimestamp === undefined;
    };
    if (!isIt()) return false;
    kubelet.breakPod({ namespace, name }, "Error");
    timeline.after(forMs, () => {
      if (isIt()) kubelet.healPod({ namespace, name });
    });
    return true;
  }
}

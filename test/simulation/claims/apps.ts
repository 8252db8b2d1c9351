/** What runs in the pods of one seed, as far as claims are about it: processes that are told to leave, and that restart. */
import type { World } from "../../fake-cluster/world.ts";

export class Apps {
  /** The uids of pods that have been told that they leave. */
  readonly prepared = new Set<string>();
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
    world.store.onChange("pods", ({ final, current }) => {
      if (current === undefined) this.prepared.delete(final.metadata.uid);
    });
  }

  /** Restarts what runs in a pod, in place: it is not ready for so long. False where another pod has the name. */
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

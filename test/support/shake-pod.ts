/** Accidents of pods in a drawn history. */
import type { NamespacedMetadata } from "../fake-cluster/objects.ts";
import type { Random } from "../fake-cluster/random.ts";
import type { VirtualTimeline } from "../fake-cluster/timeline.ts";
import type { World } from "../fake-cluster/world.ts";

const brokenForMs = 8_000;

/** A user deletes the pod, or it fails its probe for a while. Does nothing if it is gone or terminating. */
export function shakePod(
  { world, timeline, random }: { readonly world: World; readonly timeline: VirtualTimeline; readonly random: Random },
  key: Pick<NamespacedMetadata, "namespace" | "name">,
): void {
  const pod = world.store.find("pods", key);
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return;
  if (random() < 0.3) {
    world.store.delete("pods", key);
    return;
  }
  world.kubelet.breakPod(key);
  timeline.after(brokenForMs, () => {
    if (world.store.find("pods", key) !== undefined) world.kubelet.healPod(key);
  });
}

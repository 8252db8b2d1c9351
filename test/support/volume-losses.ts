/** Watches a world for volumes that are lost before their time (invariant B2), and for endless writes. */
import type { StoredObject } from "../fake-cluster/objects.ts";
import type { World } from "../fake-cluster/world.ts";
import { labels } from "./foundationdb.ts";

const checked = "B2";
const protection = "sluice.dev/volume-protection";
const state = "sluice.dev/suspend-state";
/** Shortest duration that a user asks for, less the possible error of a stamp and its age; in milliseconds. */
const leastMs = 10_000 - 1_500;

export class VolumeLosses {
  readonly #world: World;
  /** When the last pod of each process group went; undefined while one exists. */
  readonly #podGoneMs = new Map<string, number>();
  readonly #expected = new Set<string>();
  /** When each volume claim was last written, by its name. */
  readonly #writtenMs = new Map<string, number>();

  constructor(world: World, violate: (message: string) => void) {
    this.#world = world;
    const nowMs = () => world.timeline.nowMs();
    world.store.onChange("pods", ({ current, final }) => {
      const id = (current ?? final).metadata.labels?.[labels.id] ?? "";
      if (current === undefined) this.#podGoneMs.set(id, nowMs());
      else this.#podGoneMs.delete(id);
    });
    world.store.onChange("persistentvolumeclaims", ({ previous, current, final }) => {
      const { metadata } = (current ?? final) as unknown as StoredObject;
      const id = metadata.labels?.[labels.id] ?? "";
      const check = () => {
        const goneMs = this.#podGoneMs.get(id);
        const ageMs = goneMs === undefined ? 0 : nowMs() - goneMs;
        if (ageMs < leastMs) violate(`${checked}: the volume of ${id} is lost ${ageMs} ms after its pod`);
      };
      if (current === undefined) {
        this.#writtenMs.delete(metadata.name);
        if (this.#expected.delete(metadata.uid)) check();
        return;
      }
      this.#writtenMs.set(metadata.name, nowMs());
      const isNew = previous?.metadata.deletionTimestamp === undefined && metadata.deletionTimestamp !== undefined;
      if (isNew && metadata.finalizers?.includes(protection)) this.#expected.add(metadata.uid);
      // From here on the claim goes, even if its pod is made again. A mark that comes after the new pod is taken back.
      const isMarked = metadata.annotations?.[state] === "Removing" && metadata.deletionTimestamp !== undefined;
      const isOver = isMarked && this.#podGoneMs.has(id);
      if (isOver && this.#expected.delete(metadata.uid)) check();
    });
  }

  /** A user deletes a pod and its volume claim, whose volume must be kept. False if the claim is too new, or gone already. */
  take(pod: { readonly namespace: string; readonly name: string }): boolean {
    const { store, timeline } = this.#world;
    const claim = { ...pod, name: `${pod.name}-data` };
    const { metadata } = store.find("persistentvolumeclaims", claim) ?? {};
    const ageMs = timeline.nowMs() - Date.parse(metadata?.creationTimestamp ?? "");
    // Before a volume has our finalizer Sluice does not keep it, and processes may be stopped or dead for half a minute.
    if (metadata === undefined || metadata.deletionTimestamp !== undefined || !(ageMs > 60_000)) return false;
    this.#expected.add(metadata.uid);
    if (store.find("pods", pod) !== undefined) store.delete("pods", pod);
    store.delete("persistentvolumeclaims", claim);
    return true;
  }

  /** True if the claim is deleted and our finalizer keeps its volume. */
  isKept({ metadata: { deletionTimestamp, finalizers } }: StoredObject): boolean {
    return deletionTimestamp !== undefined && finalizers?.includes(protection) === true;
  }

  writtenSince(ms: number): readonly string[] {
    const written = [...this.#writtenMs].filter(([, atMs]) => atMs >= ms);
    return written.map(([name]) => `${name} is written again and again`);
  }
}

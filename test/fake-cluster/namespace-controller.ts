/**
 * Empties a namespace that is being deleted, and removes it when it is empty, as the namespace controller of
 * kube-controller-manager 1.36 does (pkg/controller/namespace). It begins after five seconds, and deletes the pods first:
 * nothing else goes before the last of them has gone (KEP-5080).
 */

import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { resourceNames, type StoredObject, traitsOf } from "./objects.ts";
import type { Store } from "./store.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

/** Time from the deletion of a namespace until the controller begins (`namespaceDeletionGracePeriod`), in milliseconds. */
const graceMs = 5_000;

const namespaced: readonly Resource[] = resourceNames.filter((resource) => traitsOf(resource).isNamespaced);

export class NamespaceController {
  readonly #timeline: Timeline;
  readonly #store: Store;
  readonly #delayMs: () => number;
  readonly #subscriptions: readonly Cancel[];
  /** Namespaces that are being deleted, by name, and since when. */
  readonly #ending = new Map<string, number>();

  constructor(options: { readonly timeline: Timeline; readonly store: Store; readonly delayMs: () => number }) {
    this.#timeline = options.timeline;
    this.#store = options.store;
    this.#delayMs = options.delayMs;
    const onContent = (change: Change<StoredObject>): void => this.#onContent(change);
    this.#subscriptions = [
      this.#store.onChange("namespaces", (change: Change<StoredObject>) => this.#onNamespace(change)),
      ...namespaced.map((resource) => this.#store.onChange(resource, onContent)),
    ];
  }

  stop(): void {
    for (const cancel of this.#subscriptions) cancel();
  }

  #onNamespace({ current, final }: Change<StoredObject>): void {
    const { name } = final.metadata;
    if (current === undefined) this.#ending.delete(name);
    else if (current.metadata.deletionTimestamp !== undefined && !this.#ending.has(name)) {
      this.#ending.set(name, this.#timeline.nowMs());
      this.#plan(name);
    }
  }

  /** When the last object has gone, its namespace may go. */
  #onContent({ current, final }: Change<StoredObject>): void {
    const { namespace = "" } = final.metadata;
    if (current === undefined && this.#ending.has(namespace)) this.#plan(namespace);
  }

  #plan(name: string): void {
    const sinceMs = this.#ending.get(name) ?? 0;
    this.#timeline.after(Math.max(this.#delayMs(), sinceMs + graceMs - this.#timeline.nowMs()), () => {
      if (this.#ending.get(name) === sinceMs) this.#empty(name);
    });
  }

  #empty(name: string): void {
    if (this.#emptyOf("pods", name) > 0) return;
    // Includes types that were defined meanwhile. A type whose definition is gone has no objects.
    const others = this.#store.served().filter((resource) => resource !== "pods" && traitsOf(resource).isNamespaced);
    const left = others.map((resource) => this.#emptyOf(resource, name));
    if (left.every((count) => count === 0))
      this.#store.patch("namespaces", { namespace: "", name }, { spec: { finalizers: null } });
  }

  /** Deletes all objects of a type. Returns how many of them are not gone yet. */
  #emptyOf(resource: Resource, namespace: string): number {
    const { items } = this.#store.list(resource, { namespace });
    return items.filter(({ metadata: { name, uid, deletionTimestamp } }) => {
      const options = { preconditions: { uid }, propagationPolicy: "Background" } as const;
      return deletionTimestamp !== undefined || !this.#store.delete(resource, { namespace, name }, options).removed;
    }).length;
  }
}
